package registry

import (
	"crypto/ed25519"
	"fmt"
	"slices"
)

// AuditFaultKind is what is wrong at a place of a chain.
type AuditFaultKind string

// The faults of a chain.
const (
	AuditRowChanged          AuditFaultKind = "row_changed"             // the row is not what its hash says
	AuditRowReplaced         AuditFaultKind = "row_replaced"            // the row is well in itself, and the next one was sealed behind another
	AuditRowsMissing         AuditFaultKind = "rows_missing"            // a gap between two rows
	AuditRowInserted         AuditFaultKind = "row_inserted"            // a row at a place that is taken, or behind the end
	AuditRowForeign          AuditFaultKind = "row_foreign"             // a row of another tenant
	AuditTailCut             AuditFaultKind = "tail_cut"                // there were more rows
	AuditCheckpointMissing   AuditFaultKind = "checkpoint_missing"      // a gap between two checkpoints, or behind the last
	AuditCheckpointReplaced  AuditFaultKind = "checkpoint_replaced"     // not the one that was issued under its number
	AuditCheckpointForged    AuditFaultKind = "checkpoint_forged"       // the signature is not of its key
	AuditCheckpointKey       AuditFaultKind = "checkpoint_key_unknown"  // signed with a key that is not trusted
	AuditCheckpointContradic AuditFaultKind = "checkpoint_contradicted" // the chain at its count has another hash
	AuditLineUnreadable      AuditFaultKind = "line_unreadable"         // of an export: no line of ours
)

// AuditFault is one fault and its place.
type AuditFault struct {
	Kind       AuditFaultKind `json:"kind"`
	Position   int64          `json:"position,omitempty"`   // of the row; of several, the first
	Through    int64          `json:"through,omitempty"`    // of several rows, the last
	AuditID    string         `json:"audit_id,omitempty"`   // of the row
	Checkpoint int64          `json:"checkpoint,omitempty"` // its number
	Line       int            `json:"line,omitempty"`       // of an export
	Detail     string         `json:"detail"`
}

// MaxAuditFaults is how many faults are told; the rest is only counted. One
// change can make everything behind it wrong.
const MaxAuditFaults = 100

// AuditReport is what became of a verification.
type AuditReport struct {
	Rows        int64        `json:"rows"`        // that were looked at
	Unsealed    int64        `json:"unsealed"`    // not in the chain yet, so nothing is said of them
	Last        AuditPoint   `json:"last"`        // the last row that was looked at
	Checkpoints int64        `json:"checkpoints"` // that were looked at
	Signed      int64        `json:"signed"`      // rows up to the last checkpoint with which the chain agrees
	Partial     bool         `json:"partial"`     // rows were left out on purpose, so links were not looked at
	Faults      []AuditFault `json:"faults"`      // at most MaxAuditFaults
	More        int64        `json:"more"`        // faults besides
}

// Sound says whether nothing is wrong.
func (r *AuditReport) Sound() bool { return len(r.Faults) == 0 }

// AuditHead is what the database says of a tenant's chain, besides its rows.
type AuditHead struct {
	AuditPoint
	Checkpoints int64 // how many were issued
}

// AuditVerifier looks at a chain, row by row.
type AuditVerifier struct {
	report      AuditReport
	tenant      string
	from        AuditPoint
	last        AuditPoint
	hashes      []string // of the rows from the beginning on; of a gap empty
	checkpoints []AuditCheckpoint
	keys        map[string]ed25519.PublicKey
	partial     bool
}

// NewAuditVerifier begins behind a place whose hash is known; the zero place is
// the beginning. Only checkpoints of these keys count; without any key no
// signature is looked at.
func NewAuditVerifier(from AuditPoint, keys ...AuditPublicKey) *AuditVerifier {
	v := &AuditVerifier{from: from, last: from, keys: map[string]ed25519.PublicKey{}}
	for _, k := range keys {
		v.keys[k.ID] = k.Key
	}
	return v
}

// Partial says that rows are left out on purpose, by a filter: each row is
// looked at by itself.
func (v *AuditVerifier) Partial() { v.partial, v.report.Partial = true, true }

func (v *AuditVerifier) fault(f AuditFault) {
	if len(v.report.Faults) == MaxAuditFaults {
		v.report.More++
		return
	}
	v.report.Faults = append(v.report.Faults, f)
}

// owner takes the first tenant for that of the chain.
func (v *AuditVerifier) owner(tenant string) bool {
	if v.tenant == "" {
		v.tenant = tenant
	}
	return v.tenant == tenant
}

// Row looks at the next row, in the order of positions.
func (v *AuditVerifier) Row(e *AuditEntry) { v.row(e, 0) }

func (v *AuditVerifier) row(e *AuditEntry, line int) {
	if e.Position <= 0 {
		v.report.Unsealed++
		return
	}
	v.report.Rows++
	at := AuditFault{Position: e.Position, AuditID: e.AuditID, Line: line}
	if !v.owner(e.TenantID) {
		at.Kind, at.Detail = AuditRowForeign, fmt.Sprintf("the row is of the tenant %q, the chain of %q", e.TenantID, v.tenant)
		v.fault(at)
	}
	expected := v.last.Position + 1
	if !v.partial && e.Position < expected {
		at.Kind, at.Detail = AuditRowInserted, fmt.Sprintf("a row for position %d comes behind that of position %d", e.Position, v.last.Position)
		v.fault(at)
		return // the chain goes on behind the row that was there
	}
	if !v.partial && e.Position > expected {
		v.fault(AuditFault{
			Kind: AuditRowsMissing, Position: expected, Through: e.Position - 1, Line: line,
			Detail: fmt.Sprintf("between the rows %d and %d there are none", v.last.Position, e.Position),
		})
		// A gap can be any length that a row says; what lies in it has no hash.
		v.hashes = append(v.hashes, make([]string, min(e.Position-expected, maxAuditGap))...)
	} else if !v.partial && e.PrevHash != v.last.Hash {
		v.fault(AuditFault{
			Kind: AuditRowReplaced, Position: v.last.Position, Line: line,
			Detail: fmt.Sprintf("the row %d was sealed behind one with the hash %s; the row %d has %s", e.Position, orNone(e.PrevHash), v.last.Position, orNone(v.last.Hash)),
		})
	}
	if is := e.Digest(); is != e.Hash {
		at.Kind, at.Detail = AuditRowChanged, fmt.Sprintf("the row was sealed with the hash %s and has %s now", orNone(e.Hash), is)
		v.fault(at)
	}
	v.last = e.Point()
	v.hashes = append(v.hashes, e.Hash)
}

// maxAuditGap bounds the memory for rows that are not there.
const maxAuditGap = 1 << 20

func orNone(hash string) string {
	if hash == "" {
		return "none"
	}
	return hash
}

// Checkpoint takes a checkpoint, of the same chain or kept elsewhere, in any
// order. The same one twice is no fault.
func (v *AuditVerifier) Checkpoint(c AuditCheckpoint) { v.checkpoints = append(v.checkpoints, c) }

// hash gives the hash of the row at a position, empty when it was not looked at.
func (v *AuditVerifier) hash(position int64) string {
	if position == v.from.Position {
		return v.from.Hash
	}
	if i := position - v.from.Position - 1; i >= 0 && i < int64(len(v.hashes)) {
		return v.hashes[i]
	}
	return ""
}

// End compares with the checkpoints, and says what was found. The head is that
// of the database; nil when it is not known. ended says that there are no more
// rows: then whatever was there once is missing.
func (v *AuditVerifier) End(head *AuditHead, ended bool) AuditReport {
	v.compare(ended)
	if head != nil && ended {
		v.compareHead(head)
	}
	v.report.Last = v.last
	return v.report
}

func (v *AuditVerifier) compareHead(head *AuditHead) {
	switch {
	case head.Position > v.last.Position:
		v.fault(AuditFault{
			Kind: AuditTailCut, Position: v.last.Position + 1, Through: head.Position,
			Detail: fmt.Sprintf("%d rows were sealed; the last one there is %d", head.Position, v.last.Position),
		})
	case head.Position < v.last.Position:
		v.fault(AuditFault{
			Kind: AuditRowInserted, Position: head.Position + 1, Through: v.last.Position,
			Detail: fmt.Sprintf("%d rows were sealed; there are more, up to %d", head.Position, v.last.Position),
		})
	case head.Hash != v.last.Hash:
		v.fault(AuditFault{
			Kind: AuditRowReplaced, Position: head.Position,
			Detail: fmt.Sprintf("the last row was sealed with the hash %s; the one there has %s", orNone(head.Hash), orNone(v.last.Hash)),
		})
	}
	last := int64(0)
	for _, c := range v.checkpoints {
		last = max(last, c.Number)
	}
	if last < head.Checkpoints {
		v.fault(AuditFault{
			Kind: AuditCheckpointMissing, Checkpoint: last + 1,
			Detail: fmt.Sprintf("%d checkpoints were issued; the last one there is %d", head.Checkpoints, last),
		})
	}
}

// compare looks at the checkpoints in the order of their numbers.
func (v *AuditVerifier) compare(ended bool) {
	slices.SortStableFunc(v.checkpoints, func(a, b AuditCheckpoint) int {
		return int(max(-1, min(1, a.Number-b.Number)))
	})
	var before *AuditCheckpoint
	cut, agreed := int64(0), v.from.Position
	for i := range v.checkpoints {
		c := &v.checkpoints[i]
		if before != nil && before.Number == c.Number && before.Digest() == c.Digest() && slices.Equal(before.Signature, c.Signature) {
			continue // the same, kept elsewhere
		}
		v.report.Checkpoints++
		f := AuditFault{Checkpoint: c.Number, Position: c.Count}
		issued := v.issued(c, before, f)
		if before == nil || before.Number != c.Number {
			before = c
		}
		if !issued || v.partial {
			continue
		}
		switch is := v.hash(c.Count); {
		case c.Count > v.last.Position:
			if ended {
				cut = max(cut, c.Count)
			}
		case c.Count < v.from.Position || is == c.Head:
			agreed = max(agreed, c.Count)
			if len(v.keys) > 0 {
				v.report.Signed = max(v.report.Signed, c.Count)
			}
		case is == "": // the row is missing, which was said
		default:
			f.Kind = AuditCheckpointContradic
			f.Detail = fmt.Sprintf("of the row %d it says the hash %s; the one there has %s: a row from %d to %d was replaced", c.Count, c.Head, orNone(is), agreed+1, c.Count)
			v.fault(f)
		}
	}
	if cut > 0 {
		v.fault(AuditFault{
			Kind: AuditTailCut, Position: v.last.Position + 1, Through: cut,
			Detail: fmt.Sprintf("a checkpoint is of %d rows; the last one there is %d", cut, v.last.Position),
		})
	}
}

// issued says whether a checkpoint is one that was issued, as far as the one
// before it and its signature say.
func (v *AuditVerifier) issued(c, before *AuditCheckpoint, f AuditFault) bool {
	if !v.owner(c.TenantID) {
		f.Kind, f.Detail = AuditCheckpointReplaced, fmt.Sprintf("it is of the tenant %q, the chain of %q", c.TenantID, v.tenant)
		v.fault(f)
		return false
	}
	was, sound := f, true
	first := int64(1)
	if before != nil {
		first = before.Number + 1
	}
	switch {
	case before != nil && before.Number == c.Number:
		f.Kind, f.Detail = AuditCheckpointReplaced, "there are two of this number"
		v.fault(f)
		return false
	case c.Number > first && (before != nil || v.from.Position == 0) && !v.partial:
		missing := AuditFault{Kind: AuditCheckpointMissing, Checkpoint: first, Detail: fmt.Sprintf("the one before number %d is not there", c.Number)}
		if before != nil {
			missing.Detail = fmt.Sprintf("between the numbers %d and %d there are none", before.Number, c.Number)
		}
		v.fault(missing)
	case before != nil && c.Number == first && c.Prev != before.Digest():
		f.Kind, f.Checkpoint, f.Position = AuditCheckpointReplaced, before.Number, before.Count
		f.Detail = fmt.Sprintf("number %d was issued behind another one", c.Number)
		v.fault(f)
	}
	if len(v.keys) == 0 {
		return sound
	}
	f = was
	key, known := v.keys[c.KeyID]
	switch {
	case !known:
		f.Kind, f.Detail = AuditCheckpointKey, fmt.Sprintf("it is signed with the key %s, which is not trusted", c.KeyID)
		sound = false
	case !ed25519.Verify(key, c.Statement(), c.Signature):
		f.Kind, f.Detail = AuditCheckpointForged, fmt.Sprintf("its signature is not one of the key %s over what it says", c.KeyID)
		sound = false
	}
	if !sound {
		v.fault(f)
	}
	return sound
}
