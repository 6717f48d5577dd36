package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"countersign/db/dbtest"
	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
)

// doorman stands before a peer, gives each server an address of its own by the
// first element of the path, and counts handshakes by it.
type doorman struct {
	*httptest.Server
	mu  sync.Mutex
	met map[string]int
}

func newDoorman(t *testing.T) *doorman {
	t.Helper()
	var script mcptest.Script
	script.List("tools/list", mcptest.Items(mcptest.Tools(1)...))
	peer, err := url.Parse(mcptest.New(t, script).URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL, r.Out.Host = peer, peer.Host
	}}
	d := &doorman{met: map[string]int{}}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			d.mu.Lock()
			d.met[strings.Trim(r.URL.Path, "/")]++
			d.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		d.CloseClientConnections()
		d.Close()
	})
	return d
}

// counts gives handshakes with each server, and forgets them when asked to.
func (d *doorman) counts(forget bool) (met map[string]int, total int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	met = make(map[string]int, len(d.met))
	for name, n := range d.met {
		met[name], total = n, total+n
	}
	if forget {
		d.met = map[string]int{}
	}
	return met, total
}

// A worker that is killed in the middle of a sweep is followed by another one:
// in that window each server is recorded exactly once, those that were being met
// or not recorded yet are met once more, and nobody else is.
func TestAWorkerIsKilledInTheMiddleOfASweep(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	i := newInstallation(t, d, dbtest.Postgres(t), "COUNTERSIGN_PROBE_INTERVAL=45s", "COUNTERSIGN_PROBE_CONCURRENCY=2", "COUNTERSIGN_PROBE_PER_HOST=2")
	api, worker := i.serve(t, "api"), i.serve(t, "worker")
	c := i.caller(api, first)
	door := newDoorman(t)
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	const servers = 40
	names := make([]string, servers)
	var group errgroup.Group
	group.SetLimit(8)
	for n := range names {
		names[n] = fmt.Sprintf("s%02d", n)
		group.Go(func() error {
			_, err := c.bring(ctx, names[n], door.URL+"/"+names[n], active)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// Between two windows nobody is met.
	until(t, "a quiet moment", patience, func() error {
		_, before := door.counts(false)
		time.Sleep(3 * time.Second)
		if _, after := door.counts(false); after > before {
			return errors.New("somebody is met")
		}
		return nil
	})
	door.counts(true)
	until(t, "the sweep is half way", patience, func() error {
		if _, total := door.counts(false); total < servers/2 {
			return fmt.Errorf("%d were met", total)
		}
		return nil
	})
	worker.kill()
	before, total := door.counts(false)
	if total >= servers {
		t.Fatalf("the worker was killed too late: %d handshakes", total)
	}
	began := time.Now()
	worker = i.serve(t, "worker")
	var window time.Time
	until(t, "the window is recorded of everybody", longPatience, func() error {
		last := map[time.Time]int{}
		for _, name := range names {
			r, err := c.servers.ListProbes(ctx, &pb.ListProbesRequest{ServerId: name, PageSize: 5})
			if err != nil {
				return err
			}
			for _, p := range r.GetProbes() {
				if at := p.GetWindow().AsTime(); began.Sub(at) < 45*time.Second && at.Before(began) {
					if p.GetOutcome() != pb.ProbeOutcome_PROBE_OUTCOME_OK {
						return final{fmt.Errorf("%s: %v", name, p)}
					}
					last[at]++
				}
			}
		}
		for at, n := range last {
			if n > servers {
				return final{fmt.Errorf("window %s has %d records of %d servers", at, n, servers)}
			}
			if n == servers {
				window = at
				return nil
			}
		}
		return fmt.Errorf("%v", last)
	})
	if took := time.Since(began); took > time.Minute { // else the next window counts among the handshakes
		t.Logf("it took %s to go on after %s", took, window)
	}
	after, _ := door.counts(false)
	again := 0
	for _, name := range names {
		switch n := after[name]; {
		case n == 0 || n > 2:
			t.Errorf("%s was met %d times", name, n)
		case n == 2:
			if again++; before[name] == 0 {
				t.Errorf("%s was met twice by the second worker", name)
			}
		}
	}
	t.Logf("%d of %d servers were met when the worker died; %d of them were met again", len(before), servers, again)
	e := dial(t, d.temporal, i.namespace)
	e.checkHistories(t)
	worker.stop(t)
	api.stop(t)
}
