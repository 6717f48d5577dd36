package events_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/db"
	"countersign/events"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// The secrets that subscriptions of the tests name.
var known = map[string]string{
	"NEW":   "whsec_" + base64.StdEncoding.EncodeToString([]byte("new key of thirty-two bytes 1234")),
	"OLD":   "whsec_" + base64.StdEncoding.EncodeToString([]byte("old key of thirty-two bytes 1234")),
	"SHORT": "whsec_c2hvcnQ=",
}

func resolver() secrets.Shared {
	return secrets.Shared{
		Resolver: secrets.Resolver{Sources: map[string]secrets.Source{
			registry.SchemeEnv: secrets.Env(func(name string) (string, bool) { value, ok := known[name]; return value, ok }),
		}},
		Rules: []secrets.Rule{{Prefixes: []string{"env:"}}},
	}
}

func guard() *outbound.Guard {
	return outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

type house struct {
	testing.TB
	url string
	db  *db.DB
	n   int
}

func newHouse(tb testing.TB) *house {
	tb.Helper()
	return newHouseOn(tb, "sqlite:"+filepath.Join(tb.TempDir(), "c.db"))
}

// newHouseOn opens an empty database.
func newHouseOn(tb testing.TB, url string) *house {
	tb.Helper()
	h := &house{TB: tb, url: url}
	h.open()
	if _, err := h.db.Up(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return h
}

func (h *house) open() {
	h.Helper()
	d, err := db.Open(h.Context(), db.Options{URL: h.url})
	if err != nil {
		h.Fatal(err)
	}
	h.db = d
	h.Cleanup(func() { _ = d.Close() })
}

func (h *house) op(name string) registry.Operation {
	h.n++
	return registry.Operation{ID: fmt.Sprint(name, h.n), Name: name, Actor: registry.Actor{Subject: "ann"}, Origin: registry.OriginAPI}
}

func (h *house) subscribe(tenant string, u registry.Subscription) {
	h.Helper()
	u.Direction, u.Enabled = registry.SubscriptionSend, true
	if u.Secret == "" {
		u.Secret = "env:NEW"
	}
	if _, err := h.db.Tenant(tenant).CreateSubscription(h.Context(), u, h.op("subscribe")); err != nil {
		h.Fatal(err)
	}
}

// happen makes n more events of one subject, and one of each of m others.
func (h *house) happen(tenant string, n, m int) {
	h.Helper()
	for range n {
		_, err := h.db.Tenant(tenant).ChangeSubscription(h.Context(), "hook", h.op("edit"), func(*registry.Subscription) (bool, error) { return true, nil })
		if err != nil {
			h.Fatal(err)
		}
	}
	for range m {
		h.n++
		_, err := h.db.Tenant(tenant).Register(h.Context(), registry.Registration{
			TenantID: tenant, ServerID: registry.ServerID(fmt.Sprintf("0190b8a0-0000-7000-8000-%012d", h.n)), Name: fmt.Sprint("s", h.n),
			Direction: registry.DirectionConsumed, Transport: registry.TransportStreamableHTTP, URL: "https://peer.example/mcp",
			Authentication: registry.AuthWorkloadIdentity, GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28",
		}, h.op("register"), nil)
		if err != nil {
			h.Fatal(err)
		}
	}
}

func (h *house) relay() *events.Relay {
	return &events.Relay{
		Store: h.db.System(), Webhooks: events.NewWebhooks(guard(), resolver()), Log: slog.New(slog.DiscardHandler),
		Lease: 10 * time.Second, Interval: 5 * time.Millisecond, First: 10 * time.Millisecond, Most: 50 * time.Millisecond,
	}
}

// run relays until all is true.
func run(tb testing.TB, r *events.Relay, all func() bool) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	await(tb, all)
	cancel()
	running.Wait()
}

func await(tb testing.TB, all func() bool) {
	tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for !all() {
		if time.Now().After(deadline) {
			tb.Fatal("it does not come about")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (h *house) pending() int {
	h.Helper()
	b, err := h.db.System().EventBacklog(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	return b.Pending + b.Unrelayed
}

// receiver takes webhooks, and checks each with the public verifier.
type receiver struct {
	testing.TB
	*httptest.Server

	mu       sync.Mutex
	answer   func(n int) int // status of the nth request
	requests int
	got      []events.CloudEvent // those answered with 200, repeats too
	verifier []string            // secrets, one of which must have signed
}

func newReceiver(tb testing.TB) *receiver {
	tb.Helper()
	r := &receiver{TB: tb, answer: func(int) int { return http.StatusOK }, verifier: []string{known["NEW"]}}
	r.Server = httptest.NewServer(r)
	tb.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // it was killed on the way
	}
	for _, secret := range r.verifier {
		hook, err := webhooks.NewWebhook(secret)
		if err != nil {
			r.Error(err)
		}
		if err := hook.Verify(body, req.Header); err != nil {
			r.Errorf("the verifier says %v", err)
		}
	}
	var e events.CloudEvent
	if err := json.Unmarshal(body, &e); err != nil || e.ID != req.Header.Get("Webhook-Id") || req.Header.Get("Content-Type") != events.ContentType {
		r.Errorf("%s with %v: %v", body, req.Header, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	status := r.answer(r.requests)
	if status == http.StatusOK {
		r.got = append(r.got, e)
	}
	w.WriteHeader(status)
}

// once gives what was received without repeats, as "subject number", and checks
// that those of a subject came in order.
func (r *receiver) once() []string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	return once(r.TB, r.got)
}

func once(tb testing.TB, got []events.CloudEvent) []string {
	tb.Helper()
	seen := map[string]bool{}
	last := map[string]string{}
	var out []string
	for _, e := range got {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if e.Sequence <= last[e.Subject] {
			tb.Errorf("%s: %s after %s", e.Subject, e.Sequence, last[e.Subject])
		}
		last[e.Subject] = e.Sequence
		out = append(out, e.Subject+" "+strings.TrimLeft(e.Sequence, "0"))
	}
	slices.Sort(out)
	return out
}

// all gives every event of a tenant in the same form.
func (h *house) all(tenant string) []string {
	h.Helper()
	rows, _, err := h.db.Tenant(tenant).OutboxAfter(h.Context(), db.Position{}, 10_000)
	if err != nil {
		h.Fatal(err)
	}
	var out []string
	for _, e := range rows {
		out = append(out, fmt.Sprint(e.Aggregate, " ", e.Seq))
	}
	slices.Sort(out)
	return out
}
