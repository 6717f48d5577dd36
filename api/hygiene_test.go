package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func TestACallerBeyondItsLimitIsToldWhenToComeBackOnEveryFace(t *testing.T) {
	t.Parallel()
	for name, send := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, func(o *Options) { o.Limits = NewLimiter(Rates{Principal: Rate{PerSecond: 0.5, Burst: 2}}) })
			list := func(token string) outcome {
				return send(t, h, token, doList, &pb.ListMcpServersRequest{}, nil)
			}
			for range 2 {
				if o := list(admin(alpha)); o.code != "" {
					t.Fatalf("%+v", o)
				}
			}
			o := list(admin(alpha))
			if o.code != "resource_exhausted" || o.reason != string(registry.ReasonTooManyRequests) || o.facts["limit"] != "principal" {
				t.Fatalf("%+v", o)
			}
			if d, err := time.ParseDuration(o.facts["retry_after"]); err != nil || d <= 0 || d > 2*time.Second {
				t.Errorf("retry after %s, %v", d, err)
			}
			if o.status != 0 {
				if wait, err := strconv.Atoi(o.header.Get("Retry-After")); o.status != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 2 {
					t.Errorf("status %d, Retry-After %q", o.status, o.header.Get("Retry-After"))
				}
			}
			// Others of the tenant, the namesake of another one, and health are not concerned.
			for _, token := range []string{tokenOf(alpha, registry.RoleObserver), admin(beta)} {
				if o := list(token); o.code != "" {
					t.Errorf("%+v", o)
				}
			}
			if status, _, _ := h.call(t, http.MethodGet, "/livez", "", "", nil); status != http.StatusOK {
				t.Errorf("health: %d", status)
			}
		})
	}
}

func TestATenantsCallersShareItsLimitAndResolveHasItsOwn(t *testing.T) {
	t.Parallel()
	h := open(t, func(o *Options) {
		o.Limits = NewLimiter(Rates{Tenant: Rate{PerSecond: 0.001, Burst: 3}, Resolve: Rate{PerSecond: 0.001, Burst: 4}})
	})
	get := func(tenant string, role registry.Role, path string) int {
		status, _, _ := h.call(t, http.MethodGet, path, tokenOf(tenant, role), "", nil)
		return status
	}
	var got []int
	for range 2 {
		got = append(got, get(alpha, registry.RoleObserver, "/factory/mcp-servers"), get(alpha, registry.RoleOperator, "/factory/tools"))
	}
	got = append(got, get(beta, registry.RoleObserver, "/factory/mcp-servers"))
	for _, path := range []string{"/factory/tools/a.b/resolve", "/factory/resolve?tool_ids=a.b", "/factory/capabilities?scope=FACTORY_TOOLS_READ"} {
		status, _, body := h.call(t, http.MethodGet, path, tokenOf(alpha, executor), "", nil)
		if status == http.StatusTooManyRequests {
			t.Errorf("%s: %s", path, body)
		}
	}
	status, _, body := h.call(t, http.MethodPost, rpcPrefix+"McpRegistryService/ResolveTool", tokenOf(alpha, executor), `{"toolId":"a.b"}`, with("Content-Type", "application/json"))
	if status == http.StatusTooManyRequests {
		t.Error(body)
	}
	got = append(got, get(alpha, executor, "/factory/resolve?tool_ids=a.b"), get(beta, executor, "/factory/resolve?tool_ids=a.b"))
	if want := "[200 200 200 429 200 429 200]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Whose requests take long keeps nobody else waiting: one tenant has so many under way
// and no more (threats B24).
func TestATenantHasSoManyRequestsUnderWay(t *testing.T) {
	t.Parallel()
	const most = 3
	limiter := NewLimiter(Rates{Concurrent: most})
	underWay := func() int {
		limiter.underWay.mu.Lock()
		defer limiter.underWay.mu.Unlock()
		return limiter.underWay.of[alpha]
	}
	h := open(t, func(o *Options) { o.Limits = limiter })
	// Requests whose bodies do not come.
	address := strings.TrimPrefix(h.url, "http://")
	var slow []net.Conn
	for range most {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		if _, err := io.WriteString(conn, "POST "+doRegister+" HTTP/1.1\r\nHost: "+address+"\r\nAuthorization: Bearer "+admin(alpha)+
			"\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	get := func(tenant string, role registry.Role, path string) (int, http.Header, string) {
		return h.call(t, http.MethodGet, path, tokenOf(tenant, role), "", nil)
	}
	// Whoever asks now takes a place himself, and one of the slow ones would be refused.
	for begin := time.Now(); underWay() < most; time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d requests are under way", underWay())
		}
	}
	status, header, body := get(alpha, registry.RoleObserver, "/factory/mcp-servers")
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || !strings.Contains(body, string(registry.ReasonTooManyRequests)) || !strings.Contains(body, "concurrent") {
		t.Errorf("%d %v %s", status, header, body)
	}
	for _, c := range []struct {
		tenant string
		role   registry.Role
		path   string
	}{{beta, registry.RoleObserver, "/factory/mcp-servers"}, {alpha, executor, "/factory/resolve?tool_ids=a.b"}, {alpha, registry.RoleObserver, "/livez"}} {
		if status, _, body := get(c.tenant, c.role, c.path); status == http.StatusTooManyRequests {
			t.Errorf("%s of %s: %s", c.path, c.tenant, body)
		}
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		status, _, body := get(alpha, registry.RoleObserver, "/factory/mcp-servers")
		if status == http.StatusOK {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d %s", status, body)
		}
	}
}

func TestTheLimiterRemembersSoManyAndForgetsTheIdle(t *testing.T) {
	t.Parallel()
	b := newBuckets(Rate{PerSecond: 1, Burst: 1}, 3)
	now := time.Now()
	busy := whose{"alpha", "busy"}
	if b.take(busy, "principal", now) != nil || b.take(busy, "principal", now) == nil {
		t.Fatal("the bucket has not one token")
	}
	for i := range 100 {
		_ = b.take(whose{"alpha", fmt.Sprint(i)}, "principal", now)
		if b.take(busy, "principal", now) == nil {
			t.Fatal("a caller who calls is forgotten")
		}
	}
	if len(b.by) != 3 || b.order.Len() != 3 {
		t.Errorf("%d remembered", len(b.by))
	}
	if b.take(busy, "principal", now.Add(time.Second)) != nil {
		t.Error("the bucket does not fill")
	}
}

// Every REST path of McpRegistryService has its budget, and no other.
func TestTheLimiterKnowsResolveByEveryFace(t *testing.T) {
	t.Parallel()
	for procedure, m := range methods() {
		internal := strings.Contains(procedure, "McpRegistryService/")
		if isResolve(procedure) != internal {
			t.Errorf("%s", procedure)
		}
		for _, rule := range append([]*annotations.HttpRule{httpRule(m)}, httpRule(m).GetAdditionalBindings()...) {
			path := pathVariable.ReplaceAllString(rule.GetGet()+rule.GetPost()+rule.GetPatch(), "a.b")
			if isResolve(path) != internal {
				t.Errorf("%s at %s", procedure, path)
			}
		}
	}
}

func TestEveryAnswerHasTheHeadersOfSecurity(t *testing.T) {
	t.Parallel()
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/own" {
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
		}
	})
	h := open(t, func(o *Options) { o.Fallback = pages })
	for name, c := range map[string]struct {
		method, path, token string
		policy              string
	}{
		"an answer":      {"GET", "/factory/mcp-servers", admin(alpha), policyOfAPI},
		"no token":       {"GET", "/factory/mcp-servers", "", policyOfAPI},
		"an error":       {"GET", "/factory/mcp-servers/nope", admin(alpha), policyOfAPI},
		"no such path":   {"GET", "/factory/nope", admin(alpha), policyOfAPI},
		"an RPC's error": {"POST", doRetire, admin(alpha), policyOfAPI},
		"health":         {"GET", "/livez", "", policyOfAPI},
		"a page":         {"GET", "/", "", policyOfPages},
		"a page's own":   {"GET", "/own", "", "default-src 'self'"},
	} {
		_, header, _ := h.call(t, c.method, c.path, c.token, "", nil)
		for key, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": c.policy, "Strict-Transport-Security": "",
		} {
			if got := header.Get(key); got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	// By TLS browsers are told to stay there.
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/livez", nil)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r)
	if got := w.Header().Get("Strict-Transport-Security"); got != hsts {
		t.Errorf("Strict-Transport-Security is %q", got)
	}
}

func TestTheCodecEndpointAnswersOperatorsAndTheUIAlone(t *testing.T) {
	t.Parallel()
	const ui = "https://temporal.example"
	codec := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == codecPath+"decode" {
			_, _ = w.Write([]byte(`{"payloads":[]}`))
			return
		}
		http.Error(w, "no key", http.StatusBadRequest)
	})
	h := open(t, func(o *Options) { o.Codec, o.UIOrigin = codec, ui })
	operator := tokenOf(alpha, registry.RoleOperator)
	for name, c := range map[string]struct {
		method, path, token, origin string
		status                      int
		readable                    bool // by the page
	}{
		"the UI asks before":        {"OPTIONS", "decode", "", ui, 204, true},
		"another page asks before":  {"OPTIONS", "decode", "", "https://evil.example", 204, false},
		"the UI, an operator":       {"POST", "decode", operator, ui, 200, true},
		"the UI, an administrator":  {"POST", "decode", admin(beta), ui, 200, true},
		"the UI, an observer":       {"POST", "decode", tokenOf(alpha, registry.RoleObserver), ui, 403, false},
		"the UI, a maintainer":      {"POST", "decode", tokenOf(alpha, registry.RoleAssetMaintainer), ui, 403, false},
		"the UI, an executor":       {"POST", "decode", tokenOf(alpha, executor), ui, 403, false},
		"the UI, nobody":            {"POST", "decode", "", ui, 401, false},
		"a program":                 {"POST", "decode", operator, "", 200, false},
		"another page, an operator": {"POST", "decode", operator, "https://evil.example", 403, false},
		"what it cannot":            {"POST", "encode", operator, ui, 400, false},
		"a GET":                     {"GET", "decode", operator, ui, 405, false},
	} {
		header := with("Content-Type", "application/json")
		if c.origin != "" {
			header = with("Content-Type", "application/json", "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
		}
		status, got, body := h.call(t, c.method, codecPath+c.path, c.token, "{}", header)
		if status != c.status || (got.Get("Access-Control-Allow-Origin") == ui) != c.readable || got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v %s", name, status, got, body)
		}
		if c.status == 204 && c.readable && got.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The rest of the API is none of the UI's.
	if status, _, _ := h.call(t, http.MethodPost, doList, operator, "{}", with("Origin", ui, "Content-Type", "application/json")); status != http.StatusForbidden {
		t.Errorf("an RPC from the UI's page: %d", status)
	}
	// Without keys, or where executors call, there is none.
	for name, change := range map[string]func(*Options){
		"no codec":       func(*Options) {},
		"internal":       func(o *Options) { o.Codec, o.Side = codec, SideInternal },
		"origin unknown": func(o *Options) { o.Codec = codec },
	} {
		h := open(t, change)
		want := map[string]int{"no codec": 404, "internal": 404, "origin unknown": 200}[name]
		if status, _, body := h.call(t, http.MethodPost, codecPath+"decode", operator, "{}", with("Content-Type", "application/json")); status != want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestATokenShowsNothing(t *testing.T) {
	t.Parallel()
	token := Token{Token: "a-secret-of-sixteen", SHA256: "abc", Tenant: alpha, Subject: "ci"}
	for _, shown := range []string{fmt.Sprint(token), fmt.Sprintf("%+v %#v %v", token, token, []Token{token}), fmt.Sprintf("%+v", AuthOptions{Tokens: []Token{token}}), token.LogValue().String()} {
		if strings.Contains(shown, "a-secret") || !strings.Contains(shown, "ci") {
			t.Errorf("shown as %s", shown)
		}
	}
}

// Changes cost more than anything else, so they have a limit of their own, on every
// face; who is beyond it still reads (threats B24).
func TestATenantChangesOnlySoMuchASecond(t *testing.T) {
	t.Parallel()
	for name, send := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, func(o *Options) { o.Limits = NewLimiter(Rates{Changes: Rate{PerSecond: 0.5, Burst: 1}}) })
			change := func(token string) outcome {
				return send(t, h, token, doRegister, &pb.RegisterMcpServerRequest{}, nil)
			}
			if o := change(admin(alpha)); o.reason == string(registry.ReasonTooManyRequests) {
				t.Fatalf("%+v", o)
			}
			// Who may not change anything uses nothing up.
			if o := change(tokenOf(beta, registry.RoleObserver)); o.code != "permission_denied" {
				t.Fatalf("%+v", o)
			}
			begin := time.Now()
			o := change(admin(alpha))
			if o.code != "resource_exhausted" || o.reason != string(registry.ReasonTooManyRequests) || o.facts["limit"] != "changes" {
				t.Fatalf("%+v", o)
			}
			// It came late, so that asking again at once gains nothing.
			if d, err := time.ParseDuration(o.facts["retry_after"]); err != nil || time.Since(begin) < min(d, maxHold) {
				t.Errorf("answered after %s to a caller who is to wait %s, %v", time.Since(begin), d, err)
			}
			if o := change(admin(beta)); o.reason == string(registry.ReasonTooManyRequests) {
				t.Errorf("another tenant: %+v", o)
			}
			if o := send(t, h, admin(alpha), doList, &pb.ListMcpServersRequest{}, nil); o.code != "" {
				t.Errorf("a read: %+v", o)
			}
			if rows := h.trail(t); len(rows) != 0 {
				t.Errorf("it filled the audit: %+v", rows)
			}
		})
	}
}

// Those who are beyond the limit and wait take no more than so many places.
func TestSoManyRefusalsAreHeldAndTheOthersAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Rates{})
	refused := registry.Errorf(registry.ReasonTooManyRequests, "x").With("retry_after", "10m")
	ctx, leave := context.WithCancel(t.Context())
	for range maxHeldBack {
		l.held <- struct{}{}
	}
	done := make(chan struct{})
	go func() { l.hold(ctx, refused); l.hold(ctx, refused); close(done) }()
	<-done // no place is free, so it does not wait for one
	<-l.held
	go leave() // a caller who goes away is not waited for
	l.hold(ctx, refused)
	if n := len(l.held); n != maxHeldBack-1 {
		t.Errorf("%d places are taken", n)
	}
}
