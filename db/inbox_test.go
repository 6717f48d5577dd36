package db_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// What waits for an approval is listed by when it ends, and pages lose nothing.
func TestWhatWaitsForAnApprovalIsListed(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		for i, name := range []string{"e", "b", "d", "a", "c"} {
			s := w.discover(w.register(name).ServerID, surface("forecast"))
			if i%2 == 0 { // approved, and other than approved
				s = w.discover(w.approve(s, "forecast").ServerID, surface("forecast", "!forecast"))
			}
			if s.Review.Status != registry.ReviewPending {
				t.Fatalf("%s is %+v", name, s.Review)
			}
		}
		w.register("unknown") // never discovered
		w.retire(w.discover(w.register("gone").ServerID, surface("forecast")).ServerID)
		w.approve(w.discover(w.register("done").ServerID, surface("forecast")), "forecast")
		list := func(q db.InboxQuery) string {
			var names []string
			q.Size = 2
			for {
				found, next, total, err := w.Inbox(ctx, q)
				if err != nil || total > 5 || len(found) > 2 {
					t.Fatalf("%d of %d, %v", len(found), total, err)
				}
				for _, f := range found {
					names = append(names, f.Server.Name)
				}
				if next == "" {
					return strings.Join(names, " ")
				}
				if last := found[len(found)-1].Key; last != next {
					t.Errorf("the key of the page is %s, of its last row %s", next, last)
				}
				q.After = next
			}
		}
		where := func(field string, op db.Op, value string) db.InboxQuery {
			return db.InboxQuery{Conditions: []db.Condition{{Field: field, Op: op, Value: value}}}
		}
		for _, c := range []struct {
			query db.InboxQuery
			want  string
		}{
			{db.InboxQuery{}, "e b d a c"},
			{db.InboxQuery{Order: db.Order{Field: "open_time", Desc: true}}, "c a d b e"},
			{db.InboxQuery{Order: db.Order{Field: "server"}}, "a b c d e"},
			{db.InboxQuery{Before: time.Now().Add(time.Hour)}, ""},
			{db.InboxQuery{Before: time.Now().Add(8 * 24 * time.Hour)}, "e b d a c"},
			{where("kind", db.OpIs, "first"), "b a"},
			{where("kind", db.OpIs, "drift"), "e d c"},
			{where("kind", db.OpIsNot, "drift"), "b a"},
			{where("labels.team/x.y", db.OpIs, "d"), "d"},
			{where("labels.env", db.OpIs, "prod"), "e b d a c"},
			{where("owner", db.OpHas, "TEAM C"), "c"},
			{where("requested_by", db.OpIs, "ann"), "e b d a c"},
			{where("policy", db.OpIs, "default"), "e b d a c"},
		} {
			if got := list(c.query); got != c.want {
				t.Errorf("%+v: %q, want %q", c.query, got, c.want)
			}
		}
		for _, bad := range []db.InboxQuery{where("state", db.OpIs, "x"), {Order: db.Order{Field: "state"}}, {Page: db.Page{After: "x"}}} {
			if _, _, _, err := w.Inbox(ctx, bad); err == nil {
				t.Errorf("%+v is understood", bad)
			}
		}
	})
}

// A request is weighed by what the items state and by the bytes of what changed,
// and of nothing else.
func TestARequestHasWhatItIsWeighedBy(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		s := w.register("weather")
		if _, err := w.Request(ctx, s.ServerID); registry.ReasonOf(err) != registry.ReasonNothingDiscovered {
			t.Errorf("before a discovery: %v", err)
		}
		s = w.discover(s.ServerID, surface("alerts", "forecast", "radar"))
		first, err := w.Request(ctx, s.ServerID)
		if err != nil || first.Was != nil || first.Items() != 5 || first.Now.IsZero() {
			t.Fatalf("%+v, %v", first, err)
		}
		if got := first.Record.ReviewCounts(first.Was); got.Added != 5 || len(got.By) > 0 || got.Unbound > 0 {
			t.Errorf("%+v", got)
		}
		w.approve(s, "alerts", "forecast")
		w.discover(s.ServerID, surface("forecast", "!forecast", "radar"))
		r, err := w.Request(ctx, s.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Record.ReviewCounts(r.Was)
		if diff := cmp.Diff(map[registry.Severity]int{registry.SeverityBreaking: 2}, got.By); diff != "" || got.Removed != 1 || got.Unbound != 1 || got.Worst != registry.SeverityBreaking {
			t.Errorf("%s; %+v", diff, got)
		}
		for _, snap := range []*registry.Snapshot{r.Was, r.Record.Snapshot} {
			for _, item := range snap.Items {
				if (len(item.Raw) > 0) != (item.Name == "forecast") {
					t.Errorf("%s %s has %d bytes", item.Kind, item.Name, len(item.Raw))
				}
			}
		}
		for _, item := range r.Record.Snapshot.Items {
			if item.Stated == nil {
				t.Errorf("%s %s states nothing", item.Kind, item.Name)
			}
		}
		var proposed []string
		for _, line := range r.Record.Proposal().Tools {
			proposed = append(proposed, fmt.Sprintf("%s as %s", line.Tool, line.Class))
		}
		if want := []string{"forecast as read", "radar as shared_write"}; !slices.Equal(proposed, want) {
			t.Errorf("proposed is %q, want %q", proposed, want)
		}
	})
}

// A request has an address that stays when the server goes on.
func TestARequestIsFoundByItsDigest(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		s := w.register("weather")
		if _, err := w.Asked(ctx, "weather", ""); registry.ReasonOf(err) != registry.ReasonApprovalNotFound {
			t.Errorf("before a discovery: %v", err)
		}
		s = w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
		before := s.Review.Digest
		s = w.discover(s.ServerID, surface("forecast", "alerts"))
		for digest, want := range map[string]string{"": s.Review.Digest, s.Review.Digest: s.Review.Digest, before: before} {
			got, err := w.Asked(ctx, "weather", digest)
			if err != nil || got.Version.Pair != want || got.Server.ServerID != s.ServerID {
				t.Errorf("%q: %+v, %v", digest, got.Version, err)
			}
			if decided := len(got.Decisions); (decided == 1) != (want == before) {
				t.Errorf("%q has %d decisions", digest, decided)
			}
		}
		if _, err := w.Asked(ctx, "weather", "sha256:none"); registry.ReasonOf(err) != registry.ReasonApprovalNotFound {
			t.Errorf("of nothing: %v", err)
		}
	})
}
