package events_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/events"
	"countersign/registry"
)

// A receiver that is away for a while gets everything, those of a subject in
// order, once when repeats are left out; others get theirs in the meantime.
func TestAReceiverThatWasAwayGetsEverything(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	away, there := newReceiver(t), newReceiver(t)
	away.answer = func(n int) int {
		switch {
		case n <= 25:
			return http.StatusServiceUnavailable
		case n == 30:
			return http.StatusFound // redirects are not followed
		}
		return http.StatusOK
	}
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: away.URL})
	h.subscribe("acme", registry.Subscription{SubscriptionID: "there", URL: there.URL})
	h.happen("acme", 8, 5)
	h.subscribe("globex", registry.Subscription{SubscriptionID: "hook", URL: there.URL, Types: []registry.EventType{registry.EventServerRegistered}})
	h.happen("globex", 3, 2)
	run(t, h.relay(), func() bool { return h.pending() == 0 })
	if diff := cmp.Diff(h.all("acme"), away.once()); diff != "" {
		t.Error(diff)
	}
	if n := len(there.once()); n != len(h.all("acme"))+2 {
		t.Errorf("%d", n)
	}
	for _, e := range away.got {
		if e.TenantID != "acme" {
			t.Errorf("%+v", e)
		}
	}
	deliveries, _, err := h.db.Tenant("acme").Deliveries(t.Context(), db.DeliveryQuery{SubscriptionID: "hook"})
	if err != nil || len(deliveries) != 15 {
		t.Fatal(len(deliveries), err)
	}
	failures := 0
	for _, d := range deliveries {
		if d.State != registry.DeliveryDelivered || d.Status != http.StatusOK || d.LastAt.IsZero() {
			t.Errorf("%+v", d)
		}
		failures += d.Attempts - 1
	}
	if failures != 26 {
		t.Errorf("the log knows of %d failures", failures)
	}
}

// Two processes at once: nothing is lost, and nothing delivered twice as long as
// both live.
func TestTwoRelaysShareTheWork(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t)
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: r.URL})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 2 {
		relay := h.relay()
		running.Go(func() { relay.Run(ctx) })
	}
	h.happen("acme", 20, 10)
	await(t, func() bool { return h.pending() == 0 })
	cancel()
	running.Wait()
	if diff := cmp.Diff(h.all("acme"), r.once()); diff != "" {
		t.Error(diff)
	}
	if len(r.got) != len(h.all("acme")) {
		t.Errorf("%d deliveries of %d events", len(r.got), len(h.all("acme")))
	}
}

// What cannot be delivered for too long is given up, seen, and sent again when
// somebody says so; what comes after it goes on.
func TestDeadLettersAreSeenAndReplayed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t)
	r.answer = func(int) int { return http.StatusBadRequest }
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: r.URL})
	h.happen("acme", 1, 0)
	relay := h.relay()
	relay.GiveUp = 30 * time.Millisecond
	dead := func() int {
		t.Helper()
		list, _, err := h.db.Tenant("acme").Deliveries(t.Context(), db.DeliveryQuery{SubscriptionID: "hook", State: registry.DeliveryDead})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Problem != "the receiver answered 400" || d.Attempts < 2 {
				t.Errorf("%+v", d)
			}
		}
		return len(list)
	}
	run(t, relay, func() bool { return dead() == 2 })
	r.mu.Lock()
	r.answer = func(int) int { return http.StatusNoContent }
	r.mu.Unlock()
	if n, _, err := h.db.Tenant("acme").ReplayEvents(t.Context(), "hook", db.Replay{Dead: true}, h.op("replay")); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	run(t, h.relay(), func() bool { return h.pending() == 0 && dead() == 0 })
}

// While secrets are rotated, receivers with either accept what is sent.
func TestBothSecretsSignDuringRotation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t)
	r.verifier = []string{known["NEW"], known["OLD"]}
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: r.URL, Secret: "env:NEW", PreviousSecret: "env:OLD"})
	run(t, h.relay(), func() bool { return len(r.once()) == 1 })
}

// What keeps an event from being sent is in the log, and never more than that.
func TestTheDeliveryLogSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, c := range map[string]struct {
		u    registry.Subscription
		want string
	}{
		"unresolved": {registry.Subscription{URL: "http://127.0.0.1:1/", Secret: "env:NOWHERE"}, "secret_reference_unresolved: "},
		"short":      {registry.Subscription{URL: "http://127.0.0.1:1/", Secret: "env:SHORT"}, "secret_reference_unresolved: the secret has fewer than 24 bytes"},
		"forbidden":  {registry.Subscription{URL: "http://10.0.0.1/"}, "blocked_address: "},
		"closed":     {registry.Subscription{URL: "http://127.0.0.1:1/"}, "unreachable: "},
	} {
		c.u.SubscriptionID = name
		h.subscribe("acme", c.u)
		run(t, h.relay(), func() bool {
			list, _, err := h.db.Tenant("acme").Deliveries(t.Context(), db.DeliveryQuery{SubscriptionID: name})
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 || list[0].Attempts == 0 {
				return false
			}
			if !strings.HasPrefix(list[0].Problem, c.want) || strings.Contains(list[0].Problem, "c2hvcnQ") {
				t.Errorf("%s: %s, want %s", name, list[0].Problem, c.want)
			}
			return true
		})
	}
}

// A receiver may say when to come back.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := events.NewWebhooks(guard(), resolver()).Send(t.Context(), registry.Subscription{TenantID: "acme", URL: r.URL, Secret: "env:NEW"}, "id", []byte("{}"), time.Now())
	f, ok := err.(*events.DeliveryError) //nolint:errorlint // it is the error itself
	if !ok || f.Status != http.StatusTooManyRequests || f.After != time.Hour {
		t.Errorf("%+v", err)
	}
}

// Events that are older than they are kept go while the relay runs.
func TestRetentionWorksWhileItRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t)
	h.subscribe("acme", registry.Subscription{SubscriptionID: "hook", URL: r.URL})
	h.happen("acme", 5, 5)
	relay := h.relay()
	relay.Keep = time.Nanosecond
	run(t, relay, func() bool { return len(r.once()) == 11 })
	run(t, relay, func() bool { return len(h.all("acme")) == 0 })
	h.happen("acme", 1, 0)
	run(t, h.relay(), func() bool { return len(r.once()) == 12 })
}
