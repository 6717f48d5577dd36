package mcpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
	"countersign/secrets"
)

// pass is a credential of a test: a token, that is another one after a refusal.
type pass struct {
	tokens  []string
	again   bool // it would try for ever
	fails   error
	waits   bool // for the end of its context
	asked   atomic.Int64
	refused atomic.Int64
}

func (p *pass) Authorize(ctx context.Context, r *http.Request) error {
	p.asked.Add(1)
	if p.waits {
		<-ctx.Done()
		return ctx.Err()
	}
	if p.fails != nil {
		return p.fails
	}
	n := min(int(p.refused.Load()), len(p.tokens)-1)
	r.Header.Set("Authorization", "Bearer "+p.tokens[n])
	return nil
}

func (p *pass) Refused(context.Context, *http.Response) (bool, error) {
	return p.refused.Add(1) < int64(len(p.tokens)) || p.again, nil
}

func (p *pass) Mask(text string) string {
	var values []secrets.Value
	for _, token := range p.tokens {
		values = append(values, secrets.Secret(token))
	}
	return secrets.NewMask(values...).String(text)
}

func (p *pass) client(change func(*registry.Limits)) *mcpclient.Client {
	c := client(change)
	c.Credentials = func(context.Context, registry.Target) (mcpclient.Credential, error) { return p, nil }
	return c
}

func wants(token string) mcptest.Fault {
	return mcptest.When(func(c mcptest.Call) bool { return c.Header.Get("Authorization") != "Bearer "+token },
		mcptest.Status(http.StatusUnauthorized, http.Header{"Www-Authenticate": {"Bearer"}}, "no"))
}

// TestEveryRequestIsAuthorised, in every era, the goodbye too; and the token is in
// the header only.
func TestEveryRequestIsAuthorised(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]mcptest.Script{
		"modern":               {Era: mcptest.Modern},
		"modern in events":     {Era: mcptest.Modern, Framing: mcptest.SSE},
		"legacy with sessions": {Era: mcptest.Legacy, Sessions: true},
		"HTTP+SSE":             {Endpoint: "/message?session=$SESSION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script.List("tools/list", mcptest.Items(`{"name":"a"}`))
			script.Fault("*", wants("s3cret-token"))
			s := mcptest.New(t, script)
			p := &pass{tokens: []string{"s3cret-token"}}
			for _, probe := range []bool{false, true} {
				var err error
				if probe {
					_, err = p.client(nil).Probe(t.Context(), target(s.URL), "")
				} else {
					_, _, err = p.client(nil).Discover(t.Context(), target(s.URL), "", nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			settled(t, s)
			calls := s.Calls()
			for _, call := range calls {
				if got := call.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer s3cret-token" {
					t.Errorf("%s %s %s has %q", call.HTTP, call.Path, call.Method, got)
				}
				if strings.Contains(call.Path+string(call.Body), "s3cret-token") {
					t.Errorf("%s %s: the token is not in the header only", call.HTTP, call.Path)
				}
			}
			if len(calls) < 4 || p.refused.Load() != 0 {
				t.Errorf("%d calls, %d refused", len(calls), p.refused.Load())
			}
		})
	}
}

// TestARefusedRequestIsSentAgain with what the credential has then, and not for
// ever, whatever the credential says.
func TestARefusedRequestIsSentAgain(t *testing.T) {
	t.Parallel()
	script := mcptest.Script{Era: mcptest.Modern}
	script.List("tools/list", mcptest.Items(`{"name":"a"}`))
	script.Fault("*", wants("second-token"))
	s := mcptest.New(t, script)
	p := &pass{tokens: []string{"first-token", "second-token"}}
	if _, _, err := p.client(nil).Discover(t.Context(), target(s.URL), "", nil); err != nil {
		t.Fatal(err)
	}
	if s.Count("server/discover") != 2 || s.Count("tools/list") != 1 {
		t.Error(s.Methods())
	}

	never := mcptest.Script{Era: mcptest.Modern}
	never.Fault("*", wants("no-such-token"))
	closed := mcptest.New(t, never)
	_, _, err := (&pass{tokens: []string{"first-token"}, again: true}).client(nil).Discover(t.Context(), target(closed.URL), "", nil)
	e, _ := registry.AsError(err)
	if e == nil || e.Reason != registry.ReasonAuthRequired || !strings.Contains(e.Message, "does not accept") || !strings.Contains(e.Next, "client id") {
		t.Errorf("%+v", e)
	}
	if n := closed.Count("server/discover"); n != 3 {
		t.Errorf("%d times", n)
	}
}

// TestACredentialThatFailsIsNotTheServersFault: nothing is sent, nothing is tried
// twice, and the error is the credential's own.
func TestACredentialThatFailsIsNotTheServersFault(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pass *pass
		want registry.Reason
	}{
		"in words":    {&pass{tokens: []string{"t0ken"}, fails: registry.Errorf(registry.ReasonSecretRefUnresolved, "no t0ken").With("at", "t0ken")}, registry.ReasonSecretRefUnresolved},
		"some way":    {&pass{tokens: []string{"t0ken"}, fails: errors.New("no t0ken")}, registry.ReasonDependency},
		"never ready": {&pass{tokens: []string{"t0ken"}, waits: true}, registry.ReasonDependency},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(t, mcptest.Script{})
			c := tt.pass.client(func(l *registry.Limits) { l.Connect = 200 * time.Millisecond })
			_, report, err := c.Discover(t.Context(), target(s.URL), "", nil)
			e, _ := registry.AsError(err)
			if e == nil || e.Reason != tt.want || e.Fact("phase") != "authorize" || e.Next == "" {
				t.Fatalf("%+v", e)
			}
			if strings.Contains(e.Message+e.Fact("at")+report.Steps[0].Detail, "t0ken") {
				t.Errorf("%+v %+v", e, report)
			}
			if len(s.Calls()) != 0 || tt.pass.asked.Load() != 1 || len(report.Steps) != 1 || report.Steps[0].Name != "authorize" || report.Steps[0].OK {
				t.Errorf("%v %d %+v", s.Methods(), tt.pass.asked.Load(), report.Steps)
			}
		})
	}
}

// TestATokenThatAServerRepeatsIsMasked in surfaces, errors and reports, also when
// it is cut off in its middle.
func TestATokenThatAServerRepeatsIsMasked(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t0k/En+", 30)
	p := func() *pass { return &pass{tokens: []string{token}} }
	hidden := func(t *testing.T, anything ...any) {
		t.Helper()
		for _, form := range []string{"t0k/En", `t0k\/En`, "t0k%2FEn"} {
			if text := fmt.Sprintf("%s %+v", anything, anything); strings.Contains(text, form) {
				t.Errorf("%s", text)
			}
		}
	}
	for era, endpoint := range map[string]string{"streamable": "", "sse": "/message?session=$SESSION"} {
		t.Run("surface over "+era, func(t *testing.T) {
			t.Parallel()
			script := mcptest.Script{Endpoint: endpoint, Instructions: "you said " + token}
			script.List("tools/list", mcptest.Items(`{"name":"a","description":"`+token+`"}`))
			s := mcptest.New(t, script)
			surface, report, err := p().client(nil).Discover(t.Context(), target(s.URL), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			hidden(t, surface, report)
			if got := string(surface.Tools[0]); got != `{"name":"a","description":"[masked]"}` || surface.Instructions != "you said [masked]" {
				t.Errorf("%s %s", got, surface.Instructions)
			}
		})
	}
	header := http.Header{
		"Content-Type": {"text/html; " + token}, "Location": {"https://x.example/" + token}, "Retry-After": {token},
		"Www-Authenticate": {`Bearer realm="` + token + `", scope="` + token + `", error="` + token + `"`},
	}
	for name, fault := range map[string]mcptest.Fault{
		"401": mcptest.Status(401, header, token), "403": mcptest.Status(403, header, token), "302": mcptest.Status(302, header, token),
		"429": mcptest.Status(429, header, token), "500": mcptest.Status(500, header, token), "200": mcptest.Status(200, header, "<p>"+token),
		"an RPC error":   mcptest.Error(200, -32000, token, `"`+token+`"`),
		"cut at 200":     mcptest.Status(200, http.Header{"Content-Type": {"text/html"}}, strings.Repeat(".", 150)+token+strings.Repeat(".", 5000)),
		"cut at the end": mcptest.Status(500, http.Header{"Content-Type": {"text/html"}}, strings.Repeat(" ", 64<<10-20)+token),
		"half of it":     mcptest.Status(500, http.Header{"Content-Type": {"text/html"}, "Content-Length": {"9999"}}, token[:100]),
		"events":         mcptest.Events("data: "+token+"\n\n", false),
	} {
		for _, on := range []string{"*", "tools/list"} {
			for era, endpoint := range map[string]string{"streamable": "", "sse": "/message?session=$SESSION"} {
				t.Run(name+" for "+on+" over "+era, func(t *testing.T) {
					t.Parallel()
					script := mcptest.Script{Endpoint: endpoint}
					script.List("tools/list", mcptest.Items(`{"name":"a"}`))
					script.Fault(on, fault)
					s := mcptest.New(t, script)
					c := p().client(func(l *registry.Limits) { l.Connect, l.Lists = 2*time.Second, 2*time.Second })
					surface, report, err := c.Discover(t.Context(), target(s.URL), "", nil)
					e, ok := registry.AsError(err)
					if !ok {
						t.Fatal(err)
					}
					hidden(t, surface, report, *e, e.Facts)
				})
			}
		}
	}
}
