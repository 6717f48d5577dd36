package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CapabilityFacts are what is known of one server, without the table.
type CapabilityFacts struct {
	Registered     string // the name it is registered under
	Reported       string // the name it gives itself
	ServerVersion  string // the version it gives itself
	ProductVersion string // as declared with the server
	Protocol       string // negotiated at the last look
	// Tools are the arguments of each tool that the last look saw and nothing is
	// wrong with. Only those that the table mentions decide anything.
	Tools map[string][]string
	// Doubt says why the last look tells nothing; empty: it does.
	Doubt string
	At    time.Time // of the last look that agrees with all this
}

// HasTool says whether the last look saw the tool (R86).
func (f *CapabilityFacts) HasTool(name string) bool {
	_, there := f.Tools[name]
	return there && f.Doubt == ""
}

// SupportsArg says whether the last look saw the tool with this argument (R86).
func (f *CapabilityFacts) SupportsArg(tool, arg string) bool {
	return f.HasTool(tool) && slices.Contains(f.Tools[tool], arg)
}

// CapabilityFactsOf gives the facts of a server, given its last probe and the
// tools that its last accepted discovery saw. Looks since then that failed, or
// that are not believed, are a doubt (R85).
func CapabilityFactsOf(s *Server, last *Probe, tools map[string][]string) CapabilityFacts {
	f := CapabilityFacts{
		Registered: s.Name, Reported: s.Reported.Name, ServerVersion: s.Reported.Version, ProductVersion: s.ProductVersion,
		Protocol: s.ProtocolVersion, Tools: tools, Doubt: capabilityDoubt(s), At: s.Discovery.SucceededAt,
	}
	if last != nil && last.Outcome == OutcomeOK && last.TargetDigest == s.TargetDigest && last.ToolsDigest == s.ToolsDigest && last.At.After(f.At) {
		f.At = last.At
		f.Protocol = cmp.Or(last.ProtocolVersion, f.Protocol)
		f.ServerVersion = cmp.Or(last.ServerVersion, f.ServerVersion)
	}
	return f
}

// capabilityDoubt says why what was seen of the server last tells nothing. A
// discovery that cannot shake hands with a server that is probed is no doubt:
// the probes judge that.
func capabilityDoubt(s *Server) string {
	switch {
	case s.State == StateRetired:
		return "the server is retired"
	case s.SnapshotDigest == "" && s.Discovery.Status == DiscoveryFailed:
		return "its first discovery failed: " + string(s.Discovery.Reason)
	case s.SnapshotDigest == "":
		return "it was not discovered yet"
	case !s.State.Probed() && s.Discovery.Status == DiscoveryFailed:
		return "the last discovery failed: " + string(s.Discovery.Reason)
	}
	for _, cause := range []Cause{CauseHandshake, CauseSuspectEmpty, CauseMalformedList, CauseCapabilityLoss} {
		if s.Causes.Has(cause) {
			return "the last look at it failed or is not believed: " + string(cause)
		}
	}
	return ""
}

// Blocker is what keeps a capability from being available.
type Blocker string

// The blockers, in the order in which they are told.
const (
	BlockedByTable   Blocker = "table"    // the row says so
	BlockedByLook    Blocker = "look"     // nobody knows what the server offers now
	BlockedByVersion Blocker = "version"  // too old, unknown, or not to be read
	BlockedByTool    Blocker = "tool"     // a tool is not there
	BlockedByArg     Blocker = "argument" // an argument is not there
)

// CapabilityState is a row of the table as it is for one server.
type CapabilityState struct {
	Row         CapabilityRow
	KnownServer string // the id of the server that the row is about
	Available   bool   // the row, the versions and the last look agree
	BlockedBy   Blocker
	Why         string // one sentence for people, when it is not available
}

// KnownAs is a server of the table that a server is taken for.
type KnownAs struct {
	ID, Title      string
	ProductVersion string
	Declared       bool // the product's version was declared; else it was read out of the server's own
}

// CapabilityModel is the capability table resolved for one server: the one
// value that both gates and reports read (R87).
type CapabilityModel struct {
	Facts  CapabilityFacts
	Known  []KnownAs         // by id; empty: the table knows nothing of the server
	States []CapabilityState // by key

	known []KnownServer
}

// Resolve holds the table against the facts of one server (R80, R84, R85).
func (t *CapabilityTable) Resolve(f CapabilityFacts) CapabilityModel {
	m := CapabilityModel{Facts: f}
	for _, k := range t.Servers() {
		if k.fits(f.Reported, f.Registered) {
			m.known = append(m.known, k)
		}
	}
	m.Facts.Tools = m.own(f.Tools)
	for _, k := range m.known {
		as := KnownAs{ID: k.ID, Title: k.Title, ProductVersion: f.ProductVersion, Declared: f.ProductVersion != ""}
		if product := t.products[k.ID]; product != nil && !as.Declared {
			if found := product.FindStringSubmatch(f.ServerVersion); found != nil {
				as.ProductVersion = found[1]
			}
		}
		m.Known = append(m.Known, as)
		for _, row := range k.Rows {
			state := CapabilityState{Row: row, KnownServer: k.ID}
			state.BlockedBy, state.Why = row.blocked(&m.Facts, as)
			state.Available = state.BlockedBy == ""
			m.States = append(m.States, state)
		}
	}
	slices.SortFunc(m.States, func(a, b CapabilityState) int { return cmp.Compare(a.Row.Key, b.Row.Key) })
	return m
}

func (row CapabilityRow) blocked(f *CapabilityFacts, as KnownAs) (Blocker, string) {
	if !row.Available {
		return BlockedByTable, cmp.Or(row.Note, "no version is known to have it")
	}
	if f.Doubt != "" {
		return BlockedByLook, f.Doubt
	}
	if why := row.Since.missed(f, as); why != "" {
		return BlockedByVersion, why
	}
	for _, tool := range row.RequiresTools {
		if !f.HasTool(tool) {
			return BlockedByTool, fmt.Sprintf("the server offers no tool %s", tool)
		}
	}
	for _, a := range row.RequiresArgs {
		if !f.SupportsArg(a.Tool, a.Arg) {
			return BlockedByArg, fmt.Sprintf("the server offers no tool %s with an argument %s", a.Tool, a.Arg)
		}
	}
	return "", ""
}

// missed says why the version does not reach since, or nothing.
func (s Since) missed(f *CapabilityFacts, as KnownAs) string {
	var have, missing string
	switch s.Axis {
	case "":
		return ""
	case AxisServer:
		have, missing = f.ServerVersion, "the server gives none"
	case AxisProduct:
		have, missing = as.ProductVersion, "none is known: declare it as the server's product_version"
	case AxisProtocol:
		have, missing = f.Protocol, "none is known"
	}
	switch {
	case s.Axis.Reached(have, s.Version):
		return ""
	case have == "":
		return fmt.Sprintf("needs %s version %s, and %s", s.Axis, s.Version, missing)
	case !s.Axis.readable(have):
		return fmt.Sprintf("needs %s version %s, and %q cannot be compared with it", s.Axis, s.Version, have)
	}
	return fmt.Sprintf("needs %s version %s, and this is %s", s.Axis, s.Version, have)
}

// Can says whether a capability is available; one that the table does not have
// for this server is not (R85, R86).
func (m *CapabilityModel) Can(key string) bool {
	state, found := m.state(key)
	return found && state.Available
}

func (m *CapabilityModel) state(key string) (CapabilityState, bool) {
	i, found := slices.BinarySearchFunc(m.States, key, func(s CapabilityState, key string) int { return cmp.Compare(s.Row.Key, key) })
	if !found {
		return CapabilityState{}, false
	}
	return m.States[i], true
}

// Blocks gives the first capability, by key, that switches the tool off; empty
// when none does (R86).
func (m *CapabilityModel) Blocks(tool string) string {
	for _, s := range m.States {
		if slices.Contains(s.Row.Gates, tool) && !m.Can(s.Row.Key) {
			return s.Row.Key
		}
	}
	return ""
}

// Blocked lists the tools that capabilities switch off, sorted.
func (m *CapabilityModel) Blocked() []string {
	tools := map[string]bool{}
	for _, s := range m.States {
		if !m.Can(s.Row.Key) {
			for _, tool := range s.Row.Gates {
				tools[tool] = true
			}
		}
	}
	return sortedKeys(tools)
}

// Foreign says whether the server only passes the tool on from others.
func (m *CapabilityModel) Foreign(tool string) bool {
	return slices.ContainsFunc(m.known, func(k KnownServer) bool { return k.foreign(tool) })
}

// own leaves out the foreign tools.
func (m *CapabilityModel) own(tools map[string][]string) map[string][]string {
	out := make(map[string][]string, len(tools))
	for name, args := range tools {
		if !m.Foreign(name) {
			out[name] = args
		}
	}
	return out
}

// ToolArgs gives the arguments that the definition of a tool names, sorted: the
// properties of its input schema. It gives none when it cannot be read.
func ToolArgs(definition []byte) []string {
	var tool struct {
		InputSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"inputSchema"`
	}
	if json.Unmarshal(definition, &tool) != nil {
		return nil
	}
	for name := range tool.InputSchema.Properties {
		if strings.ContainsRune(name, 0) { // no database keeps it
			delete(tool.InputSchema.Properties, name)
		}
	}
	return sortedKeys(tool.InputSchema.Properties)
}
