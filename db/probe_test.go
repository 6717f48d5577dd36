package db_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func TestOnlyActiveAndDegradedServersAreProbed(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		var want []string
		for _, tenant := range []string{"acme", "acme-2", "globex"} {
			w := newWorld(t, d, tenant)
			w.register("registered")
			w.discover(w.register("verified").ServerID, surface("x"))
			w.retire(w.approve(w.discover(w.register("retired").ServerID, surface("x")), "x").ServerID)
			for i := range 3 {
				s := w.approve(w.discover(w.register(fmt.Sprintf("active-%d", i)).ServerID, surface("x")), "x")
				if i == 1 {
					s = w.must(w.change(s.ServerID, "probe", func(r *registry.Record, _ time.Time) error {
						return r.Probed(registry.Probe{Outcome: registry.OutcomeFailed, TargetDigest: s.TargetDigest})
					}))
					if err := w.RememberEra(t.Context(), s.ServerID, "modern"); err != nil {
						t.Fatal(err)
					}
				}
				want = append(want, tenant+"/"+s.Name+"/"+string(s.State))
			}
		}
		var got []string
		for after := ""; ; {
			targets, next, err := d.System().ProbePage(t.Context(), after, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range targets {
				got = append(got, target.Server.TenantID+"/"+target.Server.Name+"/"+string(target.Server.State))
				if era := map[bool]string{true: "modern"}[target.Server.State == registry.StateDegraded]; target.Era != era {
					t.Errorf("era of %s is %q, want %q", target.Server.Name, target.Era, era)
				}
				c := registry.TargetOf(&target.Server, target.Connection, target.Command)
				if c.Digest() != target.Server.TargetDigest || target.Server.ToolsDigest == "" {
					t.Errorf("target: %+v", target)
				}
			}
			if after = next; next == "" {
				break
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAWindowIsRecordedOnce(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		var servers []registry.Server
		for i := range 5 {
			servers = append(servers, w.approve(w.discover(w.register(fmt.Sprintf("s%d", i)).ServerID, surface("x")), "x"))
		}
		window := time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)
		batch := func(window time.Time, message string) []registry.Probe {
			var out []registry.Probe
			for _, s := range servers {
				out = append(out, registry.Probe{
					TenantID: "acme", ServerID: s.ServerID, Window: window, Outcome: registry.OutcomeOK, Message: message, Attempts: 2,
					ProtocolVersion: "2026-07-28", TargetDigest: s.TargetDigest, ToolsDigest: s.ToolsDigest, Duration: 3 * time.Millisecond,
					At: window.Add(1500 * time.Microsecond),
				})
			}
			return out
		}
		const n = 10
		answers := make([][]registry.Probe, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				probes := batch(window, fmt.Sprint(i))
				if i%2 == 0 {
					slices.Reverse(probes)
				}
				rows, err := d.System().RecordProbes(ctx, probes, 0)
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					slices.Reverse(rows)
				}
				answers[i] = rows
			})
		}
		wg.Wait()
		for _, rows := range answers {
			if diff := cmp.Diff(answers[0], rows); diff != "" {
				t.Fatalf("two are told of different rows: %s", diff)
			}
		}
		if got := count(t, d, "SELECT count(*) FROM probes"); got != len(servers) {
			t.Errorf("%d rows", got)
		}
		recorded, err := d.System().RecordedProbes(ctx, window, []string{servers[0].ServerID, servers[1].ServerID, "srv_none"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]registry.Probe{servers[0].ServerID: answers[0][0], servers[1].ServerID: answers[0][1]}, recorded); diff != "" {
			t.Error(diff)
		}
		// A late window is recorded, and is not the latest.
		later, earlier := window.Add(5*time.Minute), window.Add(-5*time.Minute)
		for _, at := range []time.Time{later, earlier} {
			if _, err := d.System().RecordProbes(ctx, batch(at, "other"), 0); err != nil {
				t.Fatal(err)
			}
		}
		view, err := w.Server(ctx, servers[0].ServerID)
		if err != nil || view.LastProbe == nil || !view.LastProbe.Window.Equal(later) {
			t.Errorf("latest probe: %+v, %v", view.LastProbe, err)
		}
		if diff := cmp.Diff(servers[0], view.Server); diff != "" {
			t.Errorf("a probe moved the server: %s", diff)
		}
		if rows, err := d.System().RecordProbes(ctx, nil, 0); err != nil || len(rows) != 0 {
			t.Errorf("no probes: %v, %v", rows, err)
		}
		if recorded, err := d.System().RecordedProbes(ctx, window, nil); err != nil || len(recorded) != 0 {
			t.Errorf("no servers: %v, %v", recorded, err)
		}
		// The era is kept beside, whatever probes come.
		if err := w.RememberEra(ctx, servers[0].ServerID, "legacy"); err != nil {
			t.Fatal(err)
		}
		if view, err := w.Server(ctx, servers[0].ServerID); err != nil || view.Era != "legacy" || !view.LastProbe.Window.Equal(later) {
			t.Errorf("era %q, probe %+v: %v", view.Era, view.LastProbe, err)
		}
		// A probe that shook hands says how; one that did not says nothing.
		for i, era := range []string{"", "modern", ""} {
			probe := batch(later.Add(time.Duration(i+1)*time.Minute), "other")
			probe[0].Era = era
			if _, err := d.System().RecordProbes(ctx, probe, 0); err != nil {
				t.Fatal(err)
			}
			want := []string{"legacy", "modern", "modern"}[i]
			if view, err := w.Server(ctx, probe[0].ServerID); err != nil || probe[0].ServerID == servers[0].ServerID && view.Era != want {
				t.Errorf("era %q, want %q: %v", view.Era, want, err)
			}
		}
		// How another target shakes hands is not known.
		url := "https://elsewhere.example/mcp"
		w.must(w.change(servers[0].ServerID, "edit", func(r *registry.Record, now time.Time) error {
			return r.Edit(registry.Edit{URL: &url}, named("edit"), now)
		}))
		if view, err := w.Server(ctx, servers[0].ServerID); err != nil || view.Era != "" {
			t.Errorf("era of another target: %q, %v", view.Era, err)
		}
	})
}
