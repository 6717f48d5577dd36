package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

func TestACommandIsKeptUnderItsTarget(t *testing.T) {
	engines(t, func(t on) {
		acme, globex := newWorld(t, t.db, "acme"), newWorld(t, t.db, "globex")
		command := registry.Command{
			Ref: "files", Argv: []string{"/usr/bin/node", "--root", "/srv/a b", "", "é\"\\"}, Image: "/images/node", Dir: "/srv",
			Env: map[string]string{"KEY": "env:FILES_KEY", "CA": "file:ca.pem"}, Network: true, Sandbox: registry.SandboxBubblewrap,
			Mounts: []string{"/srv/shared", "/etc/a b"},
		}
		register := func(w *world, name string) registry.Server {
			g := w.registration(name)
			g.Transport, g.URL, g.CommandRef, g.Command = registry.TransportStdio, "", "files", &command
			return w.must(w.Register(t.Context(), g, named("register"), nil))
		}
		first, second := register(acme, "files"), register(acme, "files2")
		if first.TargetDigest != second.TargetDigest || first.Launch.Status != registry.LaunchPending || first.EndpointRef != "" {
			t.Fatalf("%+v", first)
		}
		kept := func(w *world, target string) *registry.Command {
			t.Helper()
			got, err := w.Command(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if diff := cmp.Diff(&command, kept(acme, first.TargetDigest)); diff != "" {
			t.Errorf("kept: %s", diff)
		}
		if got := kept(globex, first.TargetDigest); got != nil {
			t.Errorf("another tenant reads %+v", got)
		}
		view, err := acme.Server(t.Context(), first.ServerID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&command, view.Command); diff != "" {
			t.Errorf("shown: %s", diff)
		}
		if got := registry.TargetOf(&view.Server, view.Connection, view.Command).Digest(); got != first.TargetDigest {
			t.Errorf("what was kept makes the target %s, not %s", got, first.TargetDigest)
		}

		launched := acme.must(acme.change(first.ServerID, "approve_launch", func(r *registry.Record, now time.Time) error {
			return r.Decide(registry.Ruling{Verb: registry.VerbApproveLaunch, Digest: first.TargetDigest}, named("approve_launch"), now)
		}))
		if launched.LaunchPending() || launched.Discovery.Number != 1 {
			t.Errorf("launched: %+v", launched)
		}
		discovered := acme.discover(first.ServerID, surface("read"))
		acme.approve(discovered, "read")
		resolved, err := acme.Resolve(t.Context(), []string{"files.read"})
		if err != nil || resolved["files.read"] == nil || resolved["files.read"].Denial != nil {
			t.Fatalf("resolved: %+v %v", resolved["files.read"], err)
		}
		page, _, err := t.db.System().ProbePage(t.Context(), "", 10)
		if err != nil || len(page) != 1 || page[0].Command == nil || page[0].Command.Argv[2] != "/srv/a b" {
			t.Errorf("to be probed: %+v %v", page, err)
		}

		other := command
		other.Argv = []string{"/usr/bin/node", "--root", "/"}
		edited := acme.must(acme.change(first.ServerID, "edit", func(r *registry.Record, now time.Time) error {
			return r.Edit(registry.Edit{CommandRef: &other.Ref, Command: &other}, named("edit"), now)
		}))
		if edited.TargetDigest == first.TargetDigest || !edited.LaunchPending() {
			t.Errorf("edited: %+v", edited)
		}
		if diff := cmp.Diff(&other, kept(acme, edited.TargetDigest)); diff != "" {
			t.Errorf("kept after the edit: %s", diff)
		}
		if diff := cmp.Diff(&command, kept(acme, first.TargetDigest)); diff != "" {
			t.Errorf("what was approved before is no longer known: %s", diff)
		}
		resolved, err = acme.Resolve(t.Context(), []string{"files.read"})
		if err != nil || resolved["files.read"].Denial == nil {
			t.Errorf("resolved after the edit: %+v %v", resolved["files.read"], err)
		}
		acme.must(acme.change(second.ServerID, "retire", func(r *registry.Record, now time.Time) error {
			return r.Retire(named("retire"), "", now)
		}))
	})
}
