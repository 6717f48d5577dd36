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
		"sandbox":      func(k *registry.Command) { k.Sandbox = "chroot" },
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

// TestCommandsSayWhatRuns (threats B8, B25): nothing that is fetched at the start,
// stands in the arguments or comes over standard input.
func TestCommandsSayWhatRuns(t *testing.T) {
	t.Parallel()
	for reason, commands := range map[registry.Reason][]string{
		"": {
			"/usr/bin/node /opt/mcp/node_modules/a/dist/index.js --root /srv", "/usr/bin/node --max-old-space-size=512 --require /opt/a.cjs /opt/b.js -e x",
			"/opt/node22/bin/node --import=/opt/a.mjs /opt/b.js", "/opt/venv/bin/python3.12 -I /opt/server.py -c x", "/opt/venv/bin/python -m mcp_server_git",
			"/bin/sh /opt/start.sh -c x", "/bin/bash -eu /opt/start.sh", "/usr/bin/deno run -A /opt/server.ts", "/usr/bin/bun run /opt/server.ts", "/opt/server",
			"/opt/server npx -c eval", "/usr/bin/java -Xmx512m -Da=b -jar /opt/a.jar", "/usr/bin/java -cp /opt/a.jar:/opt/b com.example.Server",
			"/usr/bin/dotnet /opt/a.dll", "/usr/bin/php -f /opt/a.php", "/usr/bin/perl -w /opt/a.pl", "/usr/local/bin/mcp-server-npx",
		},
		registry.ReasonCommandNotPinned: {
			"/usr/bin/npx -y evil", "/usr/bin/npx pkg@latest", "/usr/bin/npx pkg@1.2.3", "/usr/bin/uvx evil", "/usr/bin/pipx run evil", "/usr/bin/bunx evil",
			"/usr/bin/pnpm dlx evil", "/usr/bin/npm exec evil", "/usr/bin/yarn dlx evil", "/usr/bin/docker run evil:latest", "/usr/bin/docker run evil@sha256:0",
			"/usr/bin/podman run evil", "/usr/bin/node /usr/lib/node_modules/npm/bin/npx-cli.js evil", "/usr/bin/go run evil", "/usr/bin/uv tool run evil", "/usr/bin/pip3.11 x",
		},
		registry.ReasonCommandInline: {
			"/bin/sh -c id", "/bin/sh -ec id", "/bin/bash", "/bin/bash -lc id", "/bin/bash --login", "/bin/dash -c id", "/bin/sh -", "/bin/sh -s", "/bin/sh relative.sh",
			"/bin/sh /dev/stdin", "/bin/bash /proc/self/fd/0", "/usr/bin/zsh -c id", "/usr/bin/python -c x", "/usr/bin/python3 -Ic x", "/usr/bin/python3.11 -", "/usr/bin/python3",
			"/usr/bin/python -m pip run", "/usr/bin/python -m timeit x", "/usr/bin/python -m", "/usr/bin/node -e x", "/usr/bin/node --eval=x /opt/a.js", "/usr/bin/node -pe x",
			"/usr/bin/node --import=data:text/javascript,x /opt/a.js", "/usr/bin/node --require x /opt/a.js", "/usr/bin/node --env-file=/opt/env /opt/a.js", "/usr/bin/nodejs -p x",
			"/usr/bin/node", "/usr/bin/node index.js", "/usr/bin/node22 -e x", "/usr/bin/perl -e x", "/usr/bin/perl -MEvil /opt/a.pl", "/usr/bin/perl5.36 -e x", "/usr/bin/ruby -e x", "/usr/bin/php -r x",
			"/usr/bin/deno eval x", "/usr/bin/deno run https://evil.example/a.ts", "/usr/bin/deno run npm:evil", "/usr/bin/bun -e x", "/usr/bin/bun x evil", "/usr/bin/lua -e x",
			"/usr/bin/env node /opt/a.js", "/usr/bin/env -S sh -c id", "/bin/busybox sh -c id", "/usr/bin/timeout 5 /bin/sh", "/usr/bin/xargs sh", "/usr/bin/sudo /opt/server",
			"/lib64/ld-linux-x86-64.so.2 /opt/server", "/usr/bin/setsid /opt/server", "/usr/bin/awk x", "/usr/bin/find / -exec id", "/usr/bin/java -jar evil.jar",
			"/usr/bin/java -XX:OnError=id -jar /opt/a.jar", "/usr/bin/java -javaagent:x.jar -jar /opt/a.jar", "/usr/bin/dotnet run", "/usr/bin/pwsh -Command x", "/usr/bin/tsx -e x",
			"/usr/bin/julia -e x", "/usr/bin/julia --eval x",
		},
	} {
		for _, command := range commands {
			k := files(func(k *registry.Command) { k.Argv = strings.Fields(command) })
			err := k.CheckProgram()
			e, _ := registry.AsError(err)
			if reasonIn(err) != reason {
				t.Errorf("%s: %v (%s), not %s", command, err, reasonIn(err), reason)
			} else if err != nil && (e.Next == "" || e.Fact("key") != "argv") {
				t.Errorf("%s: %+v says not what to do", command, e)
			}
		}
	}
	// Links do not hide what a program is, and a shell stays one.
	for _, tt := range []struct {
		argv, leads string
		want        registry.Reason
	}{
		{"/opt/tool -c id", "/bin/busybox", registry.ReasonCommandInline},
		{"/opt/tool evil", "/usr/lib/node_modules/npm/bin/npx", registry.ReasonCommandNotPinned},
		{"/opt/tool -e x", "/usr/bin/node", registry.ReasonCommandInline},
		{"/opt/tool /opt/a.js", "/usr/bin/node", ""},
		{"/bin/sh /opt/a.sh", "/bin/busybox", ""},
		{"/bin/sh -c id", "/bin/busybox", registry.ReasonCommandInline},
	} {
		k := files(func(k *registry.Command) { k.Argv = strings.Fields(tt.argv) })
		if err := k.CheckProgram(tt.leads); reasonIn(err) != tt.want {
			t.Errorf("%s, which is %s: %v", tt.argv, tt.leads, err)
		}
	}
}

// TestVariablesDoNotChangeWhatRuns (threat B8).
func TestVariablesDoNotChangeWhatRuns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_PRELOAD", "ld_preload", "LD_LIBRARY_PATH", "LD_AUDIT", "NODE_OPTIONS", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "RUBYOPT",
		"JAVA_TOOL_OPTIONS", "DOTNET_STARTUP_HOOKS", "GCONV_PATH", "npm_config_registry", "OPENSSL_CONF", "BASH_FUNC_ls", "IFS",
	} {
		for _, holds := range []string{"plain:/opt/x", "env:X"} {
			k := files(func(k *registry.Command) { k.Env = map[string]string{name: holds} })
			if err := k.Check(); registry.ReasonOf(err) != registry.ReasonCommandVariable {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for holds, want := range map[string]registry.Reason{
		"plain:/usr/local/bin:/usr/bin": "", "plain:": registry.ReasonCommandVariable, "plain:/usr/bin:": registry.ReasonCommandVariable,
		"plain:bin": registry.ReasonCommandVariable, "env:PATH": registry.ReasonCommandVariable, "plain:/usr/bin:/tmp": registry.ReasonCommandVariable,
		"plain:/tmp/bin": registry.ReasonCommandVariable, "plain:/proc/self/cwd": registry.ReasonCommandVariable,
	} {
		for _, name := range []string{"PATH", "PYTHONPATH", "NODE_PATH"} {
			k := files(func(k *registry.Command) { k.Env = map[string]string{name: holds} })
			if err := k.Check(); reasonIn(err) != want {
				t.Errorf("%s=%s: %v", name, holds, err)
			}
		}
	}
	k := files(func(k *registry.Command) {
		k.Env = map[string]string{"HOME": "plain:/tmp", "NODE_ENV": "plain:production", "ENVIRONMENT": "plain:x", "API_KEY": "env:K"}
	})
	if err := k.Check(); err != nil {
		t.Error(err)
	}
}

// TestTheMachineIsNotMounted, nor what belongs to its services.
func TestTheMachineIsNotMounted(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/", "/etc", "/home", "/root", "/var", "/run", "/run/docker.sock", "/var/run/docker.sock", "/proc/1/root", "/sys", "/dev/mem", "/boot", "relative",
		"/srv/../etc", "/srv/", "/tmp", "/srv\n",
	} {
		k := files(func(k *registry.Command) { k.Mounts = []string{"/srv/shared", path} })
		if err := k.Check(); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%s: %v", path, err)
		}
		if path == "/" {
			continue
		}
		k = files(func(k *registry.Command) { k.Dir = path })
		if err := k.Check(); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("in %s: %v", path, err)
		}
	}
	k := files(func(k *registry.Command) {
		k.Mounts, k.Dir = []string{"/srv/shared", "/etc/mcp/files.json"}, "/srv/work"
	})
	if err := k.Check(); err != nil {
		t.Error(err)
	}
}

// TestArgumentsHaveNoEndsOfLines, which would be shown as something else.
func TestArgumentsHaveNoEndsOfLines(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"a\nb", "a\rb", "a\x00b"} {
		k := files(func(k *registry.Command) { k.Argv = append(k.Argv, arg) })
		if err := k.Check(); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

// TestLimitsOfACommandAreChecked.
func TestLimitsOfACommandAreChecked(t *testing.T) {
	t.Parallel()
	for key, limits := range map[string]registry.CommandLimits{
		"limits.memory_mib": {Memory: 1}, "limits.tmp_mib": {Tmp: -1}, "limits.tasks": {Tasks: 1}, "limits.open_files": {OpenFiles: 3},
		"limits.address_space_mib": {AddressSpace: 1}, "limits.cpu_time": {CPUTime: time.Millisecond}, "limits.cpus": {CPUs: 0.01},
	} {
		err := files(func(k *registry.Command) { k.Limits = limits }).Check()
		if e, ok := registry.AsError(err); !ok || e.Fact("key") != key {
			t.Errorf("%s: %v", key, err)
		}
	}
	if got := (registry.CommandLimits{Memory: 5}).Defaults(); got.Memory != 5 || got.Tasks != 256 || got.AddressSpace != 0 {
		t.Errorf("%+v", got)
	}
}

// TestAnImageIsNamedByItsDigest, or its container is not taken (threat B25); and
// what a container cannot hold is refused.
func TestAnImageIsNamedByItsDigest(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0f", 32)
	for _, sandbox := range registry.Containers {
		for image, good := range map[string]bool{
			"ghcr.io/x/server" + digest: true, "localhost:5000/server:1.2" + digest: true, "server" + digest: true,
			"": false, "server": false, "server:1.2": false, "server:latest": false, digest: false, digest[1:]: false,
			"server" + digest[:70]: false, "server" + digest + "0": false, "server@sha256:" + strings.Repeat("0F", 32): false,
			"-v" + digest: false, "--privileged" + digest: false, "a b" + digest: false, "a\n" + digest: false, "/images/x": false,
		} {
			k := files(func(k *registry.Command) { k.Sandbox, k.Image = sandbox, image })
			err := k.Check()
			e, _ := registry.AsError(err)
			if good && err != nil || !good && (e == nil || e.Reason != registry.ReasonCommandNotPinned || e.Fact("key") != "image" || !strings.Contains(e.Next, "sha256")) {
				t.Errorf("%s %q: %v", sandbox, image, err)
			}
		}
		for key, edit := range map[string]func(*registry.Command){
			"mounts":                   func(k *registry.Command) { k.Mounts = []string{"/srv/a,readonly=false"} },
			"limits.address_space_mib": func(k *registry.Command) { k.Limits.AddressSpace = 1 << 30 },
			"argv":                     func(k *registry.Command) { k.Argv = []string{"/bin/sh", "-c", "id"} },
		} {
			k := files(func(k *registry.Command) { k.Sandbox, k.Image = sandbox, "server"+digest })
			edit(k)
			err := k.Check()
			if err == nil {
				err = k.CheckProgram()
			}
			if e, _ := registry.AsError(err); e == nil || e.Fact("key") != key {
				t.Errorf("%s %s: %v", sandbox, key, err)
			}
		}
	}
	if registry.PinnedImage("/images/x") {
		t.Error("a directory is pinned")
	}
}
