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

	"countersign/db/dbtest"
)

// crowd is how many callers of the noisy tenant register at once.
const crowd = 16

// BenchmarkANoisyNeighbour (B24) has one tenant register servers as fast as it is let,
// sixteen callers at once, while another resolves a tool and reads a server, by one api
// and one worker around one Postgres. It reports the 95th percentile of each without
// and with the neighbour. One round takes some milliseconds, so ask for a few hundred:
// -benchtime 400x.
func BenchmarkANoisyNeighbour(b *testing.B) {
	both := []string{"resolve", "read"}
	b.Run("limits=default", func(b *testing.B) { neighbours(b, both, false) })
	b.Run("limits.concurrent=2", func(b *testing.B) {
		neighbours(b, both, false, "COUNTERSIGN_LIMITS_CONCURRENT=2")
	})
	changes := func(perSecond string) []string {
		return []string{"COUNTERSIGN_LIMITS_CHANGES_REQUESTS_PER_SECOND=" + perSecond, "COUNTERSIGN_LIMITS_CHANGES_BURST=10"}
	}
	b.Run("limits.changes=5/s", func(b *testing.B) { neighbours(b, both, false, changes("5")...) })
	b.Run("limits.changes=2/s", func(b *testing.B) { neighbours(b, both, false, changes("2")...) })
	// As docs/operate.md advises: worker and Temporal keep off the api's processors.
	b.Run("limits=default,apart", func(b *testing.B) { neighbours(b, both, true) })
	b.Run("limits.changes=5/s,apart", func(b *testing.B) { neighbours(b, both, true, changes("5")...) })
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
	rounds := func(n int) map[string]time.Duration {
		took := map[string][]time.Duration{}
		for range n {
			for _, name := range names {
				begin := time.Now()
				if err := calls[name](b.Context()); err != nil {
					b.Fatal(err)
				}
				took[name] = append(took[name], time.Since(begin))
			}
		}
		p95 := map[string]time.Duration{}
		for name, all := range took {
			slices.Sort(all)
			p95[name] = all[len(all)*95/100]
		}
		return p95
	}
	rounds(10) // what is remembered is remembered from here on
	idle := rounds(b.N)

	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var registered, refused atomic.Int64
	var all sync.WaitGroup
	for one := range crowd {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("noisy-%d-%d", one, n)
				if _, err := noisy.register(ctx, name, name, d.demoURL()); err == nil {
					registered.Add(1)
					continue
				}
				refused.Add(1)
				time.Sleep(20 * time.Millisecond) // it does not wait as long as it is told to
			}
		})
	}
	time.Sleep(5 * time.Second) // until it is in full swing, and beyond its burst
	before, denied := registered.Load(), refused.Load()
	b.ResetTimer()
	loud := rounds(b.N)
	b.StopTimer()
	b.ReportMetric(float64(registered.Load()-before)/b.Elapsed().Seconds(), "registered/s")
	b.ReportMetric(float64(refused.Load()-denied)/b.Elapsed().Seconds(), "refused/s")
	stop()
	all.Wait()
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
