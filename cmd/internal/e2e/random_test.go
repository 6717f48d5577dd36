package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// The process is killed wherever it just is, while servers are on their way.
// The seed is in the log of a failure.
func TestLivesGoOnAfterCrashesAnywhere(t *testing.T) {
	t.Parallel()
	const servers, crashes = 12, 4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	d := newDev(t)
	d.interval = time.Second
	d.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*longPatience)
	defer cancel()
	c := d.admin()
	var group errgroup.Group
	names, open := make([]string, servers), make([]string, servers/2)
	for n := range servers {
		s := &story{dev: d, name: fmt.Sprintf("server-%d", n), url: d.demoURL()}
		names[n] = s.name
		way := []func(context.Context, caller, *story) error{activate, reject, move}[n%3]
		group.Go(func() error {
			if err := patiently(ctx, c, s, way); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if n < servers/2 {
				return nil
			}
			return patiently(ctx, c, s, retire)
		})
	}
	for range crashes {
		wait := time.NewTimer(time.Duration(50+chance.IntN(700)) * time.Millisecond)
		<-wait.C
		d.kill()
		d.start(t)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for n := range servers / 2 {
		open[n] = server(names[n])
		if err := eventually(ctx, func() error { return c.callable(ctx, names[n]+".hash_compute") }); err != nil {
			t.Error(err)
		}
	}
	e := dial(t, d.temporal, "default")
	e.awaitOpen(t, open...)
	e.checkSchedules(t)
	e.checkHistories(t)
	d.stop(t)
	l := readSQLite(t, d.database())
	l.check(t)
	for n, name := range names {
		ids := l.named(first, name)
		if len(ids) != 1 {
			t.Errorf("%s is there %d times", name, len(ids))
			continue
		}
		want := map[registry.Verb]int{registry.VerbApprove: 1}
		switch n % 3 {
		case 1:
			want[registry.VerbReject], want[registry.VerbRequestReview] = 1, 1
		case 2:
			want[registry.VerbApprove] = 2
		}
		if diff := cmp.Diff(want, l.decided(ids[0])); diff != "" {
			t.Errorf("the decisions on %s:\n%s", name, diff)
		}
	}
}

// patiently goes a way again when the process died on it.
func patiently(ctx context.Context, c caller, s *story, way func(context.Context, caller, *story) error) error {
	return eventually(ctx, func() error {
		err := way(ctx, c, s)
		if err != nil && !passing(err) {
			return final{err}
		}
		return err
	})
}

// A process that is told to end in the middle of changes answers those that it
// took, soon, and what it acknowledged is there.
func TestAProcessEndsWellInTheMiddle(t *testing.T) {
	t.Parallel()
	const servers = 6
	d := newDev(t)
	d.start(t)
	c := d.admin()
	ids := make([]string, servers)
	for n := range ids {
		ids[n] = bring(t, c, fmt.Sprintf("server-%d", n), d.demoURL(), verified).GetServerId()
	}
	var all sync.WaitGroup
	acknowledged := make([]int, servers)
	for n, id := range ids {
		all.Go(func() {
			for edits := 0; ; edits++ {
				_, err := c.servers.UpdateMcpServer(t.Context(), &pb.UpdateMcpServerRequest{
					ServerId: id, Server: &pb.ServerPatch{Description: fmt.Sprint("edit ", edits)}, UpdateMask: mask("description"),
				})
				if err != nil {
					if infoOf(err) != nil {
						t.Errorf("server %d, edit %d: %v", n, edits, err)
					}
					return
				}
				acknowledged[n]++
			}
		})
	}
	until(t, "changes are under way", patience, func() error {
		if s, err := c.get(t.Context(), ids[0]); err != nil || s.GetVersion() < 10 {
			return fmt.Errorf("version %d: %w", s.GetVersion(), err)
		}
		return nil
	})
	begin := time.Now()
	d.stop(t)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s to end", took)
	}
	all.Wait()
	l := readSQLite(t, d.database())
	l.check(t)
	for n, id := range ids {
		// An edit whose answer was lost may be there too.
		if did := l.did(id)["edit"]; did != acknowledged[n] && did != acknowledged[n]+1 {
			t.Errorf("server %d: %d edits were acknowledged, %d are there", n, acknowledged[n], did)
		}
	}
}
