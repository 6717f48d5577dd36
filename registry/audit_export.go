package registry

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AuditExport is the first line of an export: what it is of. Nothing signs it.
// The same stretch is the same bytes whenever it is exported.
type AuditExport struct {
	TenantID string
	Filter   string     // what was asked for; empty: everything
	After    AuditPoint // the row behind which it begins
	Last     AuditPoint // the last sealed row at that time
}

// AuditExportType begins the first line, and says which form the file has.
const AuditExportType = "countersign.audit.export/1"

// Line is the first line.
func (x *AuditExport) Line() []byte {
	o := canonicalObject{dst: []byte{'{'}}
	o.number("after", x.After.Position)
	o.text("after_hash", x.After.Hash)
	o.number("count", x.Last.Position)
	o.text("filter", x.Filter)
	o.text("head", x.Last.Hash)
	o.text("tenant_id", x.TenantID)
	o.text("type", AuditExportType)
	return append(o.dst, '}')
}

func (l *auditLine) export() AuditExport {
	return AuditExport{
		TenantID: l.TenantID, Filter: l.Filter, After: AuditPoint{l.After, l.AfterHash}, Last: AuditPoint{l.Count, l.Head},
	}
}

// AuditFile looks at an export, line by line.
type AuditFile struct {
	*AuditVerifier
	Export AuditExport // the first line; zero when there is none

	lines int
}

// NewAuditFile begins to look at an export. Only checkpoints of these keys
// count; without any key no signature is looked at.
func NewAuditFile(keys ...AuditPublicKey) *AuditFile {
	return &AuditFile{AuditVerifier: NewAuditVerifier(AuditPoint{}, keys...)}
}

// Line looks at the next line, without its end. Every line must be exactly what
// an export writes: what is added to a line is a fault as well.
func (f *AuditFile) Line(raw []byte) {
	f.lines++
	if len(raw) == 0 {
		return
	}
	var l auditLine
	err := json.Unmarshal(raw, &l)
	switch {
	case err != nil:
	case l.Type == AuditEntryType:
		if e := l.entry(); bytes.Equal(e.Line(), raw) {
			f.row(&e, f.lines)
			return
		}
	case l.Type == AuditCheckpointType:
		if c := l.checkpoint(); bytes.Equal(c.Line(), raw) {
			f.Checkpoint(c)
			return
		}
	case l.Type == AuditExportType && f.lines == 1:
		if x := l.export(); bytes.Equal(x.Line(), raw) {
			f.begin(x)
			return
		}
	}
	f.fault(AuditFault{Kind: AuditLineUnreadable, Position: l.Position, AuditID: l.AuditID, Line: f.lines, Detail: "not a line that an export writes"})
}

func (f *AuditFile) begin(x AuditExport) {
	f.Export = x
	f.tenant, f.from, f.last = x.TenantID, x.After, x.After
	if x.Filter != "" {
		f.Partial()
	}
}

// Kept takes a line of checkpoints that were kept elsewhere, and says whether
// it is one.
func (f *AuditFile) Kept(raw []byte) bool {
	c, ok := ParseAuditCheckpoint(raw)
	if ok {
		f.Checkpoint(c)
	}
	return ok
}

// ParseAuditCheckpoint reads a checkpoint from a line of an export.
func ParseAuditCheckpoint(raw []byte) (AuditCheckpoint, bool) {
	var l auditLine
	if err := json.Unmarshal(raw, &l); err != nil || l.Type != AuditCheckpointType {
		return AuditCheckpoint{}, false
	}
	c := l.checkpoint()
	return c, bytes.Equal(c.Line(), raw)
}

// End says what was found.
func (f *AuditFile) End() AuditReport {
	r := f.AuditVerifier.End(nil, true)
	if x := &f.Export; !r.Partial && x.Last.Position > r.Last.Position && !f.cut() {
		f.fault(AuditFault{
			Kind: AuditTailCut, Position: r.Last.Position + 1, Through: x.Last.Position,
			Detail: "the first line says that there are " + strconv.FormatInt(x.Last.Position, 10) + " rows; the last one there is " + strconv.FormatInt(r.Last.Position, 10),
		})
	}
	return f.report
}

// cut says whether it was said already that the end is missing.
func (v *AuditVerifier) cut() bool {
	for i := range v.report.Faults {
		if v.report.Faults[i].Kind == AuditTailCut {
			return true
		}
	}
	return false
}

// AuditColumns are the columns of an export as CSV.
func AuditColumns() []string {
	return []string{
		"position", "at", "actor", "roles", "origin", "action", "object_kind", "object_id", "object_name", "outcome", "reason", "note", "detail",
		"version_before", "version_after", "digest_before", "digest_after", "operation_id", "audit_id", "prev_hash", "hash",
	}
}

// Cells is the row as one of CSV. What a spreadsheet would take for a formula
// gets an apostrophe before it, so the hash is not to be made from these.
func (e *AuditEntry) Cells() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	roles := make([]string, len(e.Roles))
	for i, role := range e.Roles {
		roles[i] = string(role)
	}
	cells := []string{
		number(e.Position), e.At.UTC().Format(auditTime), e.Actor, strings.Join(roles, " "), string(e.Origin), e.Action, e.ObjectKind, e.ObjectID,
		e.ObjectName, e.Outcome, string(e.Reason), e.Note, string(e.Detail), number(e.VersionBefore), number(e.VersionAfter),
		e.DigestBefore, e.DigestAfter, e.OperationID, e.AuditID, e.PrevHash, e.Hash,
	}
	for i, cell := range cells {
		cells[i] = NeutralCell(cell)
	}
	return cells
}

// NeutralCell makes a text that a spreadsheet shows and never calculates:
// before =, +, -, @, a tabulator and a carriage return at its beginning it puts
// an apostrophe (OWASP, CSV injection). Line feeds count too, which some skip,
// and the wide forms of the signs, which some take for them.
func NeutralCell(text string) string {
	if first, size := utf8.DecodeRuneInString(text); size > 0 && strings.ContainsRune("=+-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20", first) {
		return "'" + text
	}
	return text
}
