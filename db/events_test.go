package db_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

func subscription(id string) registry.Subscription {
	return registry.Subscription{
		SubscriptionID: id, Direction: registry.SubscriptionSend, URL: "https://hooks.example/countersign", Secret: "env:HOOK", Enabled: true,
	}
}

func receiving(id string) registry.Subscription {
	return registry.Subscription{SubscriptionID: id, Direction: registry.SubscriptionReceive, Secret: "env:PLATFORM", Enabled: true}
}

func (w *world) subscribe(u registry.Subscription) registry.Subscription {
	w.tb.Helper()
	u, err := w.CreateSubscription(w.tb.Context(), u, named("subscribe"))
	if err != nil {
		w.tb.Fatal(err)
	}
	return u
}

func relay(t on, sinks ...string) int {
	t.Helper()
	total := 0
	for {
		n, err := t.db.System().RelayEvents(t.Context(), sinks, 3)
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n == 0 {
			return total
		}
	}
}

// deliver goes along every lane that is due, and gives what it carried, as
// "sink subject number".
func deliver(t on, limit int, outcome func(registry.Parcel) registry.DeliveryState) []string {
	t.Helper()
	var out []string
	for {
		lanes, err := t.db.System().ClaimLanes(t.Context(), nil, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(lanes) == 0 {
			return out
		}
		for _, lane := range lanes {
			parcels, _, err := t.db.System().Parcels(t.Context(), lane, limit)
			if err != nil {
				t.Fatal(err)
			}
			var attempts []registry.Attempt
			again := time.Duration(0)
			for _, p := range parcels {
				state := outcome(p)
				attempts = append(attempts, registry.Attempt{DeliveryID: p.Delivery.ID, State: state, Status: 500, Problem: "no", At: time.Now()})
				if state == registry.DeliveryPending {
					again = time.Hour
					break
				}
				out = append(out, fmt.Sprint(lane.Sink, " ", lane.Aggregate, " ", p.Event.Seq))
			}
			if mine, err := t.db.System().SettleLane(t.Context(), lane, attempts, again); err != nil || !mine {
				t.Fatal(mine, err)
			}
		}
	}
}

func well(registry.Parcel) registry.DeliveryState { return registry.DeliveryDelivered }

func TestEachSubscriptionGetsWhatItWants(t *testing.T) {
	engines(t, func(t on) {
		acme, globex := newWorld(t, t.db, "acme"), newWorld(t, t.db, "globex")
		acme.subscribe(subscription("all"))
		some := subscription("some")
		some.Types = []registry.EventType{registry.EventServerStateChanged}
		acme.subscribe(some)
		s := acme.register("weather")
		acme.discover(s.ServerID, surface("forecast"))
		other := globex.register("weather")
		about := subscription("about")
		about.Subjects = []string{"srv_other"}
		acme.subscribe(about)
		off := subscription("off")
		off.Enabled = false
		acme.subscribe(off)
		acme.subscribe(receiving("in"))

		total := count(t, t.db, "SELECT count(*) FROM outbox")
		if n := relay(t, "installation/log"); n != total {
			t.Errorf("relayed %d events of %d", n, total)
		}
		if n := relay(t, "installation/log"); n != 0 {
			t.Errorf("relayed %d events again", n)
		}
		got := deliver(t, 10, well)
		want := map[string]int{"all": 9, "some": 1, "installation/log": total}
		seen := map[string]int{}
		last := map[string]int{}
		for _, line := range got {
			var sink, subject string
			var seq int
			if _, err := fmt.Sscan(line, &sink, &subject, &seq); err != nil {
				t.Fatal(err)
			}
			seen[sink]++
			if way := sink + " " + subject; sink != "some" {
				if seq != last[way]+1 {
					t.Errorf("%s: %d follows %d", way, seq, last[way])
				}
				last[way] = seq
			}
			if subject == other.ServerID && sink != "installation/log" {
				t.Errorf("%s got another tenant's event", sink)
			}
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
		if n := count(t, t.db, "SELECT count(*) FROM event_lanes"); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
		views, _, err := acme.Subscriptions(t.Context())
		if err != nil || len(views) != 5 {
			t.Errorf("%+v: %v", views, err)
		}
	})
}

// One subject that cannot be delivered keeps neither others nor other sinks, and
// its own later events wait until it is given up.
func TestALaneWaitsForItsHead(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.subscribe(subscription("one"))
		w.subscribe(subscription("two"))
		relay(t)
		deliver(t, 10, well)
		a, b := w.register("a"), w.register("b")
		w.discover(a.ServerID, surface("x"))
		relay(t)
		broken := func(p registry.Parcel) registry.DeliveryState {
			if p.Delivery.Sink == "one" && p.Event.Aggregate == a.ServerID {
				return registry.DeliveryPending
			}
			return registry.DeliveryDelivered
		}
		got := deliver(t, 10, broken)
		slices.Sort(got)
		want := []string{"one " + b.ServerID + " 1", "two " + a.ServerID + " 1", "two " + a.ServerID + " 2", "two " + a.ServerID + " 3", "two " + a.ServerID + " 4", "two " + b.ServerID + " 1"}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		backlog, err := t.db.System().EventBacklog(t.Context())
		if err != nil || backlog.Pending != 4 || backlog.Dead != 0 || backlog.Oldest.IsZero() {
			t.Errorf("%+v: %v", backlog, err)
		}
		later(t)
		given := true
		got = deliver(t, 10, func(registry.Parcel) registry.DeliveryState {
			if given {
				given = false
				return registry.DeliveryDead
			}
			return registry.DeliveryDelivered
		})
		if len(got) != 4 {
			t.Errorf("%v", got)
		}
		dead, _, err := w.Deliveries(t.Context(), db.DeliveryQuery{SubscriptionID: "one", State: registry.DeliveryDead})
		if err != nil || len(dead) != 1 || dead[0].Seq != 1 || dead[0].Attempts != 2 || dead[0].Problem != "no" || dead[0].Status != 500 || dead[0].FirstAt.IsZero() {
			t.Errorf("%+v: %v", dead, err)
		}
		n, more, err := w.ReplayEvents(t.Context(), "one", db.Replay{Dead: true}, named("replay"))
		if n != 1 || more || err != nil {
			t.Errorf("%d %t %v", n, more, err)
		}
		if got := deliver(t, 10, well); !slices.Equal(got, []string{"one " + a.ServerID + " 1"}) {
			t.Errorf("%v", got)
		}
	})
}

// later makes every lane due.
func later(t on) {
	t.Helper()
	exec(t, t.db, "UPDATE event_lanes SET due_at = '2020-01-01 00:00:00+00:00' WHERE due_at < '9000-01-01 00:00:00+00:00'")
}

// Whoever died with a lease is followed by another, and comes too late itself.
func TestALeaseIsOneHoldersAndEnds(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.subscribe(subscription("one"))
		relay(t)
		y, ctx := t.db.System(), t.Context()
		first, err := y.ClaimLanes(ctx, nil, 10, time.Minute)
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		if none, err := y.ClaimLanes(ctx, nil, 10, time.Minute); err != nil || len(none) != 0 {
			t.Fatal(none, err)
		}
		later(t)
		if none, err := y.ClaimLanes(ctx, []string{"one"}, 10, time.Minute); err != nil || len(none) != 0 {
			t.Fatal(none, err)
		}
		second, err := y.ClaimLanes(ctx, nil, 10, time.Minute)
		if err != nil || len(second) != 1 || second[0].Lease == first[0].Lease {
			t.Fatal(second, err)
		}
		parcels, u, err := y.Parcels(ctx, second[0], 10)
		if err != nil || len(parcels) != 1 || u == nil || u.URL == "" {
			t.Fatal(parcels, u, err)
		}
		done := []registry.Attempt{{DeliveryID: parcels[0].Delivery.ID, State: registry.DeliveryDelivered, At: time.Now()}}
		if mine, err := y.SettleLane(ctx, first[0], done, 0); mine || err != nil {
			t.Error("who lost the lease settles", err)
		}
		if n := count(t, t.db, "SELECT count(*) FROM event_deliveries WHERE state = 'pending'"); n != 1 {
			t.Errorf("%d are pending", n)
		}
		if mine, err := y.SettleLane(ctx, second[0], done, 0); !mine || err != nil {
			t.Error(mine, err)
		}
		if mine, err := y.SettleLane(ctx, second[0], done, 0); mine || err != nil {
			t.Error("twice", err)
		}
	})
}

// Many write, several relay and deliver at once: every event arrives, those of a
// subject in order, none twice while all of them live.
func TestSeveralRelaysAtOnce(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.subscribe(subscription("one"))
		w.subscribe(subscription("two"))
		relay(t)
		deliver(t, 10, well)
		const servers, changes = 3, 6
		var (
			mu                sync.Mutex
			got               = map[string][]int64{}
			writing, relaying sync.WaitGroup
			stop              = make(chan struct{})
			ids               []string
		)
		for n := range servers {
			ids = append(ids, w.register(fmt.Sprint("s", n)).ServerID)
		}
		for _, id := range ids {
			writing.Go(func() {
				for n := range changes {
					w.discover(id, surface(fmt.Sprint("t", n)))
				}
			})
		}
		y, ctx := t.db.System(), t.Context()
		for range 2 {
			relaying.Go(func() {
				for idle := 0; idle < 3; {
					n, err := y.RelayEvents(ctx, nil, 5)
					if err != nil {
						t.Error(err)
						return
					}
					lanes, err := y.ClaimLanes(ctx, nil, 2, time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					for _, lane := range lanes {
						parcels, _, err := y.Parcels(ctx, lane, 3)
						if err != nil {
							t.Error(err)
							return
						}
						var attempts []registry.Attempt
						mu.Lock()
						for _, p := range parcels {
							way := lane.Sink + " " + lane.Aggregate
							got[way] = append(got[way], p.Event.Seq)
							attempts = append(attempts, registry.Attempt{DeliveryID: p.Delivery.ID, State: registry.DeliveryDelivered, At: time.Now()})
						}
						mu.Unlock()
						if mine, err := y.SettleLane(ctx, lane, attempts, 0); err != nil || !mine {
							t.Error(mine, err)
							return
						}
					}
					select {
					case <-stop:
						if n == 0 && len(lanes) == 0 {
							idle++
							time.Sleep(10 * time.Millisecond)
						}
					default:
					}
				}
			})
		}
		writing.Wait()
		close(stop)
		relaying.Wait()
		if n := count(t, t.db, "SELECT count(*) FROM outbox WHERE NOT relayed"); n != 0 {
			t.Errorf("%d events were not relayed", n)
		}
		for _, sink := range []string{"one", "two"} {
			for _, id := range ids {
				seqs := got[sink+" "+id]
				if want := count(t, t.db, "SELECT max(seq) FROM outbox WHERE aggregate = '"+id+"'"); len(seqs) != want {
					t.Errorf("%s %s: %d of %d", sink, id, len(seqs), want)
				}
				for i, seq := range seqs {
					if seq != int64(i+1) {
						t.Fatalf("%s %s: %v", sink, id, seqs)
					}
				}
			}
		}
	})
}

// A transaction that took its number and its id early and commits late is not
// passed by.
func TestATransactionThatCommitsLateHasItsEvent(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	w := newWorld(t, d, "acme")
	w.subscribe(subscription("one"))
	o := on{t, d}
	slow, err := raw(t, d).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = slow.ExecContext(t.Context(), `SET LOCAL ROLE countersign_app; SET LOCAL countersign.tenant = 'acme';
INSERT INTO outbox (event_id, event_type, tenant_id, aggregate, seq, data, occurred_at, correlation_id, causation_id)
VALUES ('late', 'x', 'acme', 'late', 1, '{}', now(), '', '')`)
	if err != nil {
		t.Fatal(err)
	}
	w.register("early")
	relay(o)
	before := deliver(o, 10, well)
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	relay(o)
	after := deliver(o, 10, well)
	if len(before) != 2 || !slices.Equal(after, []string{"one late 1"}) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestASubscriptionIsSwitchedOffAndOn(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		u := w.subscribe(subscription("one"))
		relay(t)
		enable := func(on bool) registry.Subscription {
			t.Helper()
			u, err := w.ChangeSubscription(t.Context(), "one", named("edit_subscription"), func(u *registry.Subscription) (bool, error) {
				u.Enabled = on
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		if u := enable(false); u.Version != 2 || u.Enabled {
			t.Errorf("%+v", u)
		}
		if got := deliver(t, 10, well); len(got) != 0 {
			t.Errorf("a disabled one got %v", got)
		}
		w.register("meanwhile")
		relay(t)
		enable(true)
		relay(t)
		if got := deliver(t, 10, well); len(got) != 2 { // made, and enabled
			t.Errorf("%v", got)
		}
		n, _, err := w.ReplayEvents(t.Context(), "one", db.Replay{Since: u.CreatedAt}, named("replay"))
		if err != nil {
			t.Fatal(err)
		}
		got := deliver(t, 10, well)
		if n != len(got) || !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "srv_") }) {
			t.Errorf("%d replayed: %v", n, got)
		}
		refused(t, w.DeleteSubscription(t.Context(), "one", `"1"`, named("unsubscribe")), registry.ReasonStaleEtag)
		if err := w.DeleteSubscription(t.Context(), "one", "", named("unsubscribe")); err != nil {
			t.Fatal(err)
		}
		if n := count(t, t.db, "SELECT count(*) FROM event_deliveries"); n != 0 {
			t.Errorf("%d deliveries are left", n)
		}
	})
}

func TestATenantHasOnlySoManySubscriptions(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		for i := range registry.MaxSubscriptions {
			w.subscribe(subscription(fmt.Sprint("s", i)))
		}
		w.subscribe(subscription("s0")) // a repeat
		_, err := w.CreateSubscription(t.Context(), subscription("more"), named("subscribe"))
		refused(t, err, registry.ReasonQuotaExceeded)
	})
}

func TestReceivedEventsAreKeptOnce(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.subscribe(receiving("in"))
		w.subscribe(subscription("out"))
		e := registry.InboundEvent{SubscriptionID: "in", EventID: "e1", Type: registry.EventAssetReleaseRevoked, Data: []byte(`{"releaseId":"r"}`)}
		for _, want := range []bool{true, false} {
			if taken, err := w.TakeIn(t.Context(), e); taken != want || err != nil {
				t.Error(taken, err)
			}
		}
		e.SubscriptionID = "out"
		_, err := w.TakeIn(t.Context(), e)
		refused(t, err, registry.ReasonSubscriptionNotFound)
		y := t.db.System()
		claimed, err := y.ClaimInbound(t.Context(), 10, time.Minute)
		if err != nil || len(claimed) != 1 || string(claimed[0].Data) != `{"releaseId":"r"}` {
			t.Fatal(claimed, err)
		}
		if again, err := y.ClaimInbound(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
			t.Error(again, err)
		}
		late := claimed[0]
		late.Lease, late.State = "another", registry.InboundFailed
		claimed[0].Problem = "away"
		for _, settled := range []registry.InboundEvent{late, claimed[0]} {
			if err := y.SettleInbound(t.Context(), settled, 0); err != nil {
				t.Fatal(err)
			}
		}
		claimed, err = y.ClaimInbound(t.Context(), 10, time.Minute)
		if err != nil || len(claimed) != 1 || claimed[0].Attempts != 1 || claimed[0].Problem != "away" {
			t.Fatal(claimed, err)
		}
		claimed[0].State = registry.InboundDone
		if err := y.SettleInbound(t.Context(), claimed[0], 0); err != nil {
			t.Fatal(err)
		}
		list, err := w.Inbound(t.Context(), "in", 10)
		if err != nil || len(list) != 1 || list[0].State != registry.InboundDone {
			t.Error(list, err)
		}
	})
}

// Retention takes what is done, whatever still waits.
func TestEventsAreForgottenInTime(t *testing.T) {
	engines(t, func(t on) {
		w := newWorld(t, t.db, "acme")
		w.subscribe(subscription("one"))
		w.register("a")
		b := w.register("b")
		relay(t)
		deliver(t, 10, func(p registry.Parcel) registry.DeliveryState {
			switch {
			case p.Event.Aggregate == b.ServerID:
				return registry.DeliveryPending
			case p.Event.Type == registry.EventSubscriptionChanged:
				return registry.DeliveryDead
			}
			return registry.DeliveryDelivered
		})
		w.register("new")
		const old = "2020-01-01 00:00:00+00:00"
		exec(t, t.db, "UPDATE outbox SET occurred_at = '"+old+"'", "UPDATE event_deliveries SET created_at = '"+old+"'")
		exec(t, t.db, "UPDATE event_deliveries SET created_at = '"+time.Now().UTC().Add(-2*time.Hour).Format("2006-01-02 15:04:05+00:00")+"' WHERE state = 'dead'")
		n, err := t.db.System().PruneEvents(t.Context(), time.Hour, 100)
		if err != nil || n != 2 { // the delivery to a, and its event
			t.Errorf("%d: %v", n, err)
		}
		if n := count(t, t.db, "SELECT count(*) FROM outbox"); n != 3 {
			t.Errorf("%d events are left", n)
		}
		if n := count(t, t.db, "SELECT count(*) FROM event_deliveries WHERE state <> 'delivered'"); n != 2 {
			t.Errorf("%d deliveries are left", n)
		}
	})
}

// What a bus of the installation was given up for is seen and sent again by the
// tenant that it is of, and by no other.
func TestDeadLettersOfABusAreTheirTenants(t *testing.T) {
	engines(t, func(t on) {
		acme, globex := newWorld(t, t.db, "acme"), newWorld(t, t.db, "globex")
		acme.register("weather")
		relay(t) // the bus is not there yet
		acme.register("news")
		globex.register("weather")
		relay(t, registry.SinkNATS)
		deliver(t, 10, func(registry.Parcel) registry.DeliveryState { return registry.DeliveryDead })

		query := db.DeliveryQuery{Page: db.Page{Size: 50}, SubscriptionID: registry.SinkNATS, State: registry.DeliveryDead}
		dead, _, err := acme.Deliveries(t.Context(), query)
		if err != nil || len(dead) != 1 || dead[0].TenantID != "acme" || dead[0].Problem != "no" {
			t.Fatalf("%+v %v", dead, err)
		}
		_, sinks, err := acme.Subscriptions(t.Context())
		if diff := cmp.Diff([]db.SinkView{{Sink: registry.SinkNATS, Dead: 1}}, sinks); diff != "" || err != nil {
			t.Error(diff, err)
		}
		theirs, _, err := globex.Deliveries(t.Context(), query)
		if err != nil || len(theirs) != 1 || theirs[0].EventID == dead[0].EventID {
			t.Fatalf("%+v %v", theirs, err)
		}

		for name, r := range map[string]db.Replay{"what is another's": {EventIDs: []string{theirs[0].EventID}}, "what it was not offered": {EventIDs: []string{"e0"}}} {
			if n, _, err := acme.ReplayEvents(t.Context(), registry.SinkNATS, r, named("replay")); n != 0 || err != nil {
				t.Errorf("%s: %d are replayed: %v", name, n, err)
			}
		}
		if n, more, err := acme.ReplayEvents(t.Context(), registry.SinkNATS, db.Replay{Dead: true}, named("replay")); n != 1 || more || err != nil {
			t.Fatal(n, more, err)
		}
		if got := deliver(t, 10, well); len(got) != 1 || !strings.HasPrefix(got[0], registry.SinkNATS+" ") {
			t.Errorf("%v", got)
		}
		// Of two registrations it was offered one.
		if n, _, err := acme.ReplayEvents(t.Context(), registry.SinkNATS, db.Replay{Since: time.Unix(0, 0)}, named("replay")); n != 1 || err != nil {
			t.Error(n, err)
		}
		for _, unknown := range []string{"installation/pigeons", "hook"} {
			query.SubscriptionID = unknown
			if _, _, err := acme.Deliveries(t.Context(), query); registry.ReasonOf(err) != registry.ReasonSubscriptionNotFound {
				t.Errorf("%s: %v", unknown, err)
			}
			if _, _, err := acme.ReplayEvents(t.Context(), unknown, db.Replay{Dead: true}, named("replay")); registry.ReasonOf(err) != registry.ReasonSubscriptionNotFound {
				t.Errorf("%s: %v", unknown, err)
			}
		}
	})
}
