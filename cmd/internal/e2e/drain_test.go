package e2e

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"countersign/db/dbtest"
	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
)

// A worker that is told to end finishes the activity that runs, when the set time
// allows it, and is cut off when not; it ends well either way, and another one
// goes on.
func TestAWorkerEndsWhatItBegan(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	all := newInstallation(t, d, dbtest.Postgres(t))
	api := all.serve(t, "api")
	who := all.caller(api, first)
	for n, c := range []struct {
		name          string
		fault         mcptest.Fault
		timeout, most time.Duration
		again         bool // the next worker has to ask once more
	}{
		{"an answer that takes three seconds", mcptest.Delay(3 * time.Second), 20 * time.Second, 15 * time.Second, false},
		{"an answer that does not come", mcptest.Hang(), time.Second, 15 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := *all
			i.env = append(slices.Clone(all.env), "COUNTERSIGN_SHUTDOWN_TIMEOUT="+c.timeout.String())
			worker := i.serve(t, "worker")
			var script mcptest.Script
			script.List("tools/list", mcptest.Items(mcptest.Tools(3)...))
			peer := mcptest.New(t, script)
			id := bring(t, who, fmt.Sprint("slow-", n), peer.URL, verified).GetServerId()
			peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", c.fault) })
			asked := peer.Count("tools/list")
			ctx, _ := keyed(t.Context(), fmt.Sprint("discovery ", n))
			_, err := who.servers.DiscoverMcpCapabilities(ctx, &pb.DiscoverMcpCapabilitiesRequest{ServerId: id, Wait: durationpb.New(0)})
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the worker asks for the tools", patience, func() error {
				if peer.Count("tools/list") == asked {
					return errors.New("not yet")
				}
				return nil
			})
			begin := time.Now()
			worker.signal(t, syscall.SIGTERM)
			if code := worker.await(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(begin); took > c.most {
				t.Errorf("it took %s to end", took)
			}
			once := peer.Count("tools/list")
			if !c.again && once != asked+1 {
				t.Errorf("the tools were asked for %d times", once-asked)
			}
			peer.Edit(func(s *mcptest.Script) { s.Fault("tools/list", nil) })
			next := i.serve(t, "worker")
			defer next.stop(t)
			until(t, "the discovery ends well", longPatience, func() error {
				s, err := who.get(t.Context(), id)
				if err == nil && (s.GetDiscovery().GetNumber() != 2 || s.GetDiscovery().GetStatus() != pb.DiscoveryStatus_DISCOVERY_STATUS_SUCCEEDED) {
					err = fmt.Errorf("discovery %v", s.GetDiscovery())
				}
				return err
			})
			if now := peer.Count("tools/list"); !c.again && now != once {
				t.Errorf("what the first worker did was done %d times more", now-once)
			}
		})
	}
}
