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

func shared(name string) registry.Connection {
	return registry.Connection{
		Name: name, URL: "https://" + name + ".example/mcp", DialAddress: "10.0.0.1:443", Description: "for all", AuthKind: registry.AuthKindHeaders,
		Headers: map[string]string{"Authorization": "env:TOKEN"}, AllowedNetworks: []string{"10.0.0.0/8"}, CABundle: "a bundle",
		ClientCertificateRef: "file:c.pem", ClientKeyRef: "file:k.pem", Issuer: "https://as.example", ClientID: "us", SecretRef: "env:S",
		Scopes: []string{"a", "b"}, TokenEndpoint: "https://tokens.example/token", StepUpScopes: []string{"c"},
	}
}

func (w *world) connect(name string) registry.Connection {
	w.tb.Helper()
	c, _, err := w.CreateConnection(w.tb.Context(), shared(name), named("create_connection"), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return c
}

func fine(registry.Connection) error { return nil }

func (w *world) repoint(name, url string) registry.Connection {
	w.tb.Helper()
	c, _, err := w.EditConnection(w.tb.Context(), name, registry.ConnectionEdit{URL: &url}, named("edit_connection"), nil, fine)
	if err != nil {
		w.tb.Fatal(err)
	}
	return c
}

func (w *world) uses(server, connection string) registry.Server {
	w.tb.Helper()
	g := w.registration(server)
	g.URL, g.ConnectionName = "", connection
	return w.must(w.Register(w.tb.Context(), g, named("register"), nil))
}

// takes brings the newest version of a connection to a server.
func (w *world) takes(s registry.Server, connection string) registry.Server {
	w.tb.Helper()
	op := named("take_connection")
	return w.must(w.Apply(w.tb.Context(), db.Change{
		ServerID: s.ServerID, Operation: op, Connection: connection, Catalog: func(*registry.Server) bool { return true },
		Apply: func(r *registry.Record, now time.Time) error { return r.TakeConnection(op, now) },
	}))
}

func TestConnectionsHaveVersionsThatNeverChange(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		first := w.connect("search")
		if first.Version != 1 || first.CreatedBy != "ann" || first.CreatedAt.IsZero() || first.TenantID != "acme" {
			t.Errorf("%+v", first)
		}
		view, err := w.ConnectionView(ctx, "search", 0)
		if diff := cmp.Diff(first, view.Connection); diff != "" || err != nil || !view.Newest {
			t.Errorf("read: %v %s", err, diff)
		}
		second := w.repoint("search", "https://other.example/mcp")
		want := shared("search")
		want.URL, want.Version, want.TenantID, want.CreatedAt, want.CreatedBy = "https://other.example/mcp", 2, "acme", second.CreatedAt, "ann"
		if diff := cmp.Diff(want, second); diff != "" {
			t.Errorf("edited: %s", diff)
		}
		if old, err := w.Connection(ctx, "search", 1); err != nil || old.URL != first.URL {
			t.Errorf("version 1: %+v, %v", old, err)
		}
		// An edit that changes nothing makes no version.
		before := traces(t, t.db)
		if c := w.repoint("search", "https://other.example/mcp"); c.Version != 2 {
			t.Errorf("version %d", c.Version)
		}
		if diff := cmp.Diff(more(before, map[string]int{"applied_operations": 1}), traces(t, t.db)); diff != "" {
			t.Errorf("traces: %s", diff)
		}
		_, _, err = w.EditConnection(ctx, "search", registry.ConnectionEdit{Etag: first.Etag(), URL: new("https://third.example/")}, named("edit_connection"), nil, fine)
		refused(t, err, registry.ReasonStaleEtag)
		wrong := registry.Errorf(registry.ReasonInvalidArgument, "it is wrong")
		_, _, err = w.EditConnection(ctx, "search", registry.ConnectionEdit{URL: new("wrong")}, named("edit_connection"), nil, func(registry.Connection) error { return wrong })
		refused(t, err, registry.ReasonInvalidArgument)
		_, _, err = w.CreateConnection(ctx, shared("search"), named("create_connection"), nil)
		refused(t, err, registry.ReasonConnectionExists)
		_, _, err = w.EditConnection(ctx, "none", registry.ConnectionEdit{}, named("edit_connection"), nil, fine)
		refused(t, err, registry.ReasonConnectionNotFound)
		for _, statement := range []string{"UPDATE connections SET url = ''", "DELETE FROM connections"} {
			if _, err := raw(t, t.db).ExecContext(ctx, statement); err == nil {
				t.Errorf("%s went through", statement)
			}
		}

		// One that belongs to a server is the server's to change.
		s := w.register("weather")
		_, _, err = w.EditConnection(ctx, s.ServerID, registry.ConnectionEdit{URL: new("https://third.example/")}, named("edit_connection"), nil, fine)
		refused(t, err, registry.ReasonConnectionOwned)
		refused(t, w.DeleteConnection(ctx, s.ServerID, "", named("delete_connection")), registry.ReasonConnectionOwned)
	})
}

func TestAChangeOfAConnectionIsMadeOnce(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		op, claim := named("create_connection"), &db.Claim{Operation: "create_connection", Key: "k", BodyHash: "b"}
		first, replayed, err := w.CreateConnection(ctx, shared("search"), op, claim)
		if err != nil || replayed {
			t.Fatal(replayed, err)
		}
		w.repoint("search", "https://other.example/mcp")
		before := traces(t, t.db)
		for name, again := range map[string]registry.Operation{"operation": op, "key": named("create_connection")} {
			c, replayed, err := w.CreateConnection(ctx, shared("search"), again, claim)
			if diff := cmp.Diff(first, c); err != nil || !replayed || diff != "" {
				t.Errorf("the same %s again: %t %v %s", name, replayed, err, diff)
			}
		}
		_, _, err = w.CreateConnection(ctx, shared("search"), named("create_connection"), &db.Claim{Operation: "create_connection", Key: "k", BodyHash: "other"})
		refused(t, err, registry.ReasonIdempotencyKeyReused)
		if diff := cmp.Diff(more(before, map[string]int{"audit": 1}), traces(t, t.db)); diff != "" {
			t.Errorf("traces: %s", diff)
		}

		// Who writes at once makes versions one after the other.
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() { w.repoint("search", fmt.Sprintf("https://h%d.example/mcp", i)) })
		}
		group.Wait()
		views, _, total, err := w.ConnectionVersions(ctx, "search", db.Page{Size: 3})
		if err != nil || total != 10 || len(views) != 3 || views[0].Version != 10 || !views[0].Newest || views[1].Newest {
			t.Errorf("%d versions, %v: %+v", total, err, views)
		}
		audit, _, err := w.Audit(ctx, db.AuditQuery{ObjectID: "search"})
		if err != nil || len(audit) != 11 || audit[0].ObjectKind != "connection" { // one of them of what was refused
			t.Errorf("%d audit rows, %v", len(audit), err)
		}
	})
}

// Cases H: what was approved at one address is not approved at another, and the
// edit, the pin and the unbinding are one transaction of the server's.
func TestServersTakeTheNewestVersionOfTheirConnection(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		w.connect("search")
		one, two := w.uses("one", "search"), w.uses("two", "search")
		if one.EndpointRef != "search@1" {
			t.Fatalf("registered at %s", one.EndpointRef)
		}
		one = w.approve(w.discover(one.ServerID, surface("find")), "find")
		approved := one.TargetDigest
		w.resolves("one.find", "")

		w.repoint("search", "https://other.example/mcp")
		// Until a server has taken it, the version counts that it pins.
		w.resolves("one.find", "")
		if v, err := w.Server(ctx, "one"); err != nil || v.Connection.Version != 1 {
			t.Errorf("it pins %d, %v", v.Connection.Version, err)
		}
		names := func() (out []string) {
			users, err := w.ConnectionUsers(ctx, "search", 2, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range users {
				out = append(out, u.Name)
			}
			return out
		}
		if got := names(); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("users: %v", got)
		}
		refused(t, w.DeleteConnection(ctx, "search", "", named("delete_connection")), registry.ReasonConnectionInUse)

		one = w.takes(one, "search")
		if one.EndpointRef != "search@2" || one.TargetDigest == approved {
			t.Errorf("it is at %s", one.EndpointRef)
		}
		w.resolves("one.find", registry.ReasonSchemaChanged)
		if got := names(); !slices.Equal(got, []string{"two"}) {
			t.Errorf("users: %v", got)
		}
		// The same list there is not what was approved here.
		one = w.discover(one.ServerID, surface("find"))
		w.resolves("one.find", registry.ReasonSchemaChanged)
		r, err := w.Review(ctx, "one")
		if err != nil || r.ApprovedTarget == nil || r.ApprovedTarget.URL != "https://search.example/mcp" || r.ApprovedTarget.Headers["Authorization"] != "env:TOKEN" {
			t.Errorf("the approved target: %+v, %v", r.ApprovedTarget, err)
		}
		views, _, _, err := w.ConnectionVersions(ctx, "search", db.Page{})
		if err != nil || len(views) != 2 || views[0].Servers != 1 || views[1].Servers != 1 || views[0].Users != 2 {
			t.Errorf("versions: %+v, %v", views, err)
		}

		two = w.takes(two, "search")
		for _, s := range []registry.Server{one, two} {
			w.must(w.change(s.ServerID, "retire", func(r *registry.Record, now time.Time) error { return r.Retire(named("retire"), "", now) }))
		}
		if err := w.DeleteConnection(ctx, "search", `"2"`, named("delete_connection")); err != nil {
			t.Fatal(err)
		}
		_, err = w.ConnectionView(ctx, "search", 0)
		refused(t, err, registry.ReasonConnectionNotFound)
		g := w.registration("three")
		g.URL, g.ConnectionName = "", "search"
		_, err = w.Register(ctx, g, named("register"), nil)
		refused(t, err, registry.ReasonConnectionNotFound)
		// What it was stays, and the name is free.
		if v, err := w.Connection(ctx, "search", 1); err != nil || v.URL != "https://search.example/mcp" {
			t.Errorf("version 1: %+v, %v", v, err)
		}
		if c := w.connect("search"); c.Version != 4 {
			t.Errorf("made again as version %d", c.Version)
		}
	})
}

func TestAServerMovesToAnotherConnection(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		s := w.register("weather")
		w.connect("search")
		move := func(name string) (db.Applied, error) {
			op := named("edit")
			return w.Apply(ctx, db.Change{
				ServerID: s.ServerID, Operation: op, Connection: name, Catalog: func(*registry.Server) bool { return true },
				Apply: func(r *registry.Record, now time.Time) error {
					return r.Edit(registry.Edit{ConnectionName: &name}, op, now)
				},
			})
		}
		_, err := move("none")
		refused(t, err, registry.ReasonConnectionNotFound)
		if got := w.must(move("search")); got.EndpointRef != "search@1" || got.TargetDigest == s.TargetDigest {
			t.Errorf("it is at %s", got.EndpointRef)
		}
		v, err := w.Server(ctx, "weather")
		if err != nil || v.Connection.URL != "https://search.example/mcp" || v.Connection.CABundle != "a bundle" {
			t.Errorf("%+v, %v", v.Connection, err)
		}
		targets, _, err := t.db.System().ProbePage(ctx, "", 10)
		if err != nil || len(targets) != 0 { // it was never active
			t.Errorf("%d targets, %v", len(targets), err)
		}
	})
}

func TestConnectionsAreListedAndCounted(t *testing.T) {
	engines(t, func(t on) {
		ctx, w := t.Context(), newWorld(t, t.db, "acme")
		for _, name := range []string{"c", "a", "b", "gone"} {
			w.connect(name)
		}
		w.repoint("b", "https://other.example/mcp")
		w.uses("weather", "b")
		w.register("plain")
		if err := w.DeleteConnection(ctx, "gone", "", named("delete_connection")); err != nil {
			t.Fatal(err)
		}
		var got []string
		for after := ""; ; {
			views, next, total, err := w.Connections(ctx, db.Page{Size: 1, After: after})
			if err != nil || total != 3 {
				t.Fatalf("%d, %v", total, err)
			}
			for _, v := range views {
				got = append(got, fmt.Sprintf("%s %d", v.Ref(), v.Users))
			}
			if after = next; after == "" {
				break
			}
		}
		if diff := cmp.Diff("a@1 0, b@2 1, c@1 0", strings.Join(got, ", ")); diff != "" {
			t.Error(diff)
		}
		t.db.SetQuotas(registry.Quotas{Connections: 3})
		_, _, err := w.CreateConnection(ctx, shared("d"), named("create_connection"), nil)
		refused(t, err, registry.ReasonQuotaExceeded)
		w.repoint("a", "https://other.example/mcp") // what is there is not held to it
	})
}
