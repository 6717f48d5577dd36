package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/activities"
	"countersign/registry"
	"countersign/worker"
)

// away stands before the changes while Temporal cannot be reached.
type away struct {
	worker.InboundChanges
	left int
}

func (a *away) gone() error {
	if a.left--; a.left >= 0 {
		return registry.Errorf(registry.ReasonDependency, "the workflow engine does not answer")
	}
	return nil
}

func (a *away) Register(ctx context.Context, in activities.RegisterInput) (activities.RegisterOutput, error) {
	if err := a.gone(); err != nil {
		return activities.RegisterOutput{}, err
	}
	out, err := a.InboundChanges.Register(ctx, in)
	return out, errors.Join(err, a.gone()) // whether the answer arrives is another matter
}

func (h *house) receive(id string, kind registry.EventType, data string) {
	h.Helper()
	_, err := h.store().TakeIn(context.Background(), registry.InboundEvent{SubscriptionID: "platform", EventID: id, Type: kind, Data: []byte(data)})
	if err != nil {
		h.Fatal(err)
	}
}

// settled waits until nothing is queued, and gives how each event ended.
func (h *house) settled() map[string]string {
	h.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := h.store().Inbound(context.Background(), "platform", 100)
		if err != nil {
			h.Fatal(err)
		}
		out, queued := map[string]string{}, 0
		for _, e := range list {
			reason, _, _ := strings.Cut(e.Problem, ":")
			out[e.EventID] = strings.TrimSuffix(string(e.State)+" "+reason, " ")
			if e.State == registry.InboundQueued {
				queued++
			}
		}
		if queued == 0 {
			return out
		}
		if time.Now().After(deadline) {
			h.Fatal(out)
		}
	}
}

// What the platform tells is done once, in whatever order and however often it is
// tried: published releases are registered and verified, revoked ones retired also
// from registered and verified.
func TestReleasesAreRegisteredAndRetired(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "sqlite")
	demo := offers(t, "a")
	_, err := h.store().CreateSubscription(t.Context(), registry.Subscription{
		SubscriptionID: "platform", Direction: registry.SubscriptionReceive, Secret: "env:PLATFORM", Enabled: true,
	}, registry.Operation{ID: "sub", Name: "create_subscription", Actor: admin, Origin: registry.OriginAPI})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go worker.Inbound{
		Store: h.db.System(), Tenant: func(tenant string) worker.Releases { return h.db.Tenant(tenant) },
		Changes: &away{h.client, 2}, Log: quiet(), Interval: 10 * time.Millisecond, First: 10 * time.Millisecond,
	}.Run(ctx)

	published := func(release, name, url string) string {
		return fmt.Sprintf(`{"releaseId":%q,"name":%q,"url":%q,"authentication":"workload_identity"}`, release, name, url)
	}
	h.receive("e1", registry.EventAssetReleasePublished, published("r1", "one", demo.URL))
	h.receive("e2", registry.EventAssetReleasePublished, published("r2", "closed", "http://127.0.0.1:1/mcp"))
	h.receive("e3", registry.EventAssetReleasePublished, published("r1", "one", demo.URL)) // the same under another id
	h.receive("e4", registry.EventAssetReleasePublished, published("r4", "one", demo.URL)) // a name that is taken
	h.receive("e5", registry.EventAssetReleasePublished, published("r5", "Bad Name", demo.URL))
	for id, want := range map[string]string{"e1": "done", "e2": "done", "e3": "done", "e4": "failed server_already_exists", "e5": "failed invalid_argument"} {
		if got := h.settled()[id]; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	for deadline := time.Now().Add(time.Minute); h.get("one").State != registry.StateVerified; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", h.get("one").Server)
		}
	}
	if one := h.get("one"); one.ReleaseID != "r1" || h.get("closed").State != registry.StateRegistered {
		t.Errorf("%+v", one.Server)
	}

	h.receive("e6", registry.EventAssetReleaseRevoked, `{"releaseId":"r1","reason":"a hole"}`)
	h.receive("e7", registry.EventAssetReleaseRevoked, `{"releaseId":"r2"}`)
	h.receive("e8", registry.EventAssetReleaseRevoked, `{"releaseId":"nobody's"}`)
	h.receive("e9", registry.EventAssetReleaseRevoked, `{"releaseId":"r9"}`)
	h.receive("e10", registry.EventAssetReleasePublished, published("r9", "late", demo.URL)) // told after its revocation
	for _, id := range []string{"e6", "e7", "e8", "e9", "e10"} {
		if got := h.settled()[id]; got != "done" {
			t.Errorf("%s is %s", id, got)
		}
	}
	for _, name := range []string{"one", "closed"} {
		if s := h.get(name); s.State != registry.StateRetired {
			t.Errorf("%s is %s", name, s.State)
		}
	}
	if _, err := h.store().Server(t.Context(), "late"); registry.ReasonOf(err) != registry.ReasonServerNotFound {
		t.Errorf("a revoked release is registered: %v", err)
	}
}
