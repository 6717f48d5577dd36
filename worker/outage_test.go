package worker_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"countersign/embedded"
	"countersign/worker"
	"countersign/workflows"
)

// S7: after an outage that is longer than the catch-up window, the windows
// before it are missed for good: no storm of probes makes them up.
func TestAnOutageOfTheEngineIsNotMadeUpByAStorm(t *testing.T) {
	t.Parallel()
	const interval = time.Second // the catch-up window is then 10 s
	options := embedded.Options{
		DatabaseFile: filepath.Join(t.TempDir(), "temporal.db"), SearchAttributes: worker.SearchAttributes(), Logger: quiet(),
	}
	for _, restarted := range []bool{false, true} {
		engine, err := embedded.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := worker.Dial(worker.Address{HostPort: engine.Address()}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.EnsureSchedule(t.Context(), c, nil, interval); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for done := false; !done; time.Sleep(100 * time.Millisecond) {
			d, err := c.ScheduleClient().GetHandle(ctx, workflows.ScheduleProbe).Describe(ctx)
			if err != nil {
				t.Fatal(err)
			}
			missed := d.Info.NumActionsMissedCatchupWindow
			if !restarted && missed > 0 {
				t.Errorf("%d windows missed before the outage", missed)
			}
			done = !restarted || missed > 0
		}
		cancel()
		c.Close()
		if err := engine.Stop(); err != nil {
			t.Fatal(err)
		}
		if !restarted {
			time.Sleep(14 * time.Second) // the outage itself
		}
	}
}
