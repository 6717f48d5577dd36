package policy_test

import (
	"fmt"
	"testing"
	"time"

	"countersign/policy"
	"countersign/registry"
)

// What resolve pays for each call: ten rules, of which none denies.
func BenchmarkCall(b *testing.B) {
	p := load(b, callRules)
	server := &policy.Server{Name: "wiki", Labels: map[string]string{"team": "a", "tier": "gold"}, Transport: registry.TransportStreamableHTTP}
	call := policy.Call{
		Server: server, ToolID: "wiki.publish", Tool: "publish", Class: registry.ClassPublication, Agent: "docs-bot", Workspace: "w",
		Now: time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC),
	}
	b.ReportAllocs()
	for b.Loop() {
		if v := p.Call(call); v.Denial() != nil {
			b.Fatal(v)
		}
	}
}

func BenchmarkCallByDefault(b *testing.B) {
	p, server := policy.Default(), &policy.Server{}
	for b.Loop() {
		if v := p.Call(policy.Call{Server: server, Class: registry.ClassRead}); v.Denial() != nil {
			b.Fatal(v)
		}
	}
}

func BenchmarkApproveByDefault(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("tools=%d", n), func(b *testing.B) {
			in := approval([]registry.Vote{vote("bob", registry.RolePlatformAdmin)})
			for i := range n {
				in.Items = append(in.Items, policy.Item{Name: fmt.Sprint("tool", i), Class: registry.ClassRead, Annotations: map[string]bool{"readOnlyHint": true}})
			}
			p := policy.Default()
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Approve(in); v.Tally(in.Votes).Status != registry.TallyApproved {
					b.Fatal(v)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	document := policy.DefaultDocument()
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		if _, err := policy.Load(document); err != nil {
			b.Fatal(err)
		}
	}
}
