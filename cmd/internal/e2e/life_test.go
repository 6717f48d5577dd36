package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// The whole life of a server with the client, beginning with the commands that
// the development process prints.
func TestALifeWithTheClient(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.interval = 10 * time.Second
	d.start(t)
	admin, other := d.terminal(first, registry.RolePlatformAdmin), d.terminal(second, registry.RolePlatformAdmin)

	if said := resolution(t, d.tryPrinted(t)); !said.Callable {
		t.Errorf("after the printed commands the tool is not callable: %+v", said)
	}
	demo := admin.server(t, "server", "get", "demo")
	if demo.GetState() != active || demo.GetCounts().GetCallableTools() != 3 {
		t.Errorf("the server is %s, and %d tools are callable", demo.GetState(), demo.GetCounts().GetCallableTools())
	}
	var description struct {
		Capabilities struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(admin.json(t, "server", "describe", "demo"), &description); err != nil || len(description.Capabilities.Tools) != 3 {
		t.Errorf("describe shows %d tools: %v", len(description.Capabilities.Tools), err)
	}

	d.checkRuns(t, admin)

	// The other tenant sees nothing of it.
	if list := other.list(t, "server", "list"); len(list) != 0 {
		t.Errorf("the other tenant sees %v", list)
	}
	if list := other.list(t, "tools", "list"); len(list) != 0 {
		t.Errorf("the other tenant sees %v", list)
	}
	for _, ref := range []string{"demo", demo.GetServerId(), "nobody"} {
		if code, reason := other.fails(t, "server", "get", ref); code != 3 || reason != registry.ReasonServerNotFound {
			t.Errorf("to the other tenant %s is %s, exit code %d", ref, reason, code)
		}
	}
	if said := resolution(t, other.json(t, "tools", "resolve", "demo.hash_compute")); said.Callable || said.Reason != registry.ReasonToolNotFound {
		t.Errorf("the other tenant resolves %+v", said)
	}

	// It is degraded within two windows, and comes back without an approval.
	resolves := func(reason registry.Reason) func() error {
		return func() error { return d.admin().denied(t.Context(), "demo.hash_compute", reason) }
	}
	d.demoServer(t, "stop")
	until(t, "the stopped server is degraded", 2*d.interval, resolves(registry.ReasonServerDegraded))
	if s := admin.server(t, "server", "get", "demo"); s.GetState() != degraded || !cmp.Equal(s.GetCauses(), []string{"handshake"}) {
		t.Errorf("the server is %s because of %v", s.GetState(), s.GetCauses())
	}
	d.demoServer(t, "start")
	until(t, "the started server is active", 2*d.interval, resolves(""))

	// Retired, its name is free at once.
	if s := admin.server(t, "server", "retire", "demo", "--yes"); s.GetState() != retired {
		t.Errorf("after retire it is %s", s.GetState())
	}
	if said := resolution(t, admin.json(t, "tools", "resolve", "demo.hash_compute")); said.Callable || said.Reason != registry.ReasonServerRetired {
		t.Errorf("after retire the tool is %+v", said)
	}
	again := admin.server(t, registerDemo()...)
	if again.GetServerId() == demo.GetServerId() || again.GetState() != verified {
		t.Errorf("the second server is %s (%s)", again.GetServerId(), again.GetState())
	}

	// A second process does not come near the data.
	intruder := newDev(t)
	intruder.dir = d.dir
	intruder.launch(t)
	if code := intruder.await(t); code != 1 || !strings.Contains(intruder.log.String(), "is locked") {
		t.Errorf("a second process on the same data ended with %d: %s", code, intruder.log.String())
	}

	// It is there after a restart, and what waited for an approval can be approved.
	d.stop(t)
	d.start(t)
	if s := admin.server(t, "server", "get", "demo"); s.GetServerId() != again.GetServerId() || s.GetState() != verified || s.GetVersion() != again.GetVersion() {
		t.Errorf("after the restart it is %s, %s, version %d", s.GetServerId(), s.GetState(), s.GetVersion())
	}
	approve := []string{"server", "approve", "demo", "--all", "--class", "read", "--yes"}
	if s := admin.server(t, approve...); s.GetState() != active {
		t.Errorf("approved after the restart it is %s", s.GetState())
	}
	if said := resolution(t, admin.json(t, "tools", "resolve", "demo.text_upper")); !said.Callable {
		t.Errorf("after the restart the tool is %+v", said)
	}
	e := dial(t, d.temporal, "default")
	e.awaitOpen(t, server("demo"))
	e.checkSchedules(t)
	e.checkHistories(t)
	d.process.end(t, syscall.SIGINT) // Ctrl-C
	for i, log := range d.wroteLog {
		for line := range strings.SplitSeq(log.String(), "\n") {
			expected := strings.Contains(line, "request failed") ||
				strings.Contains(line, "Schedule missed catchup window") // it was away for longer than half an interval of 10 s
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") && !expected {
				t.Errorf("run %d logs: %s", i+1, line)
			}
		}
	}

	l := readSQLite(t, d.database())
	l.check(t)
	want := []registry.State{
		registry.StateRegistered, registry.StateVerified, registry.StateActive, registry.StateDegraded, registry.StateActive, registry.StateRetired,
	}
	if diff := cmp.Diff(want, l.states(demo.GetServerId())); diff != "" {
		t.Errorf("the states of the first server:\n%s", diff)
	}
	if diff := cmp.Diff(map[registry.Verb]int{registry.VerbApprove: 1}, l.decided(demo.GetServerId())); diff != "" {
		t.Errorf("the decisions on the first server:\n%s", diff)
	}
}

// said is what tools resolve says.
type said struct {
	Callable bool            `json:"callable"`
	Reason   registry.Reason `json:"reason"`
}

func resolution(t *testing.T, raw []byte) (s said) {
	t.Helper()
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

func registerDemo() []string {
	return []string{"server", "register", "demo", "--connection", "demo", "--auth", "oauth2", "--wait", "verified"}
}

// tryPrinted runs the commands that the process printed, as they stand there
// but for the program's name, and gives what the last one wrote.
func (d *dev) tryPrinted(t *testing.T) []byte {
	t.Helper()
	_, script, found := strings.Cut(d.out.String(), "Try, in another terminal:\n")
	if !found || !strings.Contains(script, "server register demo") {
		t.Fatalf("no commands are printed: %s", d.out.String())
	}
	script = strings.ReplaceAll(script, "go run ./cmd/countersign ", filepath.Join(programs, "countersign")+" ")
	file := filepath.Join(t.TempDir(), "last.json")
	// Only the last one writes JSON.
	command := exec.CommandContext(t.Context(), "sh", "-ec", strings.TrimRight(script, "\n")+" >"+file)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the printed commands: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// checkRuns wants the links of server runs to lead to pages of the Temporal UI
// that show what they say.
func (d *dev) checkRuns(t *testing.T, c terminal) {
	t.Helper()
	var kinds []string
	for _, r := range c.list(t, "server", "runs", "demo") {
		kinds = append(kinds, fmt.Sprint(r["type"], " ", r["status"]))
		workflow, _ := r["workflowId"].(string)
		id, _ := r["runId"].(string)
		url, _ := r["temporalUrl"].(string)
		if want := link(d.ui, "default", workflow, id); url != want {
			t.Errorf("run %s links to %q, not %q", workflow, url, want)
		}
		for _, at := range []string{url, "http://" + d.ui + "/api/v1/namespaces/default/workflows/" + strings.ReplaceAll(workflow, "/", "%2F") + "?execution.runId=" + id} {
			get(t, at, http.StatusOK)
		}
	}
	if diff := cmp.Diff([]string{"Server Running", "Discovery Completed"}, kinds); diff != "" {
		// The newest is first; both can start in one moment.
		if diff := cmp.Diff([]string{"Discovery Completed", "Server Running"}, kinds); diff != "" {
			t.Error(diff)
		}
	}
}

// fetch gets a page without a token.
func fetch(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}
