package registry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// What stood in the review is part of the record of the approval, and so is what
// nobody could check.
func TestAnApprovalKeepsWhatWasShown(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.seesSurface(registry.Surface{
		ProtocolVersion: "2026-07-28", Kinds: []string{"tools", "prompts"},
		Tools: [][]byte{
			[]byte(`{"name":"a","description":"plain","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
			[]byte("{\"name\":\"b\",\"description\":\"hid\u200bden\",\"inputSchema\":{\"type\":\"object\"}}"),
			[]byte(`{"name":"c","description":"broken","inputSchema":null}`),
		},
		Prompts: [][]byte{[]byte(`{"name":"greet"}`)},
	})
	l.approves("a")
	if diff := cmp.Diff(&registry.Shown{
		Kind: registry.ReviewFirst, Quarantined: 1, Gaps: []registry.Gap{registry.GapToolBehaviour},
	}, l.last.Decision.Evidence.Shown); diff != "" {
		t.Error(diff)
	}
	compared := l.r.Server.ApprovedSnapshot
	l.must(func(now time.Time) error {
		return l.r.Decide(registry.Ruling{Verb: registry.VerbRequestReview}, l.op("request_review"), now)
	})
	if err := l.votes(admin, "seen", "a", "b"); err != nil {
		t.Fatal(err)
	}
	shown := l.last.Decision.Evidence.Shown
	if shown == nil || shown.Kind != registry.ReviewAgain || shown.Compared != compared || len(shown.Hinted) != 1 || shown.Hinted[0].Name != "b" || len(shown.Hinted[0].Hints) == 0 {
		t.Fatalf("%+v", shown)
	}
	if diff := cmp.Diff([]registry.Gap{registry.GapToolBehaviour, registry.GapHintsMissing}, shown.Gaps); diff != "" {
		t.Error(diff)
	}
	for _, g := range registry.Gaps() {
		if g.Means() == "" {
			t.Errorf("%s is not explained", g)
		}
	}
}
