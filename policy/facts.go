package policy

import (
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"countersign/registry"
)

// Server is what rules see of a server.
type Server struct {
	Name           string                  `json:"name,omitzero"`
	Owner          string                  `json:"owner,omitzero"`
	Labels         map[string]string       `json:"labels,omitzero"`
	Direction      registry.Direction      `json:"direction,omitzero"`
	Transport      registry.Transport      `json:"transport,omitzero"`
	Authentication registry.Authentication `json:"authentication,omitzero"`
	State          registry.State          `json:"state,omitzero"`
}

// ServerOf gives what rules see of a server.
func ServerOf(s *registry.Server) Server {
	return Server{
		Name: s.Name, Owner: s.Owner, Labels: s.Labels, Direction: s.Direction, Transport: s.Transport,
		Authentication: s.Authentication, State: s.State,
	}
}

// KindNothing is the kind of the one item of an approval that names none: the empty set.
const KindNothing registry.ItemKind = "nothing"

// Item is what rules see of something that is to be approved or that drifted.
type Item struct {
	Kind          registry.ItemKind `json:"kind,omitzero"` // empty: a tool
	Name          string            `json:"name,omitzero"` // of a resource its URI
	ID            string            `json:"id,omitzero"`   // canonical, of a tool
	Title         string            `json:"title,omitzero"`
	Text          string            `json:"text,omitzero"`           // its description
	Class         registry.Class    `json:"class,omitzero"`          // as which a tool is to be approved, or is
	ApprovedClass registry.Class    `json:"approved_class,omitzero"` // as which it was approved before
	Hints         []string          `json:"hints,omitzero"`          // what the review points out, by code
	Annotations   map[string]bool   `json:"annotations,omitzero"`    // registry.Item.Annotations
	Drift         registry.Moved    `json:"drift,omitzero"`          // against what was approved before
}

// facts answers what an expression asks for. It is of one evaluation and not safe for concurrent use.
type facts struct {
	server    *Server
	item      *Item
	requester string
	voter     *registry.Vote
	agent     string
	workspace string
	now       time.Time
	zone      *time.Location
	bounded   bool // everything is within the bounds of its scope

	labels      ref.Val
	annotations ref.Val
}

var _ interpreter.Activation = (*facts)(nil)

// Parent implements interpreter.Activation.
func (f *facts) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation. Each environment declares the names that it lets rules use, so that a
// pointer that is missing here is never asked for.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "server.name":
		return types.String(f.server.Name), true
	case "server.owner":
		return types.String(f.server.Owner), true
	case "server.labels":
		if f.labels == nil {
			f.labels = ordered{types.NewStringStringMap(types.DefaultTypeAdapter, f.server.Labels)}
		}
		return f.labels, true
	case "server.direction":
		return types.String(f.server.Direction), true
	case "server.transport":
		return types.String(f.server.Transport), true
	case "server.authentication":
		return types.String(f.server.Authentication), true
	case "server.state":
		return types.String(f.server.State), true
	case "class":
		return types.String(f.item.Class), true
	case "kind":
		if f.item.Kind == "" {
			return types.String(registry.KindTool), true
		}
		return types.String(f.item.Kind), true
	case "tool.name":
		return types.String(f.item.Name), true
	case "tool.id":
		return types.String(f.item.ID), true
	case "tool.title":
		return types.String(f.item.Title), true
	case "tool.text":
		return types.String(f.item.Text), true
	case "tool.hints":
		return types.NewStringList(types.DefaultTypeAdapter, f.item.Hints), true
	case "tool.annotations":
		if f.annotations == nil {
			f.annotations = ordered{annotations(f.item.Annotations)}
		}
		return f.annotations, true
	case "tool.approved_class":
		return types.String(f.item.ApprovedClass), true
	case "drift.severity":
		return types.String(f.item.Drift.Severity), true
	case "drift.moved":
		return types.NewStringList(types.DefaultTypeAdapter, f.item.Drift.Names()), true
	case "requester.subject":
		return types.String(f.requester), true
	case "approver.subject":
		return types.String(f.voter.Subject), true
	case "approver.roles":
		roles := make([]string, len(f.voter.Roles))
		for i, role := range f.voter.Roles {
			roles[i] = string(role)
		}
		return types.NewStringList(types.DefaultTypeAdapter, roles), true
	case "approver.time":
		return types.Timestamp{Time: f.voter.At.UTC()}, true
	case "agent.id":
		return types.String(f.agent), true
	case "workspace":
		return types.String(f.workspace), true
	case "now":
		return types.Timestamp{Time: f.now.UTC()}, true
	case "local.date":
		return types.String(f.now.In(f.zone).Format(time.DateOnly)), true
	case "local.weekday":
		return types.String(weekdays[f.now.In(f.zone).Weekday()]), true
	case "local.hour":
		return types.Int(f.now.In(f.zone).Hour()), true
	case "local.minute":
		return types.Int(f.now.In(f.zone).Minute()), true
	}
	return nil, false
}

var weekdays = [...]string{
	time.Sunday: "sunday", time.Monday: "monday", time.Tuesday: "tuesday", time.Wednesday: "wednesday",
	time.Thursday: "thursday", time.Friday: "friday", time.Saturday: "saturday",
}

func annotations(stated map[string]bool) traits.Mapper {
	values := make(map[ref.Val]ref.Val, len(stated))
	for name, value := range stated {
		values[types.String(name)] = types.Bool(value)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, values)
}

// ordered is a map that is walked in the order of its keys: Go's own order would make a rule's verdict, or its cost,
// another one each time.
type ordered struct{ traits.Mapper }

// Iterator implements traits.Iterable.
func (m ordered) Iterator() traits.Iterator {
	var keys []string
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		if key, ok := it.Next().(types.String); ok {
			keys = append(keys, string(key))
		}
	}
	slices.SortFunc(keys, strings.Compare)
	return types.NewStringList(types.DefaultTypeAdapter, keys).Iterator()
}
