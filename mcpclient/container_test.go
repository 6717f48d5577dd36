package mcpclient_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/mcpclient"
	"countersign/registry"
)

const anImage = "registry.example/mcp/server:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// fakeEngine puts a program into the PATH that stands for Docker or Podman. It
// notes what it is asked, runs the program of a container without one, with the
// environment that the container would have, and knows two containers by label.
func fakeEngine(t *testing.T, name string) (asked func() [][]string) {
	t.Helper()
	dir := t.TempDir()
	const script = `#!/bin/sh
[ -n "$DOCKER_HOST" ] && [ -z "$COUNTERSIGN_CANARY" ] || exit 99
asked=$(printf '%%s\037' "$@") # written at once: it may be killed
printf '%%s\n' "$asked" >> '%[1]s/asked'
case $1 in
ps) echo aaaa; echo bbbb; exit 0;;
rm) exit 0;;
esac
while [ "$1" != --entrypoint ]; do shift; done
program=$2; shift 3
[ "$program" = /missing ] && { echo 'docker: Error response from daemon: No such image' >&2; exit 125; }
exec /usr/bin/env -i $(cat /proc/self/fd/3) "$program" "$@" 3<&-
`
	if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, script, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("DOCKER_HOST", "unix:///nowhere")
	t.Setenv("COUNTERSIGN_CANARY", "must not be seen")
	return func() [][]string {
		raw, err := os.ReadFile(dir + "/asked")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		var out [][]string
		for line := range strings.Lines(string(raw)) {
			out = append(out, strings.Split(strings.TrimSuffix(line, "\x1f\n"), "\x1f"))
		}
		return out
	}
}

func keeper(t *testing.T, stateDir string) *mcpclient.Keeper {
	t.Helper()
	k, err := mcpclient.OpenKeeper(t.Context(), mcpclient.KeeperOptions{StateDir: stateDir, Cgroup: mcpclient.CgroupNone, Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// TestAContainerIsDiscovered and removed, by the program of Docker and of Podman.
// It has its environment and no other, and no secret is in an argument.
func TestAContainerIsDiscovered(t *testing.T) {
	for _, sandbox := range registry.Containers {
		asked := fakeEngine(t, string(sandbox))
		command, mark := peer(t, "environment")
		command.Sandbox, command.Image, command.Env = sandbox, anImage, []string{"TOKEN=s3cr3t-canary", "DOCKER_HOST=its-own", "EMPTY="}
		c := starter(command, nil)
		c.Keeper = keeper(t, t.TempDir())
		surface, report, err := c.Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
		if err != nil {
			e, _ := registry.AsError(err)
			t.Fatalf("%s: %v %v", sandbox, err, e.Facts)
		}
		if got, want := string(surface.Tools[0]), `{"name":"env","env":["TOKEN=s3cr3t-canary","DOCKER_HOST=its-own","EMPTY="]}`; got != want {
			t.Errorf("%s: %s", sandbox, got)
		}
		if want := "in a container without network; limits held by " + string(sandbox); report.Steps[0].Detail != want {
			t.Errorf("%s: %+v", sandbox, report.Steps[0])
		}
		noneLeft(t, mark)
		calls := asked()
		if len(calls) != 2 || calls[0][0] != "run" {
			t.Fatalf("%s: %q", sandbox, calls)
		}
		name := calls[0][slices.Index(calls[0], "--name")+1]
		if diff := cmp.Diff([]string{"rm", "--force", "--volumes", name}, calls[1]); diff != "" || !strings.HasPrefix(name, "countersign-") {
			t.Errorf("%s: %s", sandbox, diff)
		}
		if text := fmt.Sprint(calls); strings.Contains(text, "s3cr3t") || !slices.Contains(calls[0], anImage) {
			t.Errorf("%s: %s", sandbox, text)
		}
	}
}

// TestAContainerThatFailsIsRemovedAndToldOf.
func TestAContainerThatFailsIsRemovedAndToldOf(t *testing.T) {
	asked := fakeEngine(t, "docker")
	never, mark := peer(t, "never")
	never.Start = 2 * time.Second
	for name, tt := range map[string]struct {
		command mcpclient.Command
		want    registry.Reason
		says    string
		runs    bool
	}{
		"it never answers":              {never, registry.ReasonTimeout, "", true},
		"there is no image":             {mcpclient.Command{Argv: []string{"/missing"}}, registry.ReasonSandboxUnavailable, "No such image", true},
		"it exits":                      {mcpclient.Command{Argv: []string{"/bin/sh", "-c", "exit 3"}}, registry.ReasonUnreachable, "exit code 3", true},
		"a variable of two lines":       {mcpclient.Command{Argv: []string{"/bin/true"}, Env: []string{"KEY=s3cr3t\nEVIL=1"}}, registry.ReasonSandboxUnavailable, "variable KEY", false},
		"a tag instead of a digest":     {mcpclient.Command{Argv: []string{"/bin/true"}, Image: "server:latest"}, registry.ReasonInvalidArgument, "digest", false},
		"an option instead of an image": {mcpclient.Command{Argv: []string{"/bin/true"}, Image: "--privileged@sha256:" + strings.Repeat("0", 64)}, registry.ReasonInvalidArgument, "digest", false},
	} {
		command := tt.command
		command.Sandbox = registry.SandboxDocker
		if command.Image == "" {
			command.Image = anImage
		}
		before := len(asked())
		c := starter(command, nil)
		c.Keeper = keeper(t, t.TempDir())
		_, _, err := c.Discover(t.Context(), overStdio, mcpclient.EraModern, nil)
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != tt.want || !strings.Contains(e.Message, tt.says) || strings.Contains(e.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
		var run, removed []string // there may be a second attempt, or none that came so far
		for _, call := range asked()[before:] {
			if call[0] == "rm" {
				removed = append(removed, call[len(call)-1])
			} else {
				run = append(run, call[slices.Index(call, "--name")+1])
			}
		}
		missing := slices.ContainsFunc(run, func(name string) bool { return !slices.Contains(removed, name) })
		if (len(run) > 0) != tt.runs || missing {
			t.Errorf("%s: ran %q, removed %q", name, run, removed)
		}
	}
	noneLeft(t, mark)
	// Without somebody who would remove it there is none, and none without a program.
	c := starter(mcpclient.Command{Argv: []string{"/bin/true"}, Sandbox: registry.SandboxPodman, Image: anImage}, nil)
	c.Keeper = keeper(t, t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, _, err := c.Discover(t.Context(), overStdio, "", nil)
	if registry.ReasonOf(err) != registry.ReasonSandboxUnavailable || !strings.Contains(err.Error(), "podman") {
		t.Error(err)
	}
	_, _, err = starter(mcpclient.Command{Argv: []string{"/bin/true"}, Sandbox: registry.SandboxDocker, Image: anImage}, nil).Discover(t.Context(), overStdio, "", nil)
	if registry.ReasonOf(err) != registry.ReasonSandboxUnavailable {
		t.Error(err)
	}
}

// TestContainersOfADeadWorkerAreRemoved by the next one; when that fails, by the
// one after it.
func TestContainersOfADeadWorkerAreRemoved(t *testing.T) {
	states := t.TempDir()
	note := states + "/0011223344556677.worker"
	if err := os.WriteFile(note, []byte("docker containers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir()) // Docker is away
	keeper(t, states)
	if _, err := os.Stat(note); err != nil {
		t.Fatalf("what could not be removed is forgotten: %v", err)
	}
	asked := fakeEngine(t, "docker")
	keeper(t, states)
	if diff := cmp.Diff([][]string{
		{"ps", "--all", "--quiet", "--no-trunc", "--filter", "label=countersign.worker=0011223344556677"},
		{"rm", "--force", "--volumes", "aaaa", "bbbb"},
	}, asked()); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(note); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
