package e2e

import (
	"bytes"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/db/dbtest"
)

// The audit trail by the command line: listed, shown, exported, and verified with
// a server and without one. Of a byte that changed, a row that is gone and a tail
// that was cut the place is named.
func TestTheAuditTrailByTheCommandLine(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "registry.db")
		auditByCommandLine(t, "sqlite:"+file, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)",
			"DROP TRIGGER audit_append_only", "DROP TRIGGER audit_keep")
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		dsn := dbtest.Postgres(t)
		auditByCommandLine(t, dsn, "pgx", dsn, "ALTER TABLE audit DISABLE TRIGGER USER")
	})
}

// rowsOfTrail is how many rows the test makes: five drafts and one refusal.
const rowsOfTrail = 6

func auditByCommandLine(t *testing.T, url, driver, dsn string, unlock ...string) {
	t.Helper()
	d := newDev(t) // lends its Temporal
	d.start(t)
	i := newInstallation(t, d, url, "COUNTERSIGN_AUDIT_SEAL_INTERVAL=1s", "COUNTERSIGN_AUDIT_SIGNING_KEY=env:AUDIT_KEY", "AUDIT_KEY="+strings.Repeat("7", 64))
	// Somebody whose name a spreadsheet would reckon with.
	const formula = `=HYPERLINK(1)`
	i.env = append(i.env, "COUNTERSIGN_AUTH_TOKENS_FILE="+write(t, fmt.Sprintf(`tokens:
  - {token: %s, tenant: %s, subject: ann, roles: [PlatformAdmin]}
  - {token: canary-observer-7c21d0, tenant: %[2]s, subject: "%s", roles: [Observer]}
`, i.tokens[first], first, formula)))
	n := i.serve(t, "all")
	dir := t.TempDir()
	as := func(token string, args ...string) (int, string, string) {
		t.Helper()
		p := launch(t, "countersign", []string{"COUNTERSIGN_SERVER=" + n.url(), "COUNTERSIGN_TOKEN=" + token}, args...)
		code := p.await(t)
		return code, p.out.String(), p.log.String()
	}
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, log := as(i.tokens[first], args...)
		if code != want {
			t.Fatalf("%q ends with %d, want %d: %s%s", args, code, want, out, log)
		}
		return out
	}
	alone := func(want int, args ...string) string { // nobody to ask
		t.Helper()
		p := launch(t, "countersign", nil, args...)
		if code := p.await(t); code != want {
			t.Fatalf("%q without a server ends with %d, want %d: %s%s", args, code, want, p.out.String(), p.log.String())
		}
		return p.out.String()
	}
	contains := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("there is no %q in\n%s", part, out)
			}
		}
	}

	for n := range rowsOfTrail - 1 {
		run(0, "descriptors", "create", fmt.Sprintf("tool-%d", n), "--class", "read")
	}
	if code, out, log := as("canary-observer-7c21d0", "descriptors", "create", "tool-x", "--class", "read"); code == 0 || !strings.Contains(log, "permission_denied") {
		t.Fatalf("an observer: %d %s%s", code, out, log)
	}
	if code, _, log := as("canary-observer-7c21d0", "audit", "list"); code == 0 || !strings.Contains(log, "permission_denied") {
		t.Errorf("an observer reads the trail: %d %s", code, log)
	}

	// Listed and shown.
	contains(run(0, "audit", "list"), "create_descriptor", "descriptor tool-4", "applied", "refused: permission_denied", formula)
	refused := strings.TrimSpace(run(0, "audit", "list", "--filter", "outcome = refused", "-o", "name"))
	contains(run(0, "audit", "show", refused), formula, "descriptor tool-x", "permission_denied", "api")
	if out := run(0, "audit", "list", "--object", "tool-3", "-o", "name"); len(strings.Fields(out)) != 1 {
		t.Errorf("of one object: %q", out)
	}

	// Sealed, exported, verified.
	until(t, "everything is sealed", patience, func() error {
		code, out, log := as(i.tokens[first], "audit", "verify")
		if code != 0 || strings.Contains(log, "not sealed yet") || !strings.Contains(out, fmt.Sprintf("signed through position %d,", rowsOfTrail)) {
			return fmt.Errorf("%d %s%s", code, out, log)
		}
		return nil
	})
	contains(run(0, "audit", "verify"), "nothing is wrong", fmt.Sprintf("signed through position %d", rowsOfTrail))
	export, marks := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "checkpoints.jsonl")
	run(0, "audit", "export", "--file", export)
	if err := os.WriteFile(marks, []byte(run(0, "audit", "checkpoints", "-o", "jsonl")), 0o600); err != nil {
		t.Fatal(err)
	}
	var key struct {
		Public string `json:"publicKey"`
	}
	if err := json.Unmarshal([]byte(run(0, "audit", "keys", "-o", "jsonl")), &key); err != nil || key.Public == "" {
		t.Fatal(key, err)
	}
	cells, err := csv.NewReader(strings.NewReader(run(0, "audit", "export", "--csv"))).ReadAll()
	if err != nil || len(cells) != 1+rowsOfTrail {
		t.Fatalf("%d lines of CSV: %v", len(cells), err)
	}
	if !slices.Contains(cells[rowsOfTrail], "'"+formula) {
		t.Errorf("the formula is in CSV as it was: %q", cells[rowsOfTrail])
	}

	// Files, with nobody to ask.
	contains(alone(0, "audit", "verify", export, "--key", key.Public, "--checkpoints", marks), "nothing is wrong")
	whole, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(whole))
	at := func(position int) int { // the line of a row
		t.Helper()
		for n, line := range lines {
			if bytes.Contains(line, fmt.Appendf(nil, `"position":%d,`, position)) && bytes.Contains(line, []byte("countersign.audit.event/1")) {
				return n
			}
		}
		t.Fatalf("no position %d in\n%s", position, whole)
		return 0
	}
	forged := func(change func([][]byte) [][]byte) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "forged.jsonl")
		if err := os.WriteFile(name, bytes.Join(change(slices.Clone(lines)), nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const findings = 7
	one := forged(func(l [][]byte) [][]byte {
		l[at(3)] = bytes.Replace(l[at(3)], []byte(`"ann"`), []byte(`"amn"`), 1)
		return l
	})
	contains(alone(findings, "audit", "verify", one, "--key", key.Public), "row_changed at position 3")
	gap := forged(func(l [][]byte) [][]byte { return slices.Delete(l, at(2), at(2)+1) })
	contains(alone(findings, "audit", "verify", gap, "--key", key.Public), "rows_missing at position 2")
	short := forged(func(l [][]byte) [][]byte { return l[:at(rowsOfTrail-1)] })
	contains(alone(findings, "audit", "verify", short, "--key", key.Public, "--checkpoints", marks), fmt.Sprintf("tail_cut at position %d", rowsOfTrail-1))

	// The database, by whoever owns it.
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	change := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := pool.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	if _, err := pool.ExecContext(t.Context(), "UPDATE audit SET actor = 'amn' WHERE position = 3"); err == nil {
		t.Error("the table takes the change of a row")
	}
	change(unlock...)
	change("UPDATE audit SET actor = 'amn' WHERE position = 3")
	contains(run(findings, "audit", "verify"), "row_changed at position 3")
	change("UPDATE audit SET actor = 'ann' WHERE position = 3")
	contains(run(0, "audit", "verify"), "nothing is wrong")
	change("DELETE FROM audit WHERE position = 2")
	contains(run(findings, "audit", "verify"), "rows_missing at position 2")
	change(fmt.Sprintf("DELETE FROM audit WHERE position >= %d", rowsOfTrail-1))
	contains(run(findings, "audit", "verify"), "rows_missing at position 2", fmt.Sprintf("tail_cut at position %d", rowsOfTrail-1))
	// Who erases the traces of it too is shown by what was kept elsewhere.
	if driver == "sqlite" {
		change("DROP TRIGGER audit_checkpoints_keep")
	} else {
		change("ALTER TABLE audit_checkpoints DISABLE TRIGGER USER")
	}
	change("DELETE FROM audit_checkpoints", "DELETE FROM audit_heads")
	contains(run(findings, "audit", "verify", "--checkpoints", marks), "tail_cut")
	n.stop(t)
	if strings.Contains(n.log.String(), "canary") {
		t.Errorf("the log has a token:\n%s", n.log.String())
	}
}
