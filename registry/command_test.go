package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func files(edit func(*registry.Command)) *registry.Command {
	k := registry.Command{
		Ref: "files", Argv: []string{"/usr/bin/node", "/opt/files.js", "--root", "/srv"}, Env: map[string]string{"KEY": "env:FILES_KEY"},
		Sandbox: registry.SandboxBubblewrap, Start: time.Minute,
	}
	if edit != nil {
		edit(&k)
	}
	return &k
}

func stdio(g *registry.Registration) {
	g.Transport, g.URL, g.CommandRef, g.Command = registry.TransportStdio, "", "files", files(nil)
}

func (l *life) launches(digest string, by registry.Actor) error {
	return l.do(func(now time.Time) error {
		op := l.op("approve_launch")
		op.Actor = by
		return l.r.Decide(registry.Ruling{Verb: registry.VerbApproveLaunch, Digest: digest}, op, now)
	})
}

func TestACommandIsNotStartedBeforeAPersonApprovedIt(t *testing.T) {
	t.Parallel()
	l := newLife(t, stdio)
	s := &l.r.Server
	if s.Discovery.Status != registry.DiscoveryNever || !s.LaunchPending() || l.last.Command == nil || l.last.Connection != nil || s.EndpointRef != "" {
		t.Fatalf("registered: %+v, writes %+v", s, l.last)
	}
	if h := registry.HealthOf(s, nil); h.Reason != "launch_pending" || h.Level != registry.LevelUnknown {
		t.Errorf("health: %+v", h)
	}
	begin := func(time.Time) error { return l.r.BeginDiscovery(0, admin) }
	if err := l.do(begin); registry.ReasonOf(err) != registry.ReasonLaunchPending {
		t.Errorf("a discovery before: %v", err)
	}
	if err := s.MayLaunch(*files(nil)); registry.ReasonOf(err) != registry.ReasonLaunchPending {
		t.Errorf("a launch before: %v", err)
	}

	maintainer := registry.Actor{Subject: "bob", Roles: []registry.Role{registry.RoleAssetMaintainer}}
	for name, c := range map[string]struct {
		digest string
		by     registry.Actor
		want   registry.Reason
	}{
		"by a maintainer":       {s.TargetDigest, maintainer, registry.ReasonPermissionDenied},
		"of no digest":          {"", admin, registry.ReasonInvalidArgument},
		"of what it was before": {"sha256:other", admin, registry.ReasonSuperseded},
	} {
		if err := l.launches(c.digest, c.by); registry.ReasonOf(err) != c.want || l.r.Refused() == nil {
			t.Errorf("an approval %s: %v, kept %v", name, err, l.r.Refused())
		}
	}
	version := s.Version
	if err := l.launches(s.TargetDigest, admin); err != nil {
		t.Fatal(err)
	}
	if d := l.last.Decision; d == nil || !d.Applied || d.Target != s.TargetDigest || d.Subject != "ann" || s.Launch.DecisionID != d.DecisionID {
		t.Errorf("decision: %+v", d)
	}
	if s.Version != version+1 || s.Discovery.Number != 1 || s.Discovery.Status != registry.DiscoveryRunning {
		t.Errorf("after the approval: version %d, discovery %+v", s.Version, s.Discovery)
	}
	if err := l.launches(s.TargetDigest, admin); err != nil || l.last.Server || l.last.Decision != nil {
		t.Errorf("a repeat: %v, writes %+v", err, l.last)
	}
	if err := s.MayLaunch(*files(func(k *registry.Command) { k.Start = time.Second })); err != nil {
		t.Errorf("its limits are not part of it: %v", err)
	}
	l.n++
	l.sees("read_file")
	l.approves("read_file")
	l.is(registry.StateActive)
}

func TestEverythingOfACommandIsPartOfItsTarget(t *testing.T) {
	t.Parallel()
	l := newLife(t, stdio)
	if err := l.launches(l.r.Server.TargetDigest, admin); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*registry.Command){
		"an argument":    func(k *registry.Command) { k.Argv = append(k.Argv, "-v") },
		"the joint":      func(k *registry.Command) { k.Argv = []string{"/usr/bin/node", "/opt/files.js --root", "/srv"} },
		"the image":      func(k *registry.Command) { k.Image = "/images/node" },
		"the directory":  func(k *registry.Command) { k.Dir = "/srv" },
		"a variable":     func(k *registry.Command) { k.Env = map[string]string{"KEY": "env:FILES_KEY", "MORE": "env:X"} },
		"a reference":    func(k *registry.Command) { k.Env = map[string]string{"KEY": "env:OTHER"} },
		"the network":    func(k *registry.Command) { k.Network = true },
		"the sandbox":    func(k *registry.Command) { k.Sandbox = registry.SandboxNone },
		"the name alone": func(k *registry.Command) { k.Ref = "files2" },
	} {
		if err := l.r.Server.MayLaunch(*files(edit)); registry.ReasonOf(err) != registry.ReasonCommandChanged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnotherCommandUnbindsAndWaitsForItsLaunch(t *testing.T) {
	t.Parallel()
	l := newLife(t, stdio)
	s := &l.r.Server
	if err := l.launches(s.TargetDigest, admin); err != nil {
		t.Fatal(err)
	}
	l.n++
	l.sees("read_file")
	l.approves("read_file")
	edit := func(k *registry.Command) error {
		return l.do(func(now time.Time) error {
			return l.r.Edit(registry.Edit{CommandRef: &k.Ref, Command: k}, l.op("edit"), now)
		})
	}
	if err := edit(files(nil)); err != nil || l.last.Server {
		t.Fatalf("the same command changes nothing: %v %+v", err, l.last)
	}
	before := s.TargetDigest
	if err := edit(files(func(k *registry.Command) { k.Argv = append(k.Argv, "-v") })); err != nil {
		t.Fatal(err)
	}
	if s.TargetDigest == before || !s.LaunchPending() || l.last.Command == nil || s.SnapshotDigest != "" {
		t.Errorf("after: %+v, writes %+v", s, l.last)
	}
	if got := l.denial("read_file"); got != registry.ReasonSchemaChanged {
		t.Errorf("the tool is denied as %q", got)
	}
	if h := registry.HealthOf(s, nil); h.Reason != "launch_pending" || h.Level != registry.LevelDegraded {
		t.Errorf("health: %+v", h)
	}
	// What was discovered by the command before cannot be approved for this one.
	err := l.do(func(now time.Time) error {
		return l.r.Decide(registry.Ruling{Verb: registry.VerbRequestReview}, l.op("request_review"), now)
	})
	if registry.ReasonOf(err) != registry.ReasonNothingDiscovered {
		t.Errorf("a review before a discovery: %v", err)
	}
	if err := l.launches(before, admin); registry.ReasonOf(err) != registry.ReasonSuperseded {
		t.Errorf("an approval of the command before: %v", err)
	}
	url := "http://127.0.0.1:1/"
	err = l.do(func(now time.Time) error { return l.r.Edit(registry.Edit{URL: &url}, l.op("edit"), now) })
	if registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Errorf("a URL for a command: %v", err)
	}
}

func TestServersOnTheNetworkHaveNothingToLaunch(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	if err := l.launches(l.r.Server.TargetDigest, admin); registry.ReasonOf(err) != registry.ReasonNoLaunch {
		t.Error(err)
	}
	ref := "files"
	err := l.do(func(now time.Time) error {
		return l.r.Edit(registry.Edit{CommandRef: &ref, Command: files(nil)}, l.op("edit"), now)
	})
	if registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Error(err)
	}
}

func TestWhatWasDiscoveredAtOneURLCannotBeApprovedForAnother(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.sees("a")
	l.approves("a")
	url := "http://127.0.0.1:2/mcp"
	l.must(func(now time.Time) error { return l.r.Edit(registry.Edit{URL: &url}, l.op("edit"), now) })
	err := l.do(func(now time.Time) error {
		return l.r.Decide(registry.Ruling{Verb: registry.VerbRequestReview}, l.op("request_review"), now)
	})
	if registry.ReasonOf(err) != registry.ReasonNothingDiscovered {
		t.Fatal(err)
	}
	l.n++
	l.sees("a")
	l.approves("a")
	if got := l.denial("a"); got != "" {
		t.Error(got)
	}
}

func TestRegistrationsByCommand(t *testing.T) {
	t.Parallel()
	good := registry.Registration{
		Name: "files", Direction: registry.DirectionConsumed, Transport: registry.TransportStdio, CommandRef: "files",
		Authentication: registry.AuthWorkloadIdentity, GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
	}
	if err := good.Check(registry.Installation{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(*registry.Registration)
		want string
	}{
		"no command":        {func(g *registry.Registration) { g.CommandRef = "" }, "command_ref"},
		"a command line":    {func(g *registry.Registration) { g.CommandRef = "/bin/sh -c id" }, "command_ref"},
		"a URL":             {func(g *registry.Registration) { g.URL = "https://example.com/mcp" }, "endpoint_url"},
		"a dial address":    {func(g *registry.Registration) { g.DialAddress = "127.0.0.1:1" }, "dial_address"},
		"offered to others": {func(g *registry.Registration) { g.Direction = registry.DirectionExposed }, "direction"},
		"OAuth (C9)":        {func(g *registry.Registration) { g.Authentication = registry.AuthOAuth2 }, "authentication"},
		"a command for HTTP": {func(g *registry.Registration) {
			g.Transport, g.URL = registry.TransportStreamableHTTP, "https://example.com/mcp"
		}, "command_ref"},
	} {
		g := good
		c.edit(&g)
		e, ok := registry.AsError(g.Check(registry.Installation{}))
		if !ok || len(e.Fields) != 1 || e.Fields[0].Path != c.want {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestCommandsOfTheAllowListAreChecked(t *testing.T) {
	t.Parallel()
	if err := files(nil).Check(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	want := map[string]string{}
	for field, edit := range map[string]func(*registry.Command){
		"name":         func(k *registry.Command) { k.Ref = "Files" },
		"argv":         func(k *registry.Command) { k.Argv = []string{"node"} },
		"workdir":      func(k *registry.Command) { k.Dir = "srv" },
		"image":        func(k *registry.Command) { k.Image = "node:20" },
		"sandbox":      func(k *registry.Command) { k.Sandbox = "docker" },
		"env":          func(k *registry.Command) { k.Env = map[string]string{"A B": "env:X"} },
		"limits.start": func(k *registry.Command) { k.Start = 2 * time.Minute },
	} {
		want[field] = field
		if err := files(edit).Check(); err != nil {
			rest, _ := strings.CutPrefix(err.Error(), `command "files": `)
			rest, _ = strings.CutPrefix(rest, `command "Files": `)
			got[field], _, _ = strings.Cut(rest, " ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
