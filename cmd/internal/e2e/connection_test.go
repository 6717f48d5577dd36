package e2e

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// gate stands before an MCP server and wants credentials.
type gate struct {
	behind http.Handler

	mu      sync.Mutex
	bearer  string
	key     string
	repeats bool // it fails, and tells everybody what it was shown
}

func (g *gate) wants(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	repeats, open := g.repeats, r.Header.Get("Authorization") == "Bearer "+g.bearer && r.Header.Get("X-Key") == g.key
	g.mu.Unlock()
	switch shown := r.Header.Get("Authorization") + " " + r.Header.Get("X-Key"); {
	case repeats:
		http.Error(w, shown+" "+url.QueryEscape(shown)+" "+base64.StdEncoding.EncodeToString([]byte(shown)), http.StatusInternalServerError)
	case !open:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "not you: "+shown, http.StatusUnauthorized)
	default:
		g.behind.ServeHTTP(w, r)
	}
}

// newGate opens a gate on a port of its own.
func newGate(t *testing.T, bearer, key string) (g *gate, address string) {
	t.Helper()
	script := mcptest.Script{}
	script.List("tools/list", mcptest.Items(mcptest.Tools(2)...))
	g = &gate{behind: mcptest.Handler(script), bearer: bearer, key: key}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return g, "http://" + listener.Addr().String() + "/mcp"
}

// A server that demands headers is reached by a connection with references. It
// is discovered, approved and resolved; an edit of the connection unbinds what
// every server of it had; a new value behind a reference unbinds nothing; and the
// secrets are nowhere.
func TestConnectionsWithSecrets(t *testing.T) {
	t.Parallel()
	const bearer, other, key, rotated = "canary/one+5c01~ä", "canary/two+77aa~ä", "canary/key+0bd3~ä", "canary/new+e912~ä"
	d := newDev(t) // lends its Temporal
	d.start(t)
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "search")
	keep := func(value string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(secret, 0o700), os.WriteFile(filepath.Join(secret, "key"), []byte(value+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	keep(key)
	i := newInstallation(t, d, "sqlite:"+filepath.Join(dir, "registry.db"), "SEARCH_BEARER=Bearer "+bearer, "SEARCH_OTHER=Bearer "+other, "COUNTERSIGN_AUDIT_SEAL_INTERVAL=1s", "COUNTERSIGN_CONFIG="+write(t, fmt.Sprintf(`
secrets:
  file_root: %s
  tenants:
    - {tenants: [%s], prefixes: ["env:SEARCH_", "file:search/"]}
`, filepath.Dir(secret), first)))
	n := i.serve(t, "all")
	c, theirs := terminal{n.url(), i.tokens[first]}, terminal{n.url(), i.tokens[second]}
	door, at := newGate(t, bearer, key)
	var answers strings.Builder // what the API and the client said
	says := func(who terminal, want int, args ...string) string {
		t.Helper()
		out, log, code := who.run(t, args...)
		if answers.WriteString(out + log); code != want {
			t.Fatalf("%q: exit code %d, want %d\n%s%s", args, code, want, out, log)
		}
		return out + log
	}
	resolves := func(name string, callable bool) error {
		out, log, _ := c.run(t, "tools", "resolve", name+".tool_0000", "-o", "json")
		if answers.WriteString(out + log); strings.Contains(out, `"callable": true`) != callable {
			return fmt.Errorf("%s resolves to %s%s", name, out, log)
		}
		return nil
	}
	approve := func(names ...string) {
		t.Helper()
		for _, name := range names {
			says(c, 0, "server", "approve", name, "--all", "--class", "read", "--yes")
			if err := resolves(name, true); err != nil {
				t.Fatal(err)
			}
		}
	}

	// A life, of two servers that share the connection.
	says(c, 0, "connection", "create", "search", "--url", at, "--header", "Authorization=env:SEARCH_BEARER", "--header", "X-Key=file:search/key")
	says(c, 0, "connection", "test", "search")
	for _, name := range []string{"one", "two"} {
		says(c, 0, "server", "register", name, "--connection", "search", "--auth", "workload", "--wait", "verified")
	}
	approve("one", "two")
	if out := says(c, 0, "server", "describe", "one"); !strings.Contains(out, "search@1") {
		t.Errorf("it does not say what it pins:\n%s", out)
	}

	// An edit by somebody who saw another version changes nothing; one that counts
	// reaches both servers, each by its own workflow.
	door.wants(func(g *gate) { g.bearer = other })
	says(c, 5, "connection", "update", "search", "--header", "Authorization=env:SEARCH_OTHER", "--etag", `"7"`, "--yes")
	if err := resolves("one", true); err != nil {
		t.Error(err)
	}
	says(c, 0, "connection", "update", "search", "--header", "Authorization=env:SEARCH_OTHER", "--header", "X-Key=file:search/key", "--yes")
	for _, name := range []string{"one", "two"} {
		until(t, name+" takes the edit", patience, func() error {
			s := c.server(t, "server", "get", name)
			if s.GetEndpointRef() != "search@2" || s.GetReview().GetStatus() != pb.ReviewStatus_REVIEW_STATUS_PENDING {
				return fmt.Errorf("it is at %s, its review is %s", s.GetEndpointRef(), s.GetReview().GetStatus())
			}
			return resolves(name, false)
		})
		if s := c.server(t, "server", "get", name); s.GetState() != active {
			t.Errorf("%s is %s", name, s.GetState())
		}
	}
	approve("one", "two")

	// A new value behind the reference is no edit.
	keep(rotated)
	door.wants(func(g *gate) { g.key = rotated })
	says(c, 0, "server", "discover", "one")
	if err := resolves("one", true); err != nil {
		t.Error(err)
	}
	if out := says(c, 0, "connection", "versions", "search", "-o", "name"); out != "search@2\nsearch@1\n" {
		t.Errorf("the versions are %s", out)
	}
	says(c, 5, "connection", "delete", "search", "--yes")

	// What a tenant may not use looks like what is not there.
	said := map[string]string{}
	for name, ref := range map[string]string{"forbidden": "env:SEARCH_BEARER", "unknown": "env:NO_SUCH_BEARER", "hidden": "file:search/key", "missing": "file:search/nokey"} {
		says(theirs, 0, "connection", "create", name, "--url", at, "--header", "Authorization="+ref)
		out := says(theirs, 1, "connection", "test", name, "-o", "json")
		if !strings.Contains(out, string(registry.ReasonSecretRefUnresolved)) {
			t.Errorf("%s: %s", name, out)
		}
		said[name] = durations.ReplaceAllString(strings.NewReplacer(ref, "REFERENCE", name, "NAME").Replace(out), "TIME")
	}
	if said["forbidden"] != said["unknown"] || said["hidden"] != said["missing"] {
		t.Errorf("they can be told apart:\n%s\n%s\n%s\n%s", said["forbidden"], said["unknown"], said["hidden"], said["missing"])
	}
	says(theirs, 3, "connection", "get", "search")

	// The server fails, and repeats what it was shown.
	door.wants(func(g *gate) { g.repeats = true })
	says(c, 1, "connection", "test", "search")
	says(c, 1, "server", "test", "one")
	says(c, 1, "server", "discover", "one")
	for _, form := range []string{"wide", "json"} {
		says(c, 0, "server", "list", "-o", form)
		says(c, 0, "connection", "list", "-o", form)
	}
	says(c, 0, "server", "describe", "one", "-o", "json")
	says(c, 0, "audit", "list", "--all", "-o", "json")
	var audit string
	until(t, "the edit is sealed", patience, func() error {
		if audit = says(c, 0, "audit", "export") + says(theirs, 0, "audit", "export"); !strings.Contains(audit, "search@2") && !strings.Contains(audit, "edit_connection") {
			return fmt.Errorf("the audit does not know of the edit:\n%s", audit)
		}
		return nil
	})

	e := dial(t, d.temporal, i.namespace)
	e.checkHistories(t)
	haystack := map[string][]byte{"the API's answers": []byte(answers.String()), "the audit": []byte(audit), "the histories": e.histories(t)}
	if !bytes.Contains(haystack["the histories"], []byte("env:SEARCH_OTHER")) {
		t.Error("the histories do not even have the reference: they were not read")
	}
	n.stop(t)
	d.stop(t)
	haystack["the log"] = []byte(n.log.String())
	for _, place := range []string{dir, d.dir} {
		err := filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				haystack[entry.Name()], err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range []string{bearer, other, key, rotated} {
		for place, raw := range haystack {
			for _, form := range written(value) {
				if bytes.Contains(raw, []byte(form)) {
					t.Errorf("%s has the secret %s as %s", place, value, form)
				}
			}
		}
	}
}

// durations are those in JSON, and its times.
var durations = regexp.MustCompile(`"[0-9.]+s"|"[0-9-]+T[0-9:.]+Z"`)

// written gives the ways in which a text may be written: plain, in URLs, and in
// base64 wherever in a longer text it begins.
func written(value string) []string {
	out := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", before) + value + "xx"))
			out = append(out, text[4:len(text)-8]) // what does not depend on the neighbours
		}
	}
	return out
}

// What is looked for would be found.
func TestASecretIsFoundHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	const value = "canary/one+5c01~ä"
	for _, around := range []string{"", "a", "ab", "abc"} {
		text := around + " " + value + " " + around
		for _, wrote := range []string{
			text, url.QueryEscape(text), url.PathEscape(text), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
		} {
			if !mentions(wrote, written(value)...) {
				t.Errorf("it is not seen in %s", wrote)
			}
		}
	}
}

// histories gives the histories of all workflows, as they are sent.
func (e engine) histories(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, r := range e.runs(t, "") {
		events := e.GetWorkflowHistory(t.Context(), r.workflow, r.run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(raw)
		}
	}
	return out.Bytes()
}
