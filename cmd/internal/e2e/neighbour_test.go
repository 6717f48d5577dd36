package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/cmd/internal/config"
	"countersign/db/dbtest"
)

// crowd is how many callers of the noisy tenant register at once.
const crowd = 16

// BenchmarkANoisyNeighbour (B24) has one tenant ask for registrations as fast as it is
// let, sixteen callers at once who do not wait as they are told, while another resolves
// a tool and reads a server, by one api and one worker around one Postgres. An operation
// is one request of the noisy tenant, so -benchtime 10000x is ten thousand of them. It
// reports the 95th percentile of each call of the other, before the noise and from its
// first request to its last.
func BenchmarkANoisyNeighbour(b *testing.B) {
	both := []string{"resolve", "read"}
	usual := config.Default().Limits.Changes
	changes := func(perSecond float64) []string {
		return []string{fmt.Sprintf("COUNTERSIGN_LIMITS_CHANGES_REQUESTS_PER_SECOND=%g", perSecond), fmt.Sprintf("COUNTERSIGN_LIMITS_CHANGES_BURST=%d", usual.Burst)}
	}
	b.Run("limits=default", func(b *testing.B) { neighbours(b, both, false, changes(usual.RequestsPerSecond)...) })
	b.Run("limits.changes=5/s", func(b *testing.B) { neighbours(b, both, false, changes(5)...) })
	b.Run("limits.changes=none", func(b *testing.B) { neighbours(b, both, false, changes(0)...) })
	// As docs/operate.md advises: worker and Temporal keep off the api's processors.
	b.Run("limits.changes=5/s,apart", func(b *testing.B) { neighbours(b, both, true, changes(5)...) })
	b.Run("limits.changes=none,apart", func(b *testing.B) { neighbours(b, both, true, changes(0)...) })
}

func neighbours(b *testing.B, names []string, apart bool, env ...string) {
	b.Helper()
	d := newDev(b) // lends its Temporal and its demo server
	d.start(b)
	i := newInstallation(b, d, dbtest.Postgres(b), env...)
	node := i.serve(b, "api")
	worker := i.serve(b, "worker")
	if apart {
		confine(b, d.process)
		confine(b, worker.process)
	}
	calm, noisy := i.caller(node, first), i.caller(node, second)
	bring(b, calm, "calm", d.demoURL(), active)
	calls := map[string]func(context.Context) error{
		"resolve": func(ctx context.Context) error { return calm.callable(ctx, "calm.hash_compute") },
		"read":    func(ctx context.Context) error { _, err := calm.get(ctx, "calm"); return err },
	}
	// p95 calls by turns, one call at a time, while another one is wanted.
	p95 := func(another func(made int) bool) map[string]time.Duration {
		took := map[string][]time.Duration{}
		for made := 0; another(made); made++ {
			for _, name := range names {
				begin := time.Now()
				if err := calls[name](b.Context()); err != nil {
					b.Fatal(err)
				}
				took[name] = append(took[name], time.Since(begin))
			}
			time.Sleep(5 * time.Millisecond) // so that the other tenant's calls are not the load themselves
		}
		of := map[string]time.Duration{}
		for name, all := range took {
			slices.Sort(all)
			of[name] = all[len(all)*95/100]
		}
		return of
	}
	p95(func(made int) bool { return made < 10 }) // what is remembered is remembered from here on
	idle := p95(func(made int) bool { return made < 1000 })

	var sent, registered atomic.Int64
	var all sync.WaitGroup
	over := make(chan struct{})
	b.ResetTimer()
	for range crowd {
		all.Go(func() {
			for n := sent.Add(1); n <= int64(b.N); n = sent.Add(1) {
				name := fmt.Sprintf("noisy-%d", n)
				if _, err := noisy.register(b.Context(), name, name, d.demoURL()); err == nil {
					registered.Add(1)
				}
			}
		})
	}
	go func() { all.Wait(); close(over) }()
	loud := p95(func(int) bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(registered.Load()), "registered")
	b.ReportMetric(float64(registered.Load())/b.Elapsed().Seconds(), "registered/s")
	for _, name := range names {
		b.ReportMetric(float64(idle[name].Microseconds())/1000, name+"-idle-p95-ms")
		b.ReportMetric(float64(loud[name].Microseconds())/1000, name+"-loud-p95-ms")
		b.ReportMetric(float64(loud[name])/float64(idle[name]), name+"-x")
	}
}

// confine leaves a process and all its threads the last processor alone.
func confine(b *testing.B, p *process) {
	b.Helper()
	if runtime.NumCPU() < 2 {
		b.Skip("one processor cannot be shared out")
	}
	out, err := exec.Command("taskset", "--all-tasks", "--cpu-list", "--pid", strconv.Itoa(runtime.NumCPU()-1), strconv.Itoa(p.cmd.Process.Pid)).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}
