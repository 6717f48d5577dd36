//go:build real

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// TestPublishedServers lives the whole life of published servers, which
// scripts/realservers.sh installs: registered, launched, verified, discovered,
// approved, resolved, retired. It prints what was found.
func TestPublishedServers(t *testing.T) {
	servers := theServers()
	versions := installed(t)
	d := newDev(t)
	d.interval = time.Hour // probes would start processes while we look for those that are left
	config, env := commands(servers)
	d.flags = []string{"--config", write(t, config)}
	d.start(t, env...)

	results := make([]*result, len(servers))
	t.Run("life", func(t *testing.T) {
		for i, p := range servers {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				l := &life{published: p, dev: d, admin: d.terminal(first, registry.RolePlatformAdmin), result: &result{}}
				results[i] = l.result
				l.live(t)
			})
		}
	})
	d.stop(t)
	if left := processes(t, func(line string) bool { return strings.Contains(line, cached("")) }); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	d.keepsNo(t, dummy)
	for i, p := range servers {
		// The same package offers the same over every transport.
		first := slices.IndexFunc(servers, func(other published) bool { return other.source == p.source })
		if a, b := results[first], results[i]; a != nil && b != nil && a.done && b.done && !slices.Equal(a.tools, b.tools) {
			t.Errorf("%s and %s offer different tools:\n%s", servers[first].name, p.name, cmp.Diff(a.tools, b.tools))
		}
	}
	report(servers, versions, results)
}

// result is a line of the report.
type result struct {
	offers offers
	tools  []string // their definitions
	bytes  int
	traits []string
	done   bool
}

// life is the life of one published server.
type life struct {
	published

	dev    *dev
	admin  terminal
	result *result
}

func (l *life) live(t *testing.T) {
	register := []string{"server", "register", l.name, "--wait", "verified"}
	approve := []string{"server", "approve", l.name, "--yes", "--comment", "the servers of a test"}
	if l.serve != nil {
		port, end := l.start(t)
		defer end()
		if l.wrong != "" {
			l.refused(t, port)
		}
		register = append(register, "--auth", "none", "--exception-reason", "a test on loopback")
		if at := "127.0.0.1:" + port; l.host != "" {
			register = append(register, "--url", "http://"+l.host+":"+port+l.path, "--dial-address", at)
		} else {
			register = append(register, "--url", "http://"+at+l.path)
		}
		approve = append(approve, "--exception-expires", "1h")
		l.admin.server(t, register...)
	} else {
		l.launch(t)
	}

	m := l.meet(t)
	what, size, err := m.sees()
	l.result.offers, l.result.bytes = what, size
	for _, tool := range m.offers.GetTools() {
		l.result.tools = append(l.result.tools, tool.GetDefinitionJson())
	}
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(l.offers, what); diff != "" {
		t.Errorf("what is discovered:\n%s", diff)
	}

	healthy := slices.IndexFunc(m.offers.GetTools(), func(tool *pb.Tool) bool { return tool.GetQuarantineReason() == "" })
	if healthy >= 0 {
		approve = append(approve, "--all", "--class", "read")
	} else {
		name := m.offers.GetTools()[0].GetName()
		if _, reason := l.admin.fails(t, "server", "approve", l.name, "--yes", "--tool", name+"=read"); reason != registry.ReasonToolQuarantined {
			t.Errorf("an approval of %s is refused with %s", name, reason)
		}
		approve = append(approve, "--empty")
	}
	if s := l.admin.server(t, approve...); s.GetState() != active || int(s.GetCounts().GetCallableTools()) != what.Tools-what.Quarantined {
		t.Errorf("approved it is %s, and %d tools are callable", s.GetState(), s.GetCounts().GetCallableTools())
	}
	tool := m.offers.GetTools()[max(healthy, 0)].GetToolId()
	if said := resolution(t, l.admin.json(t, "tools", "resolve", tool)); said.Callable != (healthy >= 0) {
		t.Errorf("of %s is said %+v", tool, said)
	}
	for _, trait := range l.traits {
		if trait.holds != nil {
			if err := trait.holds(m); err != nil {
				t.Errorf("%s: %v", trait.name, err)
				continue
			}
		}
		l.result.traits = append(l.result.traits, trait.name)
	}

	if s := l.admin.server(t, "server", "retire", l.name, "--yes"); s.GetState() != retired {
		t.Errorf("after retire it is %s", s.GetState())
	}
	if said := resolution(t, l.admin.json(t, "tools", "resolve", tool)); said.Callable {
		t.Errorf("after retire %s can be called", tool)
	}
	l.gone(t)
	l.result.done = !t.Failed()
}

// launch registers a process, which does not start before somebody allows it.
func (l *life) launch(t *testing.T) {
	l.admin.server(t, "server", "register", l.name, "--transport", "stdio", "--command-ref", l.name, "--auth", "workload")
	if _, reason := l.admin.fails(t, "server", "test", l.name); reason != registry.ReasonLaunchPending {
		t.Errorf("before its launch is approved, a test says %s", reason)
	}
	l.gone(t)
	if s := l.admin.server(t, "server", "approve-launch", l.name, "--yes", "--wait", "verified"); s.GetState() != verified {
		t.Fatalf("after its launch it is %s", s.GetState())
	}
}

// meet asks what was discovered, and tests the connection beside it.
func (l *life) meet(t *testing.T) *met {
	m := &met{test: &pb.TestMcpServerResponse{}}
	if err := protojson.Unmarshal(l.admin.json(t, "server", "test", l.name), m.test); err != nil {
		t.Fatal(err)
	}
	l.gone(t)
	var err error
	m.offers, err = l.dev.admin().servers.GetMcpCapabilities(t.Context(), &pb.GetMcpCapabilitiesRequest{
		ServerId: l.name, View: pb.CapabilityView_CAPABILITY_VIEW_FULL,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.offers.GetTools()) == 0 {
		t.Fatal("there are no tools")
	}
	return m
}

// gone wants no process of the server to be left.
func (l *life) gone(t *testing.T) {
	if l.serve != nil {
		return
	}
	mine := strings.Join(l.argv, " ") // as it is, and at the end of the sandbox's own arguments
	if left := processes(t, func(line string) bool { return strings.HasSuffix(line, mine) }); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// start starts a server over HTTP.
func (l *life) start(t *testing.T) (port string, end func()) {
	at := address(t)
	_, port, _ = net.SplitHostPort(at)
	argv, env := l.serve(port)
	p := execute(t, argv[0], env, argv[1:]...)
	until(t, "it listens", patience, func() error {
		if p.over() {
			return final{fmt.Errorf("it ended: %s\n%s", p.cmd.ProcessState, p.log.String())}
		}
		connection, err := net.Dial("tcp", at)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return port, p.kill
}

// refused registers a server under the address at which it listens.
func (l *life) refused(t *testing.T, port string) {
	name := l.name + "-by-address"
	l.admin.server(t, "server", "register", name, "--url", "http://127.0.0.1:"+port+l.path, "--auth", "none", "--exception-reason", "a test on loopback")
	until(t, "it is refused", patience, func() error {
		s := l.admin.server(t, "server", "get", name)
		if s.GetDiscovery().GetReason() != l.wrong {
			return fmt.Errorf("the discovery is %s: %s", s.GetDiscovery().GetStatus(), s.GetDiscovery().GetReason())
		}
		return nil
	})
	l.admin.server(t, "server", "retire", name, "--yes")
}

// commands gives the configuration in which the servers are allowed to be
// started, and the variables with keys that it refers to.
func commands(servers []published) (config string, env []string) {
	type command struct {
		Name string            `json:"name"`
		Argv []string          `json:"argv"`
		Env  map[string]string `json:"env,omitempty"`
	}
	var list []command
	for i, p := range servers {
		if p.serve != nil {
			continue
		}
		c := command{Name: p.name, Argv: p.argv, Env: map[string]string{}}
		for variable, value := range p.env {
			if !strings.Contains(value, dummy) {
				c.Env[variable] = "plain:" + value
				continue
			}
			reference := fmt.Sprintf("SERVER_%d_%s", i, variable)
			c.Env[variable] = "env:" + reference
			env = append(env, reference+"="+value)
		}
		list = append(list, c)
	}
	raw, err := json.MarshalIndent(map[string]any{"commands": list}, "", "  ") // JSON is YAML
	if err != nil {
		panic(err)
	}
	return string(raw), env
}

func absolute(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return path
}

// cached gives the path of something that was installed.
func cached(path string) string { return absolute(root+"/.cache/realservers") + "/" + path }

// processes gives the processes whose command line is one that is wanted.
func processes(t *testing.T, wanted func(line string) bool) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes at all: %v", err)
	}
	for _, file := range files {
		raw, _ := os.ReadFile(file) // it may have ended
		if line := string(bytes.ReplaceAll(bytes.TrimRight(raw, "\x00"), []byte{0}, []byte{' '})); wanted(line) {
			found = append(found, filepath.Base(filepath.Dir(file))+" "+line)
		}
	}
	return found
}

// keepsNo wants a text to be nowhere in what the process wrote and keeps.
func (d *dev) keepsNo(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(d.out.String()+d.log.String(), text) {
		t.Errorf("the process wrote %s", text)
	}
	files := 0
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s holds %s", path, text)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files: %v", files, err)
	}
}

// installed gives the versions of the packages.
func installed(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, folder := range []string{"", "/gitlab"} {
		raw, err := os.ReadFile(root + "/tools/realservers" + folder + "/package.json")
		var file struct {
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := errors.Join(err, json.Unmarshal(raw, &file)); err != nil {
			t.Fatal(err)
		}
		for name, version := range file.Dependencies {
			versions[name] = name + " " + version
			if alias, ok := strings.CutPrefix(version, "npm:"); ok {
				at := strings.LastIndex(alias, "@")
				versions[name] = alias[:at] + " " + alias[at+1:]
			}
		}
	}
	raw, err := os.ReadFile(root + "/tools/realservers/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^\s*(\S+) (v\S+)`).FindAllStringSubmatch(string(raw), -1) {
		versions[match[1]] = match[1] + " " + match[2]
	}
	return versions
}

// report prints a table in Markdown.
func report(servers []published, versions map[string]string, results []*result) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	line := func(cells ...any) {
		for _, cell := range cells {
			fmt.Fprintf(w, "| %v\t", cell)
		}
		fmt.Fprintln(w, "|")
	}
	line("server", "package", "protocol", "transport", "tools", "resources", "templates", "prompts", "bytes of tools", "quirks", "known for", "life")
	line(slices.Repeat([]any{"---"}, 12)...)
	for i, p := range servers {
		r := results[i]
		if r == nil {
			continue // not chosen by -run
		}
		o := r.offers
		tools := fmt.Sprint(o.Tools)
		if o.Quarantined > 0 {
			tools += fmt.Sprintf(", %d in quarantine", o.Quarantined)
		}
		life := "failed"
		if r.done {
			life = "whole"
		}
		line(p.name, versions[p.source], o.Protocol, o.Transport, tools, o.Resources, o.Templates, o.Prompts, r.bytes, o.Quirks, strings.Join(r.traits, "; "), life)
	}
	w.Flush()
	fmt.Println("\n" + text.String())
}
