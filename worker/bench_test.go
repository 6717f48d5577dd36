package worker_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

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
