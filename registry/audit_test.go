package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/registry"
)

var sealedAt = time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)

// fataler is a test, or a step of one of rapid.
type fataler interface{ Fatal(args ...any) }

// trail is a sealed chain of so many rows, with a checkpoint behind every
// second one.
func trail(tb fataler, n int, signer *registry.AuditSigner) (rows []registry.AuditEntry, checkpoints []registry.AuditCheckpoint) {
	var (
		last registry.AuditPoint
		prev string
	)
	for i := range n {
		e := registry.AuditEntry{
			AuditID: fmt.Sprintf("id-%d", i+1), TenantID: "acme", At: sealedAt.Add(time.Duration(i) * time.Second), Actor: "ann",
			Roles: []registry.Role{registry.RoleOperator}, Origin: registry.OriginAPI, Action: "approve", ObjectKind: "server", ObjectID: "srv_1",
			ObjectName: "weather", OperationID: "op", Outcome: registry.AuditApplied, VersionBefore: int64(i), VersionAfter: int64(i + 1),
			Note: "a \"note\"\n", Detail: json.RawMessage(`{"n": 1.0}`),
		}
		e.Seal(last)
		last = e.Point()
		rows = append(rows, e)
		if i%2 == 1 {
			c := signer.Sign(registry.AuditCheckpoint{
				TenantID: "acme", Number: int64(i/2 + 1), Count: e.Position, Head: e.Hash, At: sealedAt, KeyID: signer.Public().ID, Prev: prev,
			})
			prev = c.Digest()
			checkpoints = append(checkpoints, c)
		}
	}
	if len(rows) != n {
		tb.Fatal("rows are missing")
	}
	return rows, checkpoints
}

func signerOf(tb fataler, digit string) *registry.AuditSigner {
	s, err := registry.ParseAuditSigner(strings.Repeat(digit, 64))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// The form is written down in docs/audit.md; whoever verifies without us goes
// by it.
func TestARowHasOneForm(t *testing.T) {
	t.Parallel()
	rows, checkpoints := trail(t, 2, signerOf(t, "1"))
	const want = `{"action":"approve","actor":"ann","at":"2030-01-02T03:04:05.678901Z","audit_id":"id-1","detail":"{\"n\": 1.0}",` +
		`"digest_after":"","digest_before":"","note":"a \"note\"\n","object_id":"srv_1","object_kind":"server","object_name":"weather",` +
		`"operation_id":"op","origin":"api","outcome":"applied","position":1,"prev_hash":"","reason":"","roles":["Operator"],"tenant_id":"acme",` +
		`"type":"countersign.audit.event/1","version_after":1,"version_before":0}`
	if got := string(rows[0].Canonical()); got != want {
		t.Errorf("the form is\n%s\nwant\n%s", got, want)
	}
	sum := sha256.Sum256([]byte(want))
	if rows[0].Hash != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("the hash is %s", rows[0].Hash)
	}
	if rows[1].PrevHash != rows[0].Hash {
		t.Error("the second row does not name the first")
	}
	statement := `{"at":"2030-01-02T03:04:05.678901Z","count":2,"head":"` + rows[1].Hash + `","key_id":"` + checkpoints[0].KeyID +
		`","number":1,"prev":"","tenant_id":"acme","type":"countersign.audit.checkpoint/1"}`
	if got := string(checkpoints[0].Statement()); got != statement {
		t.Errorf("the statement is\n%s\nwant\n%s", got, statement)
	}
}

// Every field of a row is in its hash.
func TestTheHashCoversEveryField(t *testing.T) {
	t.Parallel()
	rows, _ := trail(t, 1, signerOf(t, "1"))
	for name, change := range map[string]func(*registry.AuditEntry){
		"AuditID": func(e *registry.AuditEntry) { e.AuditID += "x" }, "TenantID": func(e *registry.AuditEntry) { e.TenantID = "globex" },
		"At": func(e *registry.AuditEntry) { e.At = e.At.Add(time.Microsecond) }, "Actor": func(e *registry.AuditEntry) { e.Actor = "bob" },
		"Roles": func(e *registry.AuditEntry) { e.Roles = nil }, "Origin": func(e *registry.AuditEntry) { e.Origin = "x" },
		"Action": func(e *registry.AuditEntry) { e.Action = "x" }, "ObjectKind": func(e *registry.AuditEntry) { e.ObjectKind = "x" },
		"ObjectID": func(e *registry.AuditEntry) { e.ObjectID = "x" }, "ObjectName": func(e *registry.AuditEntry) { e.ObjectName = "x" },
		"OperationID": func(e *registry.AuditEntry) { e.OperationID = "x" }, "Outcome": func(e *registry.AuditEntry) { e.Outcome = "refused" },
		"Reason": func(e *registry.AuditEntry) { e.Reason = "x" }, "VersionBefore": func(e *registry.AuditEntry) { e.VersionBefore++ },
		"VersionAfter": func(e *registry.AuditEntry) { e.VersionAfter++ }, "DigestBefore": func(e *registry.AuditEntry) { e.DigestBefore = "x" },
		"DigestAfter": func(e *registry.AuditEntry) { e.DigestAfter = "x" }, "Note": func(e *registry.AuditEntry) { e.Note += " " },
		"Detail": func(e *registry.AuditEntry) { e.Detail = json.RawMessage(`{"n":1.0}`) }, "Position": func(e *registry.AuditEntry) { e.Position++ },
		"PrevHash": func(e *registry.AuditEntry) { e.PrevHash = "x" },
	} {
		e := rows[0]
		change(&e)
		if cmp.Equal(e, rows[0]) {
			t.Fatalf("%s is not changed", name)
		}
		if e.Digest() == rows[0].Hash {
			t.Errorf("%s is not in the hash", name)
		}
	}
	if n := 22; len(registry.AuditColumns()) != n-1 { // but the tenant
		t.Errorf("CSV has %d columns; a row has %d fields", len(registry.AuditColumns()), n)
	}
	if !cmp.Equal(len(rows[0].Cells()), len(registry.AuditColumns())) {
		t.Error("CSV has other cells than columns")
	}
}

// verified looks at a chain and tells the faults as "kind position[-through] #checkpoint".
func verified(rows []registry.AuditEntry, checkpoints []registry.AuditCheckpoint, head *registry.AuditHead, keys ...registry.AuditPublicKey) []string {
	v := registry.NewAuditVerifier(registry.AuditPoint{}, keys...)
	for i := range rows {
		v.Row(&rows[i])
	}
	for _, c := range checkpoints {
		v.Checkpoint(c)
	}
	return told(v.End(head, true))
}

func told(r registry.AuditReport) []string {
	var out []string
	for _, f := range r.Faults {
		s := fmt.Sprintf("%s %d", f.Kind, f.Position)
		if f.Through > 0 {
			s += fmt.Sprintf("-%d", f.Through)
		}
		if f.Checkpoint > 0 {
			s += fmt.Sprintf(" #%d", f.Checkpoint)
		}
		out = append(out, s)
	}
	return out
}

func TestVerifyingNamesThePlace(t *testing.T) {
	t.Parallel()
	ours, theirs := signerOf(t, "1"), signerOf(t, "2")
	type chain struct {
		rows        []registry.AuditEntry
		checkpoints []registry.AuditCheckpoint
		head        *registry.AuditHead
	}
	// again seals the rows from i on as an attacker would who knows all but the key.
	again := func(c *chain, i int) {
		last := registry.AuditPoint{}
		if i > 0 {
			last = c.rows[i-1].Point()
		}
		for ; i < len(c.rows); i++ {
			c.rows[i].Seal(last)
			last = c.rows[i].Point()
		}
	}
	for name, c := range map[string]struct {
		change func(c *chain)
		want   []string
	}{
		"nothing":                    {func(*chain) {}, nil},
		"one byte of a row":          {func(c *chain) { c.rows[3].Note = "A \"note\"\n" }, []string{"row_changed 4"}},
		"one byte of the first row":  {func(c *chain) { c.rows[0].Actor = "anN" }, []string{"row_changed 1"}},
		"one byte of the last row":   {func(c *chain) { c.rows[7].Actor = "anN" }, []string{"row_changed 8"}},
		"one byte of a hash":         {func(c *chain) { c.rows[3].Hash = "sha256:0" }, []string{"row_changed 4", "row_replaced 4", "checkpoint_contradicted 4 #2"}},
		"a row and its hash":         {func(c *chain) { c.rows[3].Actor = "bob"; c.rows[3].Hash = c.rows[3].Digest() }, []string{"row_replaced 4", "checkpoint_contradicted 4 #2"}},
		"a row out of the middle":    {func(c *chain) { c.rows = slices.Delete(c.rows, 2, 3) }, []string{"rows_missing 3-3"}},
		"three rows of the middle":   {func(c *chain) { c.rows = slices.Delete(c.rows, 2, 5) }, []string{"rows_missing 3-5"}},
		"the first row":              {func(c *chain) { c.rows = c.rows[1:] }, []string{"rows_missing 1-1"}},
		"a row inserted":             {func(c *chain) { c.rows = slices.Insert(c.rows, 3, c.rows[2]) }, []string{"row_inserted 3"}},
		"a row behind the end":       {func(c *chain) { e := c.rows[7]; e.Seal(e.Point()); c.rows = append(c.rows, e) }, []string{"row_inserted 9-9"}},
		"the tail":                   {func(c *chain) { c.rows = c.rows[:5] }, []string{"tail_cut 6-8", "tail_cut 6-8"}},
		"the tail, and the head":     {func(c *chain) { c.rows = c.rows[:5]; c.head = nil }, []string{"tail_cut 6-8"}},
		"everything":                 {func(c *chain) { c.rows = nil; c.head = nil }, []string{"tail_cut 1-8"}},
		"a row of somebody else":     {func(c *chain) { c.rows[4].TenantID = "globex" }, []string{"row_foreign 5", "row_changed 5"}},
		"all sealed again":           {func(c *chain) { c.rows[4].Actor = "bob"; again(c, 4); c.head = nil }, []string{"checkpoint_contradicted 6 #3", "checkpoint_contradicted 8 #4"}},
		"one left out, sealed again": {func(c *chain) { c.rows = slices.Delete(c.rows, 4, 5); again(c, 4); c.head = nil }, []string{"checkpoint_contradicted 6 #3", "tail_cut 8-8"}},
		"a checkpoint":               {func(c *chain) { c.checkpoints = slices.Delete(c.checkpoints, 1, 2) }, []string{"checkpoint_missing 0 #2"}},
		"the first checkpoint":       {func(c *chain) { c.checkpoints = c.checkpoints[1:] }, []string{"checkpoint_missing 0 #1"}},
		"the last checkpoint":        {func(c *chain) { c.checkpoints = c.checkpoints[:3] }, []string{"checkpoint_missing 0 #4"}},
		"signed with another key":    {func(c *chain) { c.checkpoints[1] = theirs.Sign(c.checkpoints[1]) }, []string{"checkpoint_key_unknown 4 #2", "checkpoint_replaced 4 #2"}},
		"said to be of our key": {func(c *chain) {
			forged := theirs.Sign(c.checkpoints[1])
			c.checkpoints[1].Signature = forged.Signature
		}, []string{"checkpoint_forged 4 #2"}},
		"a checkpoint's count": {func(c *chain) { c.checkpoints[3].Count = 7; c.checkpoints[3].Head = c.rows[6].Hash }, []string{"checkpoint_forged 7 #4"}},
		"two of one number": {func(c *chain) {
			o := c.checkpoints[2]
			o.Count = 5
			c.checkpoints = append(c.checkpoints, ours.Sign(o))
		}, []string{"checkpoint_replaced 5 #3"}},
		"kept twice":     {func(c *chain) { c.checkpoints = append(c.checkpoints, c.checkpoints...) }, nil},
		"not sealed yet": {func(c *chain) { c.rows = append(c.rows, registry.AuditEntry{TenantID: "acme"}) }, nil},
	} {
		rows, checkpoints := trail(t, 8, ours)
		x := &chain{rows, checkpoints, &registry.AuditHead{AuditPoint: rows[7].Point(), Checkpoints: 4}}
		c.change(x)
		got := verified(x.rows, x.checkpoints, x.head, ours.Public())
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A checkpoint of the old key is good while the old public key is trusted.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	first, second := signerOf(t, "1"), signerOf(t, "2")
	rows, checkpoints := trail(t, 4, first)
	last := checkpoints[1]
	checkpoints = append(checkpoints, second.Sign(registry.AuditCheckpoint{TenantID: "acme", Number: 3, Count: 4, Head: rows[3].Hash, At: sealedAt, KeyID: second.Public().ID, Prev: last.Digest()}))
	if got := verified(rows, checkpoints, nil, second.Public(), first.Public()); got != nil {
		t.Errorf("with both keys: %v", got)
	}
	want := []string{"checkpoint_key_unknown 2 #1", "checkpoint_key_unknown 4 #2"}
	if diff := cmp.Diff(want, verified(rows, checkpoints, nil, second.Public())); diff != "" {
		t.Error(diff)
	}
}

// A chain can be looked at in parts, each from where the one before ended.
func TestAPartIsVerifiedFromAPlace(t *testing.T) {
	t.Parallel()
	s := signerOf(t, "1")
	rows, checkpoints := trail(t, 8, s)
	part := func(from registry.AuditPoint, rows []registry.AuditEntry, checkpoints []registry.AuditCheckpoint) []string {
		v := registry.NewAuditVerifier(from, s.Public())
		for i := range rows {
			v.Row(&rows[i])
		}
		for _, c := range checkpoints {
			v.Checkpoint(c)
		}
		return told(v.End(nil, true))
	}
	if got := part(rows[3].Point(), rows[4:], checkpoints[2:]); got != nil {
		t.Errorf("from the fourth row: %v", got)
	}
	if got := part(registry.AuditPoint{Position: 4, Hash: "sha256:0"}, rows[4:], checkpoints[2:]); !slices.Equal(got, []string{"row_replaced 4"}) {
		t.Errorf("from a row that was another: %v", got)
	}
}

// exported writes the file that an export of the whole chain is.
func exported(rows []registry.AuditEntry, checkpoints []registry.AuditCheckpoint) [][]byte {
	x := registry.AuditExport{TenantID: "acme"}
	if len(rows) > 0 {
		x.Last = rows[len(rows)-1].Point()
	}
	lines := [][]byte{x.Line()}
	for i := range rows {
		lines = append(lines, rows[i].Line())
		for _, c := range checkpoints {
			if c.Count == rows[i].Position {
				lines = append(lines, c.Line())
			}
		}
	}
	return lines
}

func readBack(lines [][]byte, key registry.AuditPublicKey) registry.AuditReport {
	f := registry.NewAuditFile(key)
	for _, line := range lines {
		f.Line(line)
	}
	return f.End()
}

func TestAnExportIsVerifiedWithoutAServer(t *testing.T) {
	t.Parallel()
	s := signerOf(t, "1")
	rows, checkpoints := trail(t, 8, s)
	whole := exported(rows, checkpoints)
	for name, c := range map[string]struct {
		lines [][]byte
		want  []string
	}{
		"whole":            {whole, nil},
		"a field added":    {replaced(whole, 5, []byte(`"more":1,"type"`), []byte(`"type"`)), []string{"line_unreadable 4", "rows_missing 4-4"}},
		"the tail cut":     {whole[:len(whole)-3], []string{"tail_cut 7-8"}},
		"without a head":   {whole[1:], nil},
		"an empty line":    {append(slices.Clone(whole), nil), nil},
		"no line of ours":  {append(slices.Clone(whole), []byte("{}")), []string{"line_unreadable 0"}},
		"a line cut short": {append(slices.Clone(whole), []byte(`{"type":`)), []string{"line_unreadable 0"}},
		"a head behind":    {append(slices.Clone(whole), whole[0]), []string{"line_unreadable 0"}},
		"one byte changed": {replaced(whole, 5, []byte(`"actor":"bnn"`), []byte(`"actor":"ann"`)), []string{"row_changed 4"}},
	} {
		if diff := cmp.Diff(c.want, told(readBack(c.lines, s.Public()))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// A filtered one says so, and each row is looked at by itself.
	some := [][]byte{(&registry.AuditExport{TenantID: "acme", Filter: `actor = "ann"`, Last: rows[7].Point()}).Line(), rows[2].Line(), rows[6].Line()}
	if r := readBack(some, s.Public()); !r.Sound() || !r.Partial || r.Rows != 2 {
		t.Errorf("of a filtered export: %+v", r)
	}
	some = replaced(some, 1, []byte(`"actor":"bnn"`), []byte(`"actor":"ann"`))
	if got := told(readBack(some, s.Public())); !slices.Equal(got, []string{"row_changed 3"}) {
		t.Errorf("of a filtered export with a changed row: %v", got)
	}
}

func replaced(lines [][]byte, i int, by, what []byte) [][]byte {
	out := slices.Clone(lines)
	out[i] = bytes.Replace(out[i], what, by, 1)
	return out
}

// Whatever byte of an export changes, it is seen.
func TestNoByteOfAnExportChangesUnseen(t *testing.T) {
	t.Parallel()
	s := signerOf(t, "1")
	rows, checkpoints := trail(t, 6, s)
	whole := exported(rows, checkpoints)[1:] // nothing signs the first line
	rapid.Check(t, func(t *rapid.T) {
		lines := slices.Clone(whole)
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		at := rapid.IntRange(0, len(lines[i])-1).Draw(t, "byte")
		b := rapid.Byte().Draw(t, "value")
		if lines[i][at] == b {
			return
		}
		lines[i] = bytes.Clone(lines[i])
		lines[i][at] = b
		if r := readBack(lines, s.Public()); r.Sound() {
			t.Fatalf("line %d, byte %d: %q instead of %q is not seen", i, at, b, whole[i][at])
		}
	})
}

// Any texts go there and back, and sealed rows verify.
func TestAnyTextIsSealedAndReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\x00\x1f\b\t\n\f\r\"\\\u007f\u2028\u2029<>&é😀"))))
		e := registry.AuditEntry{
			TenantID: "acme", At: sealedAt, Actor: text.Draw(t, "actor"), Note: text.Draw(t, "note"), Detail: json.RawMessage(text.Draw(t, "detail")),
			Roles: []registry.Role{registry.Role(text.Draw(t, "role"))}, ObjectName: text.Draw(t, "name"), VersionAfter: rapid.Int64Range(0, 1<<53).Draw(t, "version"),
		}
		e.Seal(registry.AuditPoint{})
		f := registry.NewAuditFile()
		f.Line(e.Line())
		if r := f.End(); !r.Sound() || r.Rows != 1 {
			t.Fatalf("%+v of %s", r, e.Line())
		}
		var again map[string]any
		if err := json.Unmarshal(e.Line(), &again); err != nil || again["note"] != strings.ToValidUTF8(e.Note, "\uFFFD") {
			t.Fatalf("%s is read as %v: %v", e.Line(), again["note"], err)
		}
	})
}

// A cut chain is seen by any later checkpoint, wherever it was kept.
func TestAnyCutIsSeenByALaterCheckpoint(t *testing.T) {
	t.Parallel()
	s := signerOf(t, "1")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "rows")
		rows, checkpoints := trail(t, n, s)
		kept := checkpoints[rapid.IntRange(0, len(checkpoints)-1).Draw(t, "checkpoint")]
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		f := registry.NewAuditVerifier(registry.AuditPoint{}, s.Public())
		for i := range rows[:cut] {
			f.Row(&rows[i])
		}
		for _, c := range checkpoints {
			if c.Count <= int64(cut) || c.Number == kept.Number {
				f.Checkpoint(c)
			}
		}
		seen := slices.ContainsFunc(f.End(nil, true).Faults, func(x registry.AuditFault) bool { return x.Kind == registry.AuditTailCut })
		if seen != (int64(cut) < kept.Count) {
			t.Fatalf("%d rows of %d, and the checkpoint of %d: seen %v", cut, n, kept.Count, seen)
		}
	})
}

func TestAuditKeysAreRead(t *testing.T) {
	t.Parallel()
	s := signerOf(t, "1")
	pemKey := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIBERERERERERERERERERERERERERERERERERERERERER\n-----END PRIVATE KEY-----\n"
	for name, text := range map[string]string{"hex": strings.Repeat("1", 64), "base64": "ERERERERERERERERERERERERERERERERERERERERERE=", "PEM": pemKey} {
		got, err := registry.ParseAuditSigner(" " + text + "\n")
		if err != nil || got.Public().ID != s.Public().ID {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{s.Public().Base64(), s.Public().PEM()} {
		k, err := registry.ParseAuditPublicKey(text + "\n")
		if err != nil || k.ID != s.Public().ID {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "x", "ERER", strings.Repeat("1", 62), strings.Replace(pemKey, "MC4", "MC5", 1), s.Public().PEM()} {
		if _, err := registry.ParseAuditSigner(text); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q is a private key: %v", text, err)
		}
	}
	for _, text := range []string{"", "x", "ERER", pemKey} {
		if _, err := registry.ParseAuditPublicKey(text); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q is a public key: %v", text, err)
		}
	}
}

func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "plain": "plain", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1",
		"a=1": "a=1", "'=1": "'=1", "\uFF1D1": "'\uFF1D1",
	} {
		if got := registry.NeutralCell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	e := registry.AuditEntry{
		AuditID: "=1", TenantID: "=1", Actor: "=1", Roles: []registry.Role{"=1"}, Origin: "=1", Action: "=1", ObjectKind: "=1", ObjectID: "=1", ObjectName: "=1",
		OperationID: "=1", Outcome: "=1", Reason: "=1", DigestBefore: "=1", DigestAfter: "=1", Note: "=1", Detail: json.RawMessage("=1"), PrevHash: "=1", Hash: "=1",
	}
	for i, cell := range e.Cells() {
		if strings.HasPrefix(cell, "=") {
			t.Errorf("the cell of %s is a formula", registry.AuditColumns()[i])
		}
	}
}
