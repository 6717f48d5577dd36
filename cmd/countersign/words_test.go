package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func TestEnumsAreShortWords(t *testing.T) {
	t.Parallel()
	classes := make([]string, 0, 4)
	for _, c := range registry.Classes() {
		classes = append(classes, string(c))
	}
	if diff := cmp.Diff(classes, words[registryv1.SideEffectClass]()); diff != "" {
		t.Errorf("classes (-registry +words):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"streamable_http", "stdio"}, words[registryv1.McpTransport]()); diff != "" {
		t.Error(diff)
	}
	if got := word(stateActive); got != "active" {
		t.Errorf("active is %q", got)
	}
	if got := word(registryv1.McpServerState(0)); got != "" {
		t.Errorf("unspecified is %q", got)
	}
	if got := word(registryv1.McpServerState(42)); got != "42" {
		t.Errorf("a state of a later version is %q", got)
	}
	if _, err := parseWord[registryv1.McpServerState]("--wait", "unspecified"); err == nil {
		t.Error("unspecified is accepted")
	}
	for _, text := range []string{"none", "none_exception"} {
		if got, err := parseAuthentication(text); err != nil || got != registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION {
			t.Errorf("--auth %s is %v, %v", text, got, err)
		}
	}
}

func TestAWaitEndsWhenTheStateWasPassed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted registryv1.McpServerState
		ends   []registryv1.McpServerState
	}{
		{stateRegistered, []registryv1.McpServerState{stateRegistered, stateVerified, stateActive, stateDegraded}},
		{stateVerified, []registryv1.McpServerState{stateVerified, stateActive, stateDegraded}},
		{stateActive, []registryv1.McpServerState{stateActive}},
		{stateDegraded, []registryv1.McpServerState{stateDegraded}},
		{stateRetired, []registryv1.McpServerState{stateRetired}},
	} {
		for _, is := range []registryv1.McpServerState{stateRegistered, stateVerified, stateActive, stateDegraded, stateRetired} {
			if got, want := reached(is, c.wanted), slices.Contains(c.ends, is); got != want {
				t.Errorf("waiting for %s, being %s: ended is %t", word(c.wanted), word(is), got)
			}
		}
	}
}

func TestEveryServerHasANextCommand(t *testing.T) {
	t.Parallel()
	pending := &registryv1.Review{Status: reviewPending}
	failed := &registryv1.Discovery{Status: discoveryFailed}
	degraded := func(cause registry.Cause) *registryv1.McpServer {
		return &registryv1.McpServer{State: stateDegraded, Causes: []string{string(cause)}}
	}
	for _, c := range []struct {
		s    *registryv1.McpServer
		want string
	}{
		{&registryv1.McpServer{State: stateRegistered}, "server describe x"},
		{&registryv1.McpServer{State: stateRegistered, Discovery: failed}, "server test x"},
		{&registryv1.McpServer{State: stateVerified, Review: pending}, "server approve x --all --class CLASS"},
		{&registryv1.McpServer{State: stateVerified, Review: pending, Counts: &registryv1.BindingCounts{Tools: 2}}, "server approve x --empty"},
		{&registryv1.McpServer{State: stateVerified, Review: pending, Discovery: failed}, "server discover x"},
		{&registryv1.McpServer{State: stateVerified}, "server request-review x"},
		{&registryv1.McpServer{State: stateActive}, `tools list --filter 'server = "x"'`},
		{&registryv1.McpServer{State: stateActive, Review: pending}, "server approve x --all --class CLASS"},
		{degraded(registry.CauseHandshake), "server test x"},
		{degraded(registry.CauseSuspectEmpty), "server discover x"},
		{degraded(registry.CauseMalformedList), "server discover x"},
		{degraded(registry.CauseCapabilityLoss), "server discover x"},
		{degraded(registry.CauseQuarantined), "server request-review x"},
		{degraded(registry.CauseServerTextChanged), "server request-review x"},
		{degraded(registry.CauseAuthExceptionExpired), "server approve x --all --class CLASS --exception-expires 720h"},
	} {
		c.s.Name = "x"
		if got := nextCommand(c.s); got != "countersign "+c.want {
			t.Errorf("%v: %s", c.s, got)
		}
	}
	if got := nextCommand(&registryv1.McpServer{State: stateRetired}); got != "" {
		t.Errorf("a retired server: %s", got)
	}
}

func TestNamesWithEqualSignsAreCutWhereTheyEnd(t *testing.T) {
	t.Parallel()
	offered := []string{"a", "a=b", "file:///x?q=1"}
	for _, c := range []struct{ text, name, value string }{
		{"a", "a", ""},
		{"a=read", "a", "read"},
		{"a=b", "a=b", ""},
		{"a=b=c", "a=b", "c"},
		{"a=c=b", "a", "c=b"},
		{"file:///x?q=1", "file:///x?q=1", ""},
		{"file:///x?q=1=public", "file:///x?q=1", "public"},
		{"b=a", "", ""},
		{"", "", ""},
	} {
		name, value, ok := cutOffered(c.text, func(name string) bool { return slices.Contains(offered, name) })
		if name != c.name || value != c.value || ok != (c.name != "") {
			t.Errorf("%q is %q and %q (%t)", c.text, name, value, ok)
		}
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"720h": 720 * time.Hour, "30d": 720 * time.Hour, "90m": 90 * time.Minute} {
		if got, err := parsePeriod(text); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "soon", "99999999d"} {
		if got, err := parsePeriod(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
	for d, want := range map[time.Duration]string{720 * time.Hour: "720h", 10 * time.Minute: "10m", 90 * time.Second: "1m30s", 20 * time.Second: "20s", 61 * time.Minute: "1h1m"} {
		if got := short(d); got != want {
			t.Errorf("%s is %s", d, got)
		}
	}
}

func TestAnExceptionThatRunsIsLeftAlone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 3, 0, 0, 0, 0, time.UTC)
	review := &registryv1.GetReviewResponse{Review: &registryv1.Review{Digest: "d"}}
	approve := func(change func(*registryv1.McpServer), expires string) *registryv1.ActivateMcpServerRequest {
		s := newServer("x", stateActive)
		s.Authentication = registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION
		s.AuthenticationException = &registryv1.AuthenticationException{Reason: "r", ExpireTime: day(20)}
		change(s)
		p, err := newProposal(s, review, &wish{empty: true, expires: expires}, now)
		if err != nil {
			t.Fatal(err)
		}
		return p.request
	}
	if got := approve(func(*registryv1.McpServer) {}, ""); got.GetExceptionExpireTime() != nil {
		t.Errorf("it is renewed until %s", when(got.GetExceptionExpireTime()))
	}
	if got := approve(func(*registryv1.McpServer) {}, "1h"); !got.GetExceptionExpireTime().AsTime().Equal(now.Add(time.Hour)) {
		t.Errorf("asked for an hour, it is renewed until %s", when(got.GetExceptionExpireTime()))
	}
	for name, change := range map[string]func(*registryv1.McpServer){
		"over":          func(s *registryv1.McpServer) { s.AuthenticationException.ExpireTime = day(2) },
		"never given":   func(s *registryv1.McpServer) { s.AuthenticationException.ExpireTime = nil },
		"found expired": func(s *registryv1.McpServer) { s.Causes = []string{string(registry.CauseAuthExceptionExpired)} },
	} {
		if got := approve(change, ""); !got.GetExceptionExpireTime().AsTime().Equal(now.Add(exceptionDefault)) {
			t.Errorf("%s: it is given until %s", name, when(got.GetExceptionExpireTime()))
		}
	}
}

func TestTokensTravelInTheOpenOnlyToThisMachine(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"http://127.0.0.1:8080": false, "http://[::1]": false, "http://localhost:1": false, "https://example.com": false,
		"http://example.com": true, "http://10.0.0.1": true, "http://localhost.example.com": true,
	} {
		if got := exposed(server); got != want {
			t.Errorf("%s: %t", server, got)
		}
	}
}

func TestResultsThatCannotBeWrittenAreErrors(t *testing.T) {
	t.Parallel()
	_, url := testServer(t)
	c, _, errs := testCLI(map[string]string{"COUNTERSIGN_SERVER": url, "COUNTERSIGN_TOKEN": fakeToken, "HOME": t.TempDir()})
	c.stdout = fullDisk{}
	if exit := execute(t.Context(), c, []string{"server", "list"}); exit != exitFailure || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("%d\n%s", exit, errs)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &failure{Exit: exitFailure, Message: "disk full"}
}
