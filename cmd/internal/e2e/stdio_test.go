package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// script is a server in a line of shell. It tells its secret wherever it can.
const script = `
echo "starting with $API_KEY"
echo "the key is $API_KEY" >&2
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no method for %s"}}\n' "$id" "$API_KEY" ;;
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"},"instructions":"uses %s"}}\n' "$id" "$API_KEY" ;;
  *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"tell","description":"tells %s","inputSchema":{"type":"object","properties":{"what":{"type":"string"}}}}]}}\n' "$id" "$(printf %s "$API_KEY" | base64)" ;;
  esac
done
`

// operator writes the allow-list of a development process.
func (d *dev) operator(t *testing.T, argv ...string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("commands:\n")
	entry := func(name, more string, argv ...string) {
		fmt.Fprintf(&b, "  - name: %s\n    argv:\n", name)
		for _, arg := range argv {
			fmt.Fprintf(&b, "      - %q\n", arg)
		}
		b.WriteString(more)
	}
	entry("teller", "    env: {API_KEY: \"env:TELLER_KEY\"}\n", argv...)
	entry("lost", "    env: {API_KEY: \"env:NOBODY_SET_THIS\"}\n", argv...)
	entry("theirs", "    tenants: ["+second+"]\n", argv...)
	entry("bare", "    sandbox: none\n    env: {API_KEY: \"env:TELLER_KEY\"}\n", argv...)
	path := filepath.Join(d.dir, "operator.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	d.flags = []string{"--config", path}
}

// script puts a server of shell into a file, since nothing that stands in
// arguments is run.
func (d *dev) script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(d.dir, "server.sh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running counts the processes of the machine that have a word among their
// arguments.
func running(t *testing.T, word string) (n int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(word)) {
			n++
		}
	}
	return n
}

// The whole life of a server that the operator's command starts.
func TestALifeOfACommand(t *testing.T) {
	t.Parallel()
	const canary = "canary-teller-5b2e90d1"
	d := newDev(t)
	d.interval = 2 * time.Second
	marker := "teller-" + rand.Text() // in its arguments, to find it among all processes
	teller := d.script(t, script)
	d.operator(t, "/bin/sh", teller, marker)
	d.start(t, "TELLER_KEY="+canary)
	admin, maintainer := d.terminal(first, registry.RolePlatformAdmin), d.terminal(first, registry.RoleAssetMaintainer)
	register := []string{"server", "register", "teller", "--transport", "stdio", "--command-ref", "teller", "--auth", "workload"}

	// What the operator does not allow, or not to this tenant, cannot be registered.
	for _, ref := range []string{"theirs", "nothing"} {
		args := append([]string{"server", "register", "refused", "--transport", "stdio", "--command-ref"}, ref, "--auth", "workload")
		if _, reason := maintainer.fails(t, args...); reason != registry.ReasonUnknownCommand {
			t.Errorf("command %s: %s", ref, reason)
		}
	}

	// Registered, and not started.
	s := maintainer.server(t, register...)
	if s.GetState() != registered || s.GetLaunch().GetStatus() != pb.LaunchStatus_LAUNCH_STATUS_PENDING || s.GetHealth().GetReason() != "launch_pending" {
		t.Fatalf("registered: %v", s)
	}
	if argv := s.GetCommand().GetArgv(); len(argv) != 3 || argv[1] != teller || s.GetCommand().GetEnv()["API_KEY"] != "env:TELLER_KEY" {
		t.Errorf("the command is shown as %q", argv)
	}
	for _, verb := range []string{"test", "discover"} {
		if _, reason := admin.fails(t, "server", verb, "teller"); reason != registry.ReasonLaunchPending {
			t.Errorf("%s before the launch: %s", verb, reason)
		}
	}
	if _, reason := maintainer.fails(t, "server", "approve-launch", "teller", "--yes", "--quiet"); reason != registry.ReasonPermissionDenied {
		t.Errorf("a maintainer launches: %s", reason)
	}
	if n := running(t, marker); n != 0 {
		t.Errorf("%d processes run before the launch", n)
	}

	// Launched, discovered, approved, resolved.
	s = admin.server(t, "server", "approve-launch", "teller", "--yes", "--wait", "verified")
	if s.GetDiscovery().GetTotalTools() != 1 || s.GetProtocolVersion() != "2025-11-25" || s.GetLaunch().GetApprovedBy() == "" {
		t.Fatalf("verified: %v", s)
	}
	approve := []string{"server", "approve", "teller", "--all", "--class", "read", "--yes", "--wait", "active"}
	admin.server(t, approve...)
	answer, err := d.admin().registry.ResolveTool(t.Context(), &pb.ResolveToolRequest{ToolId: "teller.tell"})
	if err != nil || !answer.GetCallable() || answer.GetRouting().GetCommandRef() != "teller" || answer.GetRouting().GetTargetDigest() != s.GetTargetDigest() {
		t.Fatalf("resolved: %v %v", answer, err)
	}
	until(t, "it is probed", patience, func() error {
		if s, err := d.admin().get(t.Context(), "teller"); err != nil || s.GetHealth().GetReason() != "ok" {
			return fmt.Errorf("%v %w", s.GetHealth(), err)
		}
		return nil
	})

	// The operator changes the command: at the next probe nothing of it is callable.
	approved := s.GetTargetDigest()
	d.operator(t, "/bin/sh", teller, marker, "more")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the changed command is noticed", patience, func() error {
		s, err := d.admin().in(t.Context(), "teller", degraded)
		if err == nil && s.GetHealth().GetReason() != "command_changed" {
			err = fmt.Errorf("%v", s.GetHealth())
		}
		return err
	})
	if err := d.admin().denied(t.Context(), "teller.tell", registry.ReasonServerDegraded); err != nil {
		t.Error(err)
	}
	s = admin.server(t, "server", "update", "teller", "--command-ref", "teller")
	if s.GetTargetDigest() == approved || s.GetLaunch().GetStatus() != pb.LaunchStatus_LAUNCH_STATUS_PENDING {
		t.Errorf("updated: %v", s)
	}
	if _, reason := admin.fails(t, "server", "approve-launch", "teller", "--digest", approved); reason != registry.ReasonSuperseded {
		t.Errorf("the launch of the command before is approved: %s", reason)
	}
	admin.server(t, "server", "approve-launch", "teller", "--yes")
	until(t, "it is discovered again", patience, func() error {
		s, err := d.admin().get(t.Context(), "teller")
		if err == nil && s.GetReview().GetStatus() != pb.ReviewStatus_REVIEW_STATUS_PENDING {
			err = fmt.Errorf("%v", s)
		}
		return err
	})
	admin.server(t, approve...)
	until(t, "it is callable again", patience, func() error { return d.admin().callable(t.Context(), "teller.tell") })

	// A reference that leads nowhere, and a process without a sandbox.
	admin.server(t, "server", "register", "lost", "--transport", "stdio", "--command-ref", "lost", "--auth", "workload")
	admin.server(t, "server", "approve-launch", "lost", "--yes")
	until(t, "the missing secret is told", patience, func() error {
		s, err := d.admin().get(t.Context(), "lost")
		told := s.GetDiscovery()
		if err == nil && (told.GetReason() != "secret_reference_unresolved" || !strings.Contains(told.GetMessage(), "API_KEY") || !strings.Contains(told.GetMessage(), "env:NOBODY_SET_THIS")) {
			err = fmt.Errorf("%v", told)
		}
		return err
	})
	bare := admin.server(t, "server", "register", "bare", "--transport", "stdio", "--command-ref", "bare", "--auth", "workload")
	if len(bare.GetWarnings()) != 1 || !strings.Contains(bare.GetWarnings()[0], "without a sandbox") {
		t.Errorf("warnings: %q", bare.GetWarnings())
	}
	admin.server(t, "server", "approve-launch", "bare", "--yes", "--wait", "verified")

	// Retired, nothing of it runs on.
	for _, name := range []string{"teller", "lost", "bare"} {
		admin.server(t, "server", "retire", name, "--yes")
	}
	until(t, "no process is left", patience, func() error {
		if n := running(t, marker); n != 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})

	// What the server told of its secret is nowhere.
	d.stop(t)
	secrets := []string{canary, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(canary)), "=")}
	for _, log := range d.wroteLog {
		if mentions(log.String(), secrets...) {
			t.Errorf("the log has the secret:\n%s", log.String())
		}
	}
	masked := false
	err = filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		masked = masked || bytes.Contains(raw, []byte("tells [masked]"))
		if mentions(string(raw), secrets...) {
			t.Errorf("%s has the secret", entry.Name())
		}
		return err
	})
	if err != nil || !masked {
		t.Errorf("the description was kept masked: %t, %v", masked, err)
	}
}

// A worker that is killed leaves no process of a server behind, with a sandbox and
// without.
func TestAKilledWorkerLeavesNoProcess(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	marker := "silent-" + rand.Text()
	// It says nothing, so that it is there until the handshake's time is over, and
	// what it starts leaves its group.
	d.operator(t, "/bin/sh", d.script(t, "setsid sh -c \"sleep 1000; true # "+marker+"\" & sleep 1000; true"), marker)
	d.start(t, "TELLER_KEY=x-y-z-1")
	admin := d.terminal(first, registry.RolePlatformAdmin)
	for name, ref := range map[string]string{"silent": "teller", "unboxed": "bare"} {
		admin.server(t, "server", "register", name, "--transport", "stdio", "--command-ref", ref, "--auth", "workload")
		admin.server(t, "server", "approve-launch", name, "--yes")
	}
	until(t, "both run", patience, func() error {
		// Two shells each, a supervisor each, and two of the sandbox.
		if n := running(t, marker); n < 8 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	d.kill()
	until(t, "they are gone", patience, func() error {
		if n := running(t, marker); n != 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
}
