package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// signer signs the tests' checkpoints.
var signer = func() *registry.AuditSigner {
	s, err := registry.ParseAuditSigner(strings.Repeat("5", 64))
	if err != nil {
		panic(err)
	}
	return s
}()

// sealed seals all that a tenant has, in one step. On Postgres rows can be sealed
// when all older transactions of the server have ended, those of other tests too.
func sealed(tb testing.TB, d *db.DB, tenant string) {
	tb.Helper()
	want := count(tb, d, "SELECT count(*) FROM audit WHERE position IS NULL AND tenant_id = '"+tenant+"'")
	settled(tb, d)
	out, err := d.System().SealAudit(tb.Context(), tenant, 1000, signer.Sign)
	if err != nil || out.Rows != want || out.More || out.Elsewhere {
		tb.Fatalf("sealed %+v of %d rows: %v", out, want, err)
	}
}

// settled waits until no transaction runs that is older than a row which is
// there. On SQLite none ever does.
func settled(tb testing.TB, d *db.DB) {
	tb.Helper()
	newest := count(tb, d, "SELECT COALESCE(max(tx), 0) FROM audit")
	for end := time.Now().Add(2 * time.Minute); newest > 0; {
		if count(tb, d, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint") > newest {
			return
		}
		if time.Now().After(end) {
			tb.Fatal("an older transaction never ends")
		}
	}
}

func verify(tb testing.TB, d *db.DB, tenant string, kept ...registry.AuditCheckpoint) (registry.AuditReport, []string) {
	tb.Helper()
	report, more, err := d.Tenant(tenant).VerifyAudit(tb.Context(), registry.AuditPoint{}, kept, 1<<20, signer.Public())
	if err != nil || more {
		tb.Fatalf("verifying: more %v, %v", more, err)
	}
	var faults []string
	for _, f := range report.Faults {
		s := fmt.Sprintf("%s %d", f.Kind, f.Position)
		if f.Through > 0 {
			s += fmt.Sprintf("-%d", f.Through)
		}
		if f.Checkpoint > 0 {
			s += fmt.Sprintf(" #%d", f.Checkpoint)
		}
		faults = append(faults, s)
	}
	return report, faults
}

// audits writes so many rows, each in a transaction of its own.
func (w *world) audits(n int) {
	w.tb.Helper()
	for i := range n {
		err := w.AuditRefusal(w.tb.Context(), db.AuditEntry{
			Actor: "ann", Roles: []registry.Role{registry.RoleOperator}, Action: "retire", ObjectKind: "server", ObjectID: "srv_1", ObjectName: "weather",
			Origin: registry.OriginAPI, OperationID: fmt.Sprint(i), Reason: registry.ReasonPermissionDenied, Note: "no \"way\"\n☃",
		})
		if err != nil {
			w.tb.Fatal(err)
		}
	}
}

func TestAuditRowsAreSealedInAChain(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w, other := newWorld(t, d, "acme"), newWorld(t, d, "globex")
		s := w.register("weather")
		w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		other.audits(2)
		sealed(t, d, "acme")
		report, faults := verify(t, d, "acme")
		if faults != nil || report.Rows != 3 || report.Unsealed != 0 || report.Signed != 3 || report.Checkpoints == 0 {
			t.Errorf("%+v", report)
		}
		if report, faults := verify(t, d, "globex"); faults != nil || report.Rows != 0 || report.Unsealed != 2 {
			t.Errorf("of another tenant: %+v", report)
		}
		// It goes on where it was, and twice is once.
		w.audits(3)
		sealed(t, d, "acme")
		before := rowsOf(t, d)
		for range 2 {
			if out, err := d.System().SealAudit(t.Context(), "acme", 1000, signer.Sign); err != nil || out.Rows != 0 || out.Checkpoint != nil || out.Broken {
				t.Errorf("again: %+v, %v", out, err)
			}
		}
		if diff := cmp.Diff(before, rowsOf(t, d)); diff != "" {
			t.Errorf("sealing again changes rows: %s", diff)
		}
		if report, faults := verify(t, d, "acme"); faults != nil || report.Last.Position != 6 {
			t.Errorf("%+v", report)
		}
		// In parts, each from the end of the one before.
		var from registry.AuditPoint
		for parts := 1; ; parts++ {
			report, more, err := w.VerifyAudit(t.Context(), from, nil, 2, signer.Public())
			if err != nil || !report.Sound() {
				t.Fatalf("part %d: %+v, %v", parts, report, err)
			}
			if from = report.Last; !more {
				if parts != 3 || from.Position != 6 {
					t.Errorf("%d parts, to %d", parts, from.Position)
				}
				break
			}
		}
		// What is not the chain's is not found.
		if _, err := w.AuditExport(t.Context(), db.AuditQuery{}, 7, 0, 10); registry.ReasonOf(err) != registry.ReasonAuditEventNotFound {
			t.Errorf("behind the end: %v", err)
		}
	})
}

// rowsOf gives what stands in the chain of all tenants.
func rowsOf(tb testing.TB, d *db.DB) []string {
	tb.Helper()
	return column[string](tb, raw(tb, d), "SELECT tenant_id || ' ' || position || ' ' || hash FROM audit WHERE position IS NOT NULL ORDER BY tenant_id, position")
}

// A transaction that began early and commits late is not skipped and breaks
// nothing: on Postgres sealing waits for it, SQLite has one writer.
func TestALateCommitIsSealedInItsPlace(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	w := newWorld(t, d, "acme")
	w.audits(1)
	sealed(t, d, "acme")
	late, err := raw(t, d).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback() }()
	_, err = late.ExecContext(t.Context(), `INSERT INTO audit (audit_id, tenant_id, at, actor, roles, origin, action, object_kind, object_id, object_name, operation_id, outcome, reason,
version_before, version_after, digest_before, digest_after, note, detail) VALUES ('late', 'acme', now(), 'ann', '[]', 'api', 'x', 'server', 's', '', 'o', 'applied', '', 0, 0, '', '', '', '{}')`)
	if err != nil {
		t.Fatal(err)
	}
	w.audits(3) // later transactions, which commit first
	for range 3 {
		if out, err := d.System().SealAudit(t.Context(), "acme", 1000, signer.Sign); err != nil || out.Rows != 0 {
			t.Fatalf("sealed before an older transaction ended: %+v, %v", out, err)
		}
	}
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	sealed(t, d, "acme")
	chain, err := w.AuditExport(t.Context(), db.AuditQuery{}, 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain.Entries) != 5 || chain.Entries[1].AuditID != "late" {
		t.Errorf("the late row is at another place of %d", len(chain.Entries))
	}
	if _, faults := verify(t, d, "acme"); faults != nil {
		t.Error(faults)
	}
}

// A database that was restored from another one's dump has rows with numbers
// that it has not given yet. They wait for nobody.
func TestRowsOfARestoredDatabaseAreSealed(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	w := newWorld(t, d, "acme")
	w.audits(3)
	exec(t, d, "ALTER TABLE audit DISABLE TRIGGER audit_append_only", "UPDATE audit SET tx = tx + 1000000000", "ALTER TABLE audit ENABLE TRIGGER audit_append_only")
	out, err := d.System().SealAudit(t.Context(), "acme", 1000, signer.Sign)
	if err != nil || out.Rows != 3 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Many write and many seal, in small steps and with checkpoints between: every
// row is in its tenant's chain once.
func TestManySealWhileManyWrite(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		const writers, each, sealers = 4, 15, 3
		tenants := []string{"acme", "globex"}
		var writing, sealing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				for range each {
					for _, tenant := range tenants {
						newWorld(t, d, tenant).audits(1)
					}
				}
			})
		}
		ctx, stop := context.WithCancel(t.Context())
		for range sealers {
			sealing.Go(func() {
				for ctx.Err() == nil {
					for _, tenant := range tenants {
						if _, err := d.System().SealAudit(t.Context(), tenant, 3, signer.Sign); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		writing.Wait()
		stop()
		sealing.Wait()
		for _, tenant := range tenants {
			sealed(t, d, tenant)
			report, faults := verify(t, d, tenant)
			if faults != nil || report.Rows != writers*each {
				t.Errorf("%s: %d rows, %v", tenant, report.Rows, faults)
			}
		}
	})
}

// While one process seals a tenant the others leave it alone.
func TestATenantIsSealedByOne(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	newWorld(t, d, "acme").audits(2)
	holder, err := raw(t, d).BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback() }()
	if _, err := holder.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('audit/acme', 0))"); err != nil {
		t.Fatal(err)
	}
	if out, err := d.System().SealAudit(t.Context(), "acme", 10, signer.Sign); err != nil || !out.Elsewhere || out.Rows != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	sealed(t, d, "acme")
}

// A process that dies in a step, or between two, leaves nothing half done.
func TestSealingThatDiesGoesOn(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		w.audits(7)
		settled(t, d)
		if out, err := d.System().SealAudit(t.Context(), "acme", 3, signer.Sign); err != nil || out.Rows != 3 || !out.More || out.Checkpoint != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		before := rowsOf(t, d)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the step did not die")
				}
			}()
			_, _ = d.System().SealAudit(t.Context(), "acme", 1000, func(registry.AuditCheckpoint) registry.AuditCheckpoint { panic("dies") })
		}()
		if diff := cmp.Diff(before, rowsOf(t, d)); diff != "" {
			t.Errorf("a step that died left: %s", diff)
		}
		sealed(t, d, "acme")
		if report, faults := verify(t, d, "acme"); faults != nil || report.Rows != 7 || report.Signed != 7 {
			t.Errorf("%+v", report)
		}
	})
}

// A key that is configured later signs what was sealed without one.
func TestAKeyMayComeLater(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		newWorld(t, d, "acme").audits(2)
		settled(t, d)
		if out, err := d.System().SealAudit(t.Context(), "acme", 1000, nil); err != nil || out.Rows != 2 {
			t.Fatalf("%+v, %v", out, err)
		}
		if behind, err := d.System().AuditBacklogs(t.Context(), false); err != nil || len(behind) != 0 {
			t.Errorf("to be sealed: %+v, %v", behind, err)
		}
		report, faults := verify(t, d, "acme")
		if faults != nil || report.Rows != 2 || report.Signed != 0 || report.Checkpoints != 0 {
			t.Errorf("%+v", report)
		}
		behind, err := d.System().AuditBacklogs(t.Context(), true)
		if err != nil || len(behind) != 1 || behind[0] != (registry.AuditBacklog{Tenant: "acme"}) {
			t.Errorf("to be signed: %+v, %v", behind, err)
		}
		out, err := d.System().SealAudit(t.Context(), "acme", 1000, signer.Sign)
		if err != nil || out.Rows != 0 || out.Checkpoint == nil || out.Checkpoint.Count != 2 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestTheBacklogSaysHowOldItIs(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		newWorld(t, d, "acme").audits(2)
		behind, err := d.System().AuditBacklogs(t.Context(), true)
		if err != nil || len(behind) != 1 || behind[0].Rows != 2 || behind[0].Lag < 0 || behind[0].Lag > time.Minute {
			t.Errorf("%+v, %v", behind, err)
		}
	})
}

// unguarded runs statements as somebody who owns the tables: the triggers that
// keep everybody else from it are off.
func unguarded(tb testing.TB, d *db.DB, engine string, statements ...string) {
	tb.Helper()
	if engine == "Postgres" {
		exec(tb, d, "ALTER TABLE audit DISABLE TRIGGER USER", "ALTER TABLE audit_checkpoints DISABLE TRIGGER USER")
	} else {
		exec(tb, d, "DROP TRIGGER audit_append_only", "DROP TRIGGER audit_keep", "DROP TRIGGER audit_checkpoints_keep", "DROP TRIGGER audit_checkpoints_append_only")
	}
	exec(tb, d, statements...)
}

// Whoever owns the database can change what is in it. It shows.
func TestTamperingIsFoundAndPlaced(t *testing.T) {
	engines(t, func(t on) {
		engine := "SQLite"
		if strings.Contains(t.Name(), "Postgres") {
			engine = "Postgres"
		}
		d := t.db
		const copied = "actor, roles, origin, action, object_kind, object_id, object_name, operation_id, outcome, reason, version_before, version_after, digest_before, digest_after, note, detail"
		for i, c := range []struct {
			name       string
			statements []string // %[1]s is the tenant
			want       []string
		}{
			{"one byte", []string{"UPDATE audit SET note = 'no \"Way\"\n☃' WHERE tenant_id = '%[1]s' AND position = 3"}, []string{"row_changed 3"}},
			{"the object's name", []string{"UPDATE audit SET object_name = 'Weather' WHERE tenant_id = '%[1]s' AND position = 6"}, []string{"row_changed 6"}},
			{"out of the middle", []string{"DELETE FROM audit WHERE tenant_id = '%[1]s' AND position = 4"}, []string{"rows_missing 4-4"}},
			{
				"inserted", []string{
					"UPDATE audit SET position = position + 100 WHERE tenant_id = '%[1]s' AND position > 4",
					"UPDATE audit SET position = position - 99 WHERE tenant_id = '%[1]s' AND position > 4",
					"INSERT INTO audit (audit_id, tenant_id, at, position, prev_hash, hash, " + copied + ") SELECT 'more ' || audit_id, tenant_id, at, 5, prev_hash, hash, " + copied + " FROM audit WHERE tenant_id = '%[1]s' AND position = 4",
				}, []string{"row_replaced 4", "row_changed 5", "row_changed 6", "row_changed 7", "checkpoint_contradicted 6 #2", "row_inserted 7-7"},
			},
			{"the tail", []string{"DELETE FROM audit WHERE tenant_id = '%[1]s' AND position > 4"}, []string{"tail_cut 5-6", "tail_cut 5-6"}},
			{
				"the tail with its traces", []string{
					"DELETE FROM audit WHERE tenant_id = '%[1]s' AND position > 3", "DELETE FROM audit_checkpoints WHERE tenant_id = '%[1]s' AND number > 1",
					"UPDATE audit_heads SET position = 3, checkpoints = 1, checkpointed = 3, hash = (SELECT hash FROM audit WHERE tenant_id = '%[1]s' AND position = 3) WHERE tenant_id = '%[1]s'",
				}, nil, // but not with a checkpoint that was kept elsewhere: below
			},
			{"a checkpoint", []string{"DELETE FROM audit_checkpoints WHERE tenant_id = '%[1]s' AND number = 1"}, []string{"checkpoint_missing 0 #1"}},
			{"the last checkpoint", []string{"DELETE FROM audit_checkpoints WHERE tenant_id = '%[1]s' AND number = 2"}, []string{"checkpoint_missing 0 #2"}},
			{"another key", nil, []string{"checkpoint_key_unknown 6 #2"}},
			{"a position taken away", []string{"UPDATE audit SET position = NULL WHERE tenant_id = '%[1]s' AND position = 2"}, []string{"rows_missing 2-2"}},
		} {
			tenant := fmt.Sprintf("tenant-%d", i)
			w := newWorld(t, d, tenant)
			w.audits(3)
			sealed(t, d, tenant)
			w.audits(3)
			sealed(t, d, tenant)
			kept, _, _, err := w.AuditCheckpoints(t.Context(), db.Page{})
			if err != nil || len(kept) != 2 {
				t.Fatalf("%d checkpoints, %v", len(kept), err)
			}
			for n := range c.statements {
				c.statements[n] = fmt.Sprintf(c.statements[n], tenant)
			}
			if i == 0 {
				unguarded(t, d, engine, c.statements...)
			} else {
				exec(t, d, c.statements...)
			}
			if c.name == "another key" {
				theirs, err := registry.ParseAuditSigner(strings.Repeat("6", 64))
				if err != nil {
					t.Fatal(err)
				}
				signed := theirs.Sign(kept[0])
				if _, err := raw(t, d).ExecContext(t.Context(), "UPDATE audit_checkpoints SET key_id = $1, signature = $2 WHERE tenant_id = $3 AND number = 2", signed.KeyID, signed.Signature, tenant); err != nil {
					t.Fatal(err)
				}
			}
			_, faults := verify(t, d, tenant)
			if diff := cmp.Diff(c.want, faults); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
			if c.name == "the tail with its traces" {
				if _, faults := verify(t, d, tenant, kept...); !slices.Equal(faults, []string{"tail_cut 4-6"}) {
					t.Errorf("%s, with a checkpoint kept elsewhere: %v", c.name, faults)
				}
			}
			if c.name == "the tail" { // sealing goes on behind what was there, so that the gap stays
				w.audits(1)
				settled(t, d)
				if out, err := d.System().SealAudit(t.Context(), tenant, 10, signer.Sign); err != nil || !out.Broken || out.Rows != 1 {
					t.Fatalf("%+v, %v", out, err)
				}
				if _, faults := verify(t, d, tenant); !slices.Equal(faults, []string{"rows_missing 5-6"}) {
					t.Errorf("%s, and rows behind it: %v", c.name, faults)
				}
			}
		}
	})
}

// Nobody but an owner of the tables changes what is sealed.
func TestSealedRowsStay(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		newWorld(t, d, "acme").audits(2)
		sealed(t, d, "acme")
		newWorld(t, d, "acme").audits(1)
		for _, statement := range []string{
			"UPDATE audit SET position = 9 WHERE position = 2", "UPDATE audit SET hash = NULL WHERE position = 2", "UPDATE audit SET object_name = 'x' WHERE position IS NULL",
			"UPDATE audit SET note = 'x'", "DELETE FROM audit", "UPDATE audit_checkpoints SET head = 'x'", "DELETE FROM audit_checkpoints",
		} {
			if _, err := raw(t, d).ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
}

func TestAuditRowsAreFound(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		s := w.register("weather")
		found := w.discover(s.ServerID, surface("forecast"))
		w.approve(found, "forecast")
		w.register("other")
		w.publishes("payments", 1)
		w.audits(1) // of something else that was named weather
		all, _, total, err := w.AuditPage(t.Context(), db.AuditQuery{})
		if err != nil || total != 6 || len(all) != 6 {
			t.Fatalf("%d of %d, %v", len(all), total, err)
		}
		tell := func(q db.AuditQuery) string {
			t.Helper()
			var out []string
			for {
				entries, next, total, err := w.AuditPage(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					out = append(out, e.Action+" "+e.ObjectName)
				}
				if q.After = next; next == "" {
					if total != len(out) {
						t.Errorf("%+v: %d of %d", q, len(out), total)
					}
					return strings.Join(out, ", ")
				}
			}
		}
		is := func(field string, op db.Op, value string) []db.Condition {
			return []db.Condition{{Field: field, Op: op, Value: value}}
		}
		for want, q := range map[string]db.AuditQuery{
			"retire weather, publish_policy payments, register other, approve weather, discovered weather, register weather": {},
			"register weather, discovered weather, approve weather, register other, publish_policy payments, retire weather": {Oldest: true, Page: db.Page{Size: 2}},
			"retire weather, approve weather, discovered weather, register weather":                                          {Object: "weather", Page: db.Page{Size: 3}},
			"approve weather, discovered weather, register weather":                                                          {Object: s.ServerID},
			"publish_policy payments":                 {Object: "payments@1"},
			"retire weather":                          {Conditions: is("outcome", db.OpIs, "refused")},
			"register other":                          {Conditions: append(is("action", db.OpIs, "register"), is("object_name", db.OpIsNot, "weather")...)},
			"publish_policy payments, register other": {Conditions: is("object_name", db.OpHas, "E"), From: all[2].At, Before: all[0].At},
			"register weather":                        {Before: all[4].At},
			"":                                        {Conditions: is("actor", db.OpIs, "nobody")},
		} {
			if got := tell(q); got != want {
				t.Errorf("%+v finds %s; want %s", q, got, want)
			}
		}
		if _, _, err := w.Audit(t.Context(), db.AuditQuery{Conditions: is("nothing", db.OpIs, "")}); registry.ReasonOf(err) != registry.ReasonInvalidFilter {
			t.Errorf("a field that does not exist: %v", err)
		}
		one, err := w.AuditEvent(t.Context(), all[1].AuditID)
		if err != nil || !cmp.Equal(one, all[1]) {
			t.Errorf("one of them is %+v, %v", one, err)
		}
	})
}

// An export is of one state, in parts, with the checkpoints among them, and
// verifies without the database.
func TestAnExportIsTheChain(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		for range 3 {
			w.audits(3)
			sealed(t, d, "acme")
		}
		var (
			after, through int64
			rows           int
		)
		file := registry.NewAuditFile(signer.Public())
		for {
			x, err := w.AuditExport(t.Context(), db.AuditQuery{}, after, through, 4)
			if err != nil {
				t.Fatal(err)
			}
			if after == 0 {
				through = x.Head.Position
				head := registry.AuditExport{TenantID: "acme", Last: x.Head.AuditPoint}
				file.Line(head.Line())
				w.audits(1) // what comes later is not in it
				sealed(t, d, "acme")
			}
			for i := range x.Entries {
				file.Line(x.Entries[i].Line())
				rows++
			}
			for _, c := range x.Checkpoints {
				file.Line(c.Line())
			}
			if !x.More {
				break
			}
			after = x.Entries[len(x.Entries)-1].Position
		}
		r := file.End()
		if !r.Sound() || rows != 9 || r.Rows != 9 || r.Signed != 9 {
			t.Errorf("%+v", r)
		}
	})
}
