package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// others is a surface of one resource, one template and one prompt.
func others(resource, template, prompt string) registry.Surface {
	s := registry.Surface{ProtocolVersion: "2026-07-28", Kinds: []string{"prompts", "resources"}}
	for list, raw := range map[*[][]byte]string{&s.Resources: resource, &s.Templates: template, &s.Prompts: prompt} {
		if raw != "" {
			*list = [][]byte{[]byte(raw)}
		}
	}
	return s
}

const (
	aResource = `{"uri":"file:///a","name":"a"}`
	aTemplate = `{"uriTemplate":"city://{name}","name":"city"}`
	aPrompt   = `{"name":"p","description":"does p"}`
)

func (l *life) approvesOthers() {
	l.Helper()
	a := registry.Approval{
		Digest:    l.r.Server.Review.Digest,
		Resources: []registry.ResourceLine{{URI: "file:///a"}, {URI: "city://{name}"}}, Prompts: []registry.PromptLine{{Prompt: "p", SkillID: "s"}},
	}
	l.must(func(now time.Time) error {
		return l.r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &a}, l.op("approve"), now)
	})
}

// bound wants the bindings of the resource, the template and the prompt to be
// so: "" is bound, else why not.
func (l *life) bound(resource, template, prompt registry.Reason) {
	l.Helper()
	type state struct {
		Bound bool
		By    registry.Reason
	}
	r, t, p := l.r.Resources["file:///a"], l.r.Resources["city://{name}"], l.r.Prompts["p"]
	want := []state{{resource == "", resource}, {template == "", template}, {prompt == "", prompt}}
	if diff := cmp.Diff(want, []state{{r.Bound, r.UnboundBy}, {t.Bound, t.UnboundBy}, {p.Bound, p.UnboundBy}}); diff != "" {
		l.Fatalf("resource, template and prompt: %s", diff)
	}
}

func TestBindingsOfResourcesAndPromptsFollowDriftAsThoseOfToolsDo(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.seesSurface(others(aResource, aTemplate, aPrompt))
	l.approvesOthers()
	l.bound("", "", "")

	// What vanishes keeps its binding, which holds when it returns as approved.
	l.seesSurface(others("", aTemplate, ""))
	l.bound("", "", "")
	l.seesSurface(others(aResource, aTemplate, aPrompt))
	l.bound("", "", "")
	if l.r.Server.Review.Status == registry.ReviewPending {
		t.Error("back at what is approved, and a review is pending")
	}

	// What vanishes and returns as another is unbound.
	l.seesSurface(others("", aTemplate, aPrompt))
	l.seesSurface(others(`{"uri":"file:///a","name":"a","mimeType":"text/html"}`, aTemplate, aPrompt))
	l.bound(registry.ReasonSchemaChanged, "", "")

	// Alone; and what drifts back stays unbound until it is approved again.
	l.seesSurface(others(aResource, aTemplate, aPrompt))
	l.bound(registry.ReasonSchemaChanged, "", "")
	if l.r.Server.Review.Status != registry.ReviewPending {
		t.Error("nobody is asked about the resource that drifted back")
	}
	l.approvesOthers()
	l.bound("", "", "")
	l.seesSurface(others(aResource, `{"uriTemplate":"city://{name}","name":"city","description":"other"}`, `{"name":"p","arguments":[{"name":"x","required":true}]}`))
	l.bound("", registry.ReasonSchemaChanged, registry.ReasonSchemaChanged)

	// A fault of one is its reason.
	l.seesSurface(others(`{"uri":"file:///a","name":"a","name":"b"}`, aTemplate, aPrompt))
	l.bound(registry.ReasonAmbiguousKeys, registry.ReasonSchemaChanged, registry.ReasonSchemaChanged)
}

func TestAnotherTargetUnbindsResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.seesSurface(others(aResource, aTemplate, aPrompt))
	l.approvesOthers()
	l.must(func(now time.Time) error {
		return l.r.Edit(registry.Edit{URL: new("https://elsewhere.example/mcp")}, l.op("edit"), now)
	})
	l.bound(registry.ReasonTargetChanged, registry.ReasonTargetChanged, registry.ReasonTargetChanged)
	if len(l.last.Resources) != 2 || len(l.last.Prompts) != 1 {
		t.Errorf("%d resources and %d prompts are written", len(l.last.Resources), len(l.last.Prompts))
	}
}

func TestManyToolsAreSwitchedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a", "b", "c")
	version := l.r.Server.Version
	if err := l.do(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "x"}, true) }); registry.ReasonOf(err) != registry.ReasonToolNotFound {
		t.Errorf("an unknown tool: %v", err)
	}
	if l.r.Tools["a"].Enabled {
		t.Error("refused, and one tool is switched")
	}
	l.must(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "b"}, true) })
	if !l.r.Tools["a"].Enabled || !l.r.Tools["b"].Enabled || l.r.Tools["c"].Enabled || len(l.last.Tools) != 2 || l.r.Server.Version != version+1 {
		t.Errorf("%+v at version %d", l.last, l.r.Server.Version)
	}
	if l.last.Note != "enabled 2 tools" || l.last.Detail == nil {
		t.Errorf("the audit says %q, %v", l.last.Note, l.last.Detail)
	}
	l.must(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "b", "c"}, true) })
	if l.last.Note != "enabled demo.c" || len(l.last.Tools) != 1 {
		t.Errorf("what is so already is touched: %+v", l.last)
	}
	l.must(func(time.Time) error { return l.r.SetAllEnabled([]string{"a", "b", "c"}, true) })
	if l.last.Server || len(l.last.Tools) > 0 || l.r.Server.Version != version+2 {
		t.Errorf("a repeat changes: %+v", l.last)
	}
}

func TestRequiresApprovalSurvivesEveryRefresh(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a", "b")
	l.approves("a", "b")
	l.must(func(time.Time) error { return l.r.RequireApproval([]string{"a"}, true) })
	for _, tools := range [][]string{{"a:2", "b"}, {"b"}, {"a:2", "b"}} {
		l.sees(tools...)
		if !l.r.Tools["a"].RequiresApproval || l.r.Tools["b"].RequiresApproval {
			t.Errorf("after %v: %v, %v", tools, l.r.Tools["a"].RequiresApproval, l.r.Tools["b"].RequiresApproval)
		}
	}
	l.denies("b", "")
	l.must(func(time.Time) error { return l.r.RequireApproval([]string{"a"}, false) })
	if l.r.Tools["a"].RequiresApproval {
		t.Error("it cannot be taken back")
	}
}

func TestADescriptorVersionGoesFromDraftToPublishedToDeprecated(t *testing.T) {
	t.Parallel()
	draft := func() *registry.Descriptor {
		d, err := registry.NewDescriptor("demo.a", registry.ClassRead, "reads")
		if err != nil {
			t.Fatal(err)
		}
		return &d
	}
	d := draft()
	steps := []struct {
		name    string
		step    func(registry.Actor, time.Time) (bool, error)
		changes bool
		refused registry.Reason
		status  registry.DescriptorStatus
	}{
		{"publish", d.Publish, true, "", registry.DescriptorPublished},
		{"publish again", d.Publish, false, "", registry.DescriptorPublished},
		{"deprecate", d.Deprecate, true, "", registry.DescriptorDeprecated},
		{"deprecate again", d.Deprecate, false, "", registry.DescriptorDeprecated},
		{"publish a deprecated one", d.Publish, false, registry.ReasonDescriptorStatus, registry.DescriptorDeprecated},
	}
	for _, s := range steps {
		changed, err := s.step(admin, t0)
		if changed != s.changes || err != nil && registry.ReasonOf(err) != s.refused || d.Status != s.status {
			t.Errorf("%s: %v, %v, %s", s.name, changed, err, d.Status)
		}
	}
	if d.PublishedBy != "ann" || d.DeprecatedBy != "ann" {
		t.Errorf("%+v", d)
	}
	if changed, err := draft().Deprecate(admin, t0); !changed || err != nil {
		t.Errorf("a draft cannot be given up: %v, %v", changed, err)
	}
	for id, class := range map[string]registry.Class{"": registry.ClassRead, "a b": registry.ClassRead, "-a": registry.ClassRead, "a": "", "b": "all"} {
		if _, err := registry.NewDescriptor(id, class, ""); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q of class %q: %v", id, class, err)
		}
	}
}

// R147.
func TestHealthOfADescriptorFollowsItsServers(t *testing.T) {
	t.Parallel()
	healthy := registry.BoundServer{Health: registry.Health{Level: registry.LevelHealthy}}
	degraded := registry.BoundServer{Health: registry.Health{Level: registry.LevelDegraded}}
	retired := registry.BoundServer{Health: registry.Health{Level: registry.LevelUnknown}, Retired: true}
	for _, c := range []struct {
		name    string
		status  registry.DescriptorStatus
		servers []registry.BoundServer
		level   registry.Level
		active  bool
	}{
		{"bound nowhere", registry.DescriptorPublished, nil, registry.LevelUnknown, true},
		{"a draft", registry.DescriptorDraft, nil, registry.LevelUnknown, false},
		{"healthy", registry.DescriptorPublished, []registry.BoundServer{healthy}, registry.LevelHealthy, true},
		{"degraded", registry.DescriptorPublished, []registry.BoundServer{healthy, degraded}, registry.LevelDegraded, true},
		{"retired", registry.DescriptorPublished, []registry.BoundServer{retired}, registry.LevelUnhealthy, false},
		{"one of two retired", registry.DescriptorPublished, []registry.BoundServer{retired, healthy}, registry.LevelUnhealthy, true},
		{"deprecated", registry.DescriptorDeprecated, []registry.BoundServer{healthy}, registry.LevelHealthy, false},
	} {
		h, active := registry.DescriptorHealth(&registry.Descriptor{Status: c.status}, c.servers)
		if h.Level != c.level || active != c.active {
			t.Errorf("%s: %s, active %v, want %s, %v", c.name, h.Level, active, c.level, c.active)
		}
	}
}

func TestAssignmentsAreChecked(t *testing.T) {
	t.Parallel()
	one, err := registry.NewAssignment("acme", "agent-1", "demo.a", "")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := registry.NewAssignment("acme", "agent-1", "demo.a", "")
	other, _ := registry.NewAssignment("acme", "agent-1", "demo.a", "team")
	if one.AssignmentID != again.AssignmentID || one.AssignmentID == other.AssignmentID {
		t.Errorf("ids %s, %s, %s", one.AssignmentID, again.AssignmentID, other.AssignmentID)
	}
	for _, c := range [][3]string{{"", "demo.a", ""}, {"a b", "demo.a", ""}, {"a", "", ""}, {"a", "demo.a", "no spaces"}, {"a\n", "demo.a", ""}} {
		if _, err := registry.NewAssignment("acme", c[0], c[1], c[2]); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q: %v", c, err)
		}
	}
}
