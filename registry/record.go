package registry

import (
	"maps"
	"slices"
	"time"
)

// Record is a server with everything of it that one change can touch. A change
// is a method that decides and mutates in memory; the database loads a Record
// under lock, applies one change and writes what it marked, with the audit and
// outbox rows, in one transaction (R7).
type Record struct {
	Server      Server
	Provider    string                      // the name of its provider, where that is not the server's own
	Connection  Connection                  // the version that the server pins
	Command     *Command                    // what a server of the transport stdio pins
	Named       *Connection                 // the newest version of the connection that the change names; nil when it names none
	Snapshot    *Snapshot                   // the one at Server.SnapshotDigest; nil when there is none, or the catalog was not asked for
	Tools       map[string]*Tool            // by external id
	Bindings    map[string]*ToolBinding     // by tool name
	Resources   map[string]*ResourceBinding // by URI
	Prompts     map[string]*PromptBinding   // by name
	Descriptors map[string][]Descriptor     // by descriptor id: those of the tools, and those an approval names

	// Taken says whether a canonical tool id already belongs to another server
	// of the tenant. nil means none does.
	Taken func(toolID string) bool

	// Bundle is the published bundle that Server.GovernancePolicyRef names; nil
	// when it names a built-in one or none. It comes with the catalog.
	Bundle *PolicyBundle
	// Decisions are those that something is bound by and those of the approvals so
	// far, by id. They come when a change asks for them.
	Decisions map[string]Decision
	// Governance asks it. Whoever can evaluate bundles sets it.
	Governance Governance
	// Version finds the version of the server by the digest of its pair. nil means
	// that none is kept.
	Version func(pair string) (Version, bool)

	changes Changes
	before  State
	pending string     // digest of the review that was pending before
	excepts Exception  // as it was before
	causes  CauseSet   // those before
	weighed *Evidence  // of the approval that is being decided on
	kept    []KeptTool // drifted tools that the policy kept bound
}

// Changes is what a change marked to be written.
type Changes struct {
	Server      bool // the server's row differs
	Bump        bool // the row version moves
	Tools       map[string]bool
	Bindings    map[string]bool
	Resources   map[string]bool
	Prompts     map[string]bool
	Descriptors []Descriptor
	Connection  *Connection // a new version
	Pinned      bool        // the server pins another version, which was there
	Command     *Command    // a new one
	Decision    *Decision   // also when refused: then it is the only thing to write, with the audit row
	Events      []Event
	Note        string // for the audit row: what happened, in short
	Detail      any    // for the audit row: an object; nil: nothing more to say
	Asked       bool   // nothing changed, and that somebody asked is to be recorded
}

// Namespace is what tool ids begin with: the name of the provider.
func (r *Record) Namespace() string {
	if r.Provider != "" {
		return r.Provider
	}
	return r.Server.Name
}

// Begin makes the record ready for one change.
func (r *Record) Begin() {
	r.before, r.weighed, r.kept = r.Server.State, nil, nil
	r.pending, r.excepts, r.causes = r.Server.Review.pending(), r.Server.Exception, slices.Clone(r.Server.Causes)
	r.changes = Changes{
		Tools: map[string]bool{}, Bindings: map[string]bool{}, Resources: map[string]bool{}, Prompts: map[string]bool{},
	}
	if r.Tools == nil {
		r.Tools = map[string]*Tool{}
	}
	if r.Bindings == nil {
		r.Bindings = map[string]*ToolBinding{}
	}
	if r.Resources == nil {
		r.Resources = map[string]*ResourceBinding{}
	}
	if r.Prompts == nil {
		r.Prompts = map[string]*PromptBinding{}
	}
}

// Refused gives the decision to be kept of a change that was refused, nil when
// it was no decision.
func (r *Record) Refused() *Decision { return r.changes.Decision }

// Done closes the change: the version moves if it should, a change of state is
// one event however it came about (R145), and what was marked is returned.
func (r *Record) Done(now time.Time) Changes {
	if r.Server.State != r.before {
		r.changes.Server = true
		r.emit(EventServerStateChanged, ServerStateChanged{
			ServerID: r.Server.ServerID, TenantID: r.Server.TenantID, FromState: r.before, ToState: r.Server.State,
		})
	}
	r.tell()
	if r.changes.Bump {
		r.changes.Server = true
		r.Server.Version++
	}
	if r.changes.Server {
		r.Server.Revision++
		r.Server.UpdatedAt = now
	}
	return r.changes
}

func (r *Record) emit(kind EventType, payload any) {
	r.changes.Events = append(r.changes.Events, Event{kind, payload})
}

// asked notes a decision that finds what it asks for (R125): there is nothing to
// change, and the audit trail has it all the same.
func (r *Record) asked(note string) {
	r.changes.Asked = true
	r.note(note)
}

// noteAlso adds to what is noted already.
func (r *Record) noteAlso(s string) {
	if r.changes.Note != "" {
		s = r.changes.Note + "; " + s
	}
	r.note(s)
}

func (r *Record) note(s string) { r.changes.Note = s }

// touch marks the server's row as changed by somebody: the version moves.
func (r *Record) touch() { r.changes.Server, r.changes.Bump = true, true }

// observe marks the server's row as changed by what was seen: it is written,
// and the version stays.
func (r *Record) observe() { r.changes.Server = true }

// unbind takes a binding away and says why.
func (r *Record) unbind(name string, why Reason) {
	if b := r.Bindings[name]; b != nil && b.Bound {
		b.Bound, b.UnboundBy, b.Doubted = false, why, false
		r.changes.Bindings[name] = true
	}
}

// sortedKeys keeps every walk over a map in one order, so that two runs of a
// change do the same.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
