package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"countersign/mcptest"
	"countersign/registry"
	"countersign/workflows"
)

// BenchmarkRegistrationUntilVerified registers servers and waits until each is
// verified, eight at a time, with engine, worker, database and the MCP peer in
// this process (Postgres outside). It reports CPU per registration and the
// history events of both workflows.
func BenchmarkRegistrationUntilVerified(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			h := newHouse(b, kind)
			peer := offers(b, "a", "b", "c")
			verified := func(name string) {
				h.register(name, peer.URL)
				h.is(name, registry.StateVerified)
			}
			verified("warm")
			names := make(chan string)
			var wait sync.WaitGroup
			for range 8 {
				wait.Go(func() {
					for name := range names {
						verified(name)
					}
				})
			}
			before := cpu(b)
			n := 0
			for b.Loop() {
				names <- fmt.Sprintf("server-%d", n)
				n++
			}
			close(names)
			wait.Wait()
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "servers/s")
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(n), "cpu-ms/server")
			id := h.get("warm").ServerID
			b.ReportMetric(float64(h.events(workflows.ServerWorkflowID("default", "warm"))+h.events(workflows.DiscoveryWorkflowID("default", id, 1))), "events/server")
		})
	}
}

// cpu is the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// events counts the events of a workflow's history.
func (h *house) events(id string) int {
	h.Helper()
	n := 0
	for events := h.temporal.GetWorkflowHistory(context.Background(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); n++ {
		if _, err := events.Next(); err != nil {
			h.Fatal(err)
		}
	}
	return n
}

// BenchmarkQuietDiscovery discovers a server of 10,000 tools of 2 kB in 100
// pages again and again, which are as they were. It reports CPU per discovery,
// that of the peer in this process included.
func BenchmarkQuietDiscovery(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			h := newHouse(b, kind)
			pages := make([][]string, 100)
			for i := range 10_000 {
				pages[i/100] = append(pages[i/100], tool(fmt.Sprintf("tool_%05d", i), strings.Repeat("Reads what is there. ", 93)))
			}
			peer := mcptest.New(b, mcptest.Script{})
			peer.Edit(func(s *mcptest.Script) { s.List("tools/list", mcptest.Pages(pages...)) })
			h.register("demo", peer.URL)
			h.is("demo", registry.StateVerified)
			h.discover("demo") // what is remembered is remembered from here on
			before := cpu(b)
			n := 0
			for b.Loop() {
				h.discover("demo")
				n++
			}
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(n), "cpu-ms/discovery")
		})
	}
}
