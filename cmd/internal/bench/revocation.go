package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"revocation", "from a commit until every one of three processes denies", measureRevocation})
}

func measureRevocation(ctx context.Context, o options) ([]table, error) {
	n := 50
	if o.full {
		n = 1000
	}
	if o.calls > 0 {
		n = o.calls
	}
	t := table{
		title:   "Revocation over three processes, Postgres",
		columns: []string{"consistency", "p50", "p99", "longest", "answers that were wrong"},
		notes: []string{fmt.Sprintf("%d times a tool was switched off by a transaction of another process while each of three APIs was asked again and again. Of bounded: "+
			"the time from the return of the commit until the last of the three denied. Of fully_consistent: each API was asked once after the commit.", n)},
	}
	if o.dsn == "" {
		t.notes = append(t.notes, "Not measured: it needs a Postgres, several processes have.")
		return []table{t}, nil
	}
	at, drop, err := newDatabase(ctx, o, postgres)
	if err != nil {
		return nil, err
	}
	defer drop()
	size := catalog{1, 1, 100}
	if err := fill(ctx, at, size); err != nil {
		return nil, err
	}
	var apis []registryv1connect.McpRegistryServiceClient
	for range 3 {
		server, err := start(ctx, o, "serve", served{Database: at, Tenants: size.names()})
		if err != nil {
			return nil, err
		}
		defer server.close()
		c, _ := wire{H2C: true}.client()
		c.Transport = bearing{c.Transport}
		apis = append(apis, registryv1connect.NewMcpRegistryServiceClient(c, server.Ready))
	}
	late, wrong, err := revoke(context.WithValue(ctx, tenantKey{}, size.names()[0]), at, size.names()[0], apis, n)
	if err != nil {
		return nil, err
	}
	slices.Sort(late)
	t.rows = [][]string{
		{"bounded", millis(percentile(late, 50)), millis(percentile(late, 99)), millis(late[len(late)-1]), "-"},
		{"fully_consistent", "-", "-", "-", fmt.Sprintf("%d of %d", wrong, n*len(apis))},
	}
	return []table{t}, nil
}

func revoke(ctx context.Context, at, tenant string, apis []registryv1connect.McpRegistryServiceClient, n int) (late []time.Duration, wrong int, err error) {
	d, err := open(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	f := filler{store: d.Tenant(tenant), n: 1000}
	server, err := f.store.Server(ctx, serverName(0))
	if err != nil {
		return nil, 0, err
	}
	turn := func(on bool) (time.Time, error) {
		_, err := f.change(ctx, server.ServerID, "set_enabled", func(r *registry.Record, _ time.Time, _ registry.Operation) error {
			return r.SetEnabled("tool_00007", on)
		})
		return time.Now(), err
	}
	ask := &pb.ResolveToolRequest{ToolId: serverName(0) + ".tool_00007"}
	for range n {
		if err := everywhere(ctx, apis, true, nil); err != nil {
			return nil, 0, err
		}
		done := make([]time.Time, len(apis))
		ready := make(chan struct{}, len(apis))
		ended := make(chan error, 1)
		go func() {
			ended <- everywhere(ctx, apis, false, func(i int, at time.Time, first bool) {
				if first {
					ready <- struct{}{}
				}
				done[i] = at
			})
		}()
		for range apis {
			<-ready
		}
		committed, err := turn(false)
		if err != nil {
			return nil, 0, err
		}
		for _, api := range apis {
			r, err := api.ResolveTool(ctx, ask)
			if err != nil {
				return nil, 0, err
			}
			if r.GetCallable() {
				wrong++
			}
		}
		if err := <-ended; err != nil {
			return nil, 0, err
		}
		late = append(late, max(slices.MaxFunc(done, time.Time.Compare).Sub(committed), 0))
		if _, err := turn(true); err != nil {
			return nil, 0, err
		}
	}
	return late, wrong, nil
}

// everywhere asks each API for a bounded answer until all say the same; told
// hears of each answer.
func everywhere(ctx context.Context, apis []registryv1connect.McpRegistryServiceClient, callable bool, told func(i int, at time.Time, first bool)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ask := &pb.ResolveToolRequest{
		ToolId: serverName(0) + ".tool_00007", Consistency: pb.Consistency_CONSISTENCY_BOUNDED, MaxAge: durationpb.New(10 * time.Second),
	}
	var wait sync.WaitGroup
	faults := make([]error, len(apis))
	for i, api := range apis {
		wait.Go(func() {
			for first := true; ; first = false {
				r, err := api.ResolveTool(ctx, ask)
				if err != nil {
					faults[i] = err
					return
				}
				if told != nil {
					told(i, time.Now(), first)
				}
				if r.GetCallable() == callable {
					return
				}
				time.Sleep(500 * time.Microsecond)
			}
		})
	}
	wait.Wait()
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}
