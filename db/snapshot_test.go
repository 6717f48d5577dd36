package db_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"countersign/db"
	"countersign/registry"
)

func TestASnapshotIsReadAsItWasSaved(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		ctx, w := t.Context(), newWorld(t, d, "acme")
		s := surface("b", "a", "A", "Ä", "_", "a-b", "a.b")
		s.Quirks = []string{"slow"}
		s.Templates = [][]byte{[]byte(`{"uriTemplate":"x://{y}","name":"y","description":"it's \\ \"quoted\" \n"}`)}
		snap := w.snapshot(s)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := w.SaveSnapshot(ctx, snap); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := w.Snapshot(ctx, snap.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(snap, got, cmpopts.IgnoreFields(registry.Item{}, "Raw")); diff != "" {
			t.Error(diff)
		}
		if got.ToolsDigest() != snap.ToolsDigest() {
			t.Error("the order of the tools is another")
		}
		var digests []string
		for _, item := range snap.Items {
			digests = append(digests, item.Definition())
		}
		definitions, err := w.Definitions(ctx, append(digests, "sha256:none"))
		if err != nil || len(definitions) != len(digests) {
			t.Fatalf("%d definitions: %v", len(definitions), err)
		}
		for _, item := range snap.Items {
			if diff := cmp.Diff(string(item.Raw), string(definitions[item.Definition()])); diff != "" {
				t.Error(diff)
			}
		}
		// The same content as other bytes: the first snapshot stays, the bytes are kept beside.
		s.Tools[0] = []byte(strings.Replace(string(s.Tools[0]), "{", "{ ", 1))
		other := w.snapshot(s)
		if other.Digest != snap.Digest {
			t.Fatal("white space counts")
		}
		if err := w.SaveSnapshot(ctx, other); err != nil {
			t.Fatal(err)
		}
		item, _ := other.Find(registry.KindTool, "b")
		if definitions, err := w.Definitions(ctx, []string{item.Definition()}); err != nil || len(definitions) != 1 {
			t.Errorf("%d definitions: %v", len(definitions), err)
		}
		_, err = w.Snapshot(ctx, "sha256:none")
		refused(t, err, registry.ReasonNothingDiscovered)
	})
}

// Names and texts of strangers that databases do not like are kept, or shown
// as something they do like; they never fail a discovery.
func TestHostileCatalogsAreKept(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		server := w.register("hostile")
		long := strings.Repeat("é-long ", 1000)
		names := []string{
			"plain", `quo'te"s\`, "?", "?0", "null\\u0000byte", "null\\u0000byte2", "lone\\ud800", "bidi\\u202e", "emoji\U0001f600", "a b", "a/b", " a",
			long + "1", long + "2", "$1", "'; DROP TABLE tools; --", "same", "same", strings.Repeat("x", 128),
		}
		s := registry.Surface{
			ProtocolVersion: "2026-07-28", Name: "n\x00ul", Version: "\xff\xfe", Instructions: "in\x00structions \xff", Kinds: []string{"tools"},
		}
		for _, name := range names {
			name = strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`)
			name = strings.ReplaceAll(name, `\\u`, `\u`)
			s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":"%s","title":"it's ?","description":"\\ \u0027","inputSchema":{"type":"object"}}`, name))
		}
		got := w.discover(server.ServerID, s)
		if want := len(names) - 1; got.Discovery.Counts.Total != want || got.Discovery.Counts.New != want {
			t.Fatalf("counts: %+v, want %d", got.Discovery.Counts, want)
		}
		before, err := w.Capabilities(t.Context(), "hostile", true)
		if err != nil || len(before.Tools) != len(names)-1 {
			t.Fatalf("%d tools: %v", len(before.Tools), err)
		}
		for _, tool := range before.Tools {
			if item, found := before.Snapshot.Find(registry.KindTool, tool.ExternalID); !found || len(item.Raw) == 0 {
				t.Errorf("tool %.40q is not in the snapshot", tool.ExternalID)
			}
			found, err := w.Resolve(t.Context(), []string{tool.ToolID})
			if err != nil || found[tool.ToolID] == nil || found[tool.ToolID].Tool.ExternalID != tool.ExternalID {
				t.Errorf("tool %.40q is not found by its id: %v", tool.ExternalID, err)
			}
		}
		// Met again with one tool more, nothing of it is new.
		s.Tools = append(s.Tools, surface("more").Tools[0])
		got = w.discover(server.ServerID, s)
		want := registry.Counts{New: 1, Unchanged: len(names) - 1, Total: len(names)}
		if diff := cmp.Diff(want, got.Discovery.Counts); diff != "" {
			t.Error(diff)
		}
		s.Tools = s.Tools[len(s.Tools)-1:]
		if got = w.discover(server.ServerID, s); got.Discovery.Counts.Total != 1 {
			t.Errorf("counts: %+v", got.Discovery.Counts)
		}
		tools, _, total, err := w.Tools(t.Context(), db.ToolQuery{Page: db.Page{Size: 5}})
		if err != nil || total != len(names) || len(tools) != 5 {
			t.Errorf("%d of %d tools: %v", len(tools), total, err)
		}
	})
}

// A resource's URI may be longer than an index can hold.
func TestLongURIsAreBound(t *testing.T) {
	engines(t, func(t on) {
		d := t.db
		w := newWorld(t, d, "acme")
		uri := func(end string) string { return "file:///" + strings.Repeat("ü", 2000) + end }
		s := surface("x")
		for _, end := range []string{"1", "2"} {
			s.Resources = append(s.Resources, fmt.Appendf(nil, `{"uri":%q,"name":"n"}`, uri(end)))
		}
		server := w.discover(w.register("long").ServerID, s)
		op := named("approve")
		w.must(w.Apply(t.Context(), db.Change{
			ServerID: server.ServerID, Operation: op, Catalog: func(*registry.Server) bool { return true },
			Apply: approving(op, registry.Approval{
				Digest: server.Review.Digest, Resources: []registry.ResourceLine{{URI: uri("1"), SourceID: "one"}, {URI: uri("2"), SourceID: "two"}},
			}),
		}))
		c, err := w.Capabilities(t.Context(), "long", false)
		if err != nil || len(c.Resources) != 2 {
			t.Fatalf("%d resources: %v", len(c.Resources), err)
		}
		for _, r := range c.Resources {
			if want := map[string]string{uri("1"): "one", uri("2"): "two"}[r.ResourceURI]; r.SourceID != want {
				t.Errorf("…%s is bound to %s, want %s", r.ResourceURI[len(r.ResourceURI)-1:], r.SourceID, want)
			}
		}
	})
}
