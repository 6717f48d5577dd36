package registry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign/registry"
)

func TestAMemoSaysWhatDecodingSays(t *testing.T) {
	t.Parallel()
	var memo registry.Memo
	limits := registry.DefaultLimits()
	list := func(names ...string) [][]byte {
		var out [][]byte
		for _, name := range names {
			out = append(out, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
		}
		return out
	}
	small := limits
	small.ItemBytes = 10
	for round := range 3 {
		for i, c := range []struct {
			tools  [][]byte
			limits registry.Limits
		}{
			{list("a", "b"), limits},
			{list("b", "a"), limits},
			{list("a", "b"), small},
			{list("ab"), limits},
			{nil, limits},
			{[][]byte{[]byte(`{`)}, limits},
		} {
			want, wantErr := registry.ToolsDigest(c.tools, c.limits)
			got, err := memo.ToolsDigest(c.tools, c.limits)
			if got != want || registry.ReasonOf(err) != registry.ReasonOf(wantErr) {
				t.Errorf("round %d, list %d: %s, %v, want %s, %v", round, i, got, err, want, wantErr)
			}
		}
	}
}

func TestASurfaceThatIsHeldAlreadyIsNotDecoded(t *testing.T) {
	t.Parallel()
	var memo registry.Memo
	limits, now := registry.DefaultLimits(), time.Unix(1, 0)
	surface := captured(t, "everything@2026.1.26")
	first, decoded, err := memo.Snapshot(surface, limits, now, "")
	if err != nil || !decoded || len(first.Items) == 0 {
		t.Fatal(decoded, err)
	}
	surface.Version = "later"
	if again, decoded, err := memo.Snapshot(surface, limits, now, first.Digest); err != nil || decoded || again.Digest != first.Digest ||
		again.ServerVersion != "later" || again.TextDigest != first.TextDigest || len(again.Items) != 0 {
		t.Errorf("%v, %v, %+v", decoded, err, again)
	}
	if other, decoded, err := memo.Snapshot(surface, limits, now, "another digest"); err != nil || !decoded || len(other.Items) != len(first.Items) {
		t.Errorf("somebody who holds another snapshot needs this one whole: %v, %v", decoded, err)
	}
	surface.Instructions += "!"
	if changed, decoded, err := memo.Snapshot(surface, limits, now, first.Digest); err != nil || !decoded || changed.Digest == first.Digest {
		t.Errorf("other instructions are not noticed: %v, %v", decoded, err)
	}
	if _, _, err := memo.Snapshot(registry.Surface{Tools: [][]byte{[]byte("7")}}, limits, now, ""); registry.ReasonOf(err) != registry.ReasonMalformedList {
		t.Error(err)
	}
}

func TestAMemoIsUsedBySeveralAtOnceAndDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	var memo registry.Memo
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 20_000 {
				tools := [][]byte{fmt.Appendf(nil, `{"name":"t%d","inputSchema":{"type":"object"}}`, g*20_000+i)}
				if _, err := memo.ToolsDigest(tools, registry.DefaultLimits()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := memo.Len(); n > 50_000 || n < 25_000 {
		t.Errorf("%d lists are remembered", n)
	}
}
