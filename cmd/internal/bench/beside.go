package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"countersign/workflows"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"beside", "50 calls of resolve a second while a sweep runs", measureBeside})
}

// measureBeside asks 50 times a second for as long as a sweep takes (R207).
func measureBeside(ctx context.Context, o options) ([]table, error) {
	f := fleet{Servers: 200, Tools: 10}
	if o.full {
		f.Servers = 10_000
	}
	if o.servers > 0 {
		f.Servers = o.servers
	}
	t := table{
		title:   fmt.Sprintf("50 calls a second beside a sweep of %d servers, Postgres", f.Servers),
		columns: []string{"consistency", "calls", "p50", "p95", "p99"},
		notes:   []string{fmt.Sprintf("Medians of %d windows. Calls go by h2c and proto, for as long as the quick lane of the sweep takes.", o.rounds)},
	}
	if o.dsn == "" {
		t.notes = append(t.notes, "Not measured: it needs a Postgres, several processes have.")
		return []table{t}, nil
	}
	s, err := newStage(ctx, o, postgres)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	f.At = s.peers.Ready
	question, err := order("fill", f)
	if err == nil {
		err = s.worker.ask(nil, question)
	}
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, o, "serve", served{Database: s.at, Tenants: []string{tenant}})
	if err != nil {
		return nil, err
	}
	defer server.close()
	loader, err := start(ctx, o, "load", nil)
	if err != nil {
		return nil, err
	}
	defer loader.close()
	interval := max(time.Minute, 2*pace*time.Duration(f.Servers))
	window := time.Now().UTC().Truncate(interval)
	for _, mode := range []string{"bounded", "fully_consistent"} {
		var p50, p95, p99 []time.Duration
		calls := 0
		for round := range o.rounds + 1 {
			window = window.Add(interval)
			run, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID: "sweep-" + window.Format(time.RFC3339Nano), TaskQueue: workflows.TaskQueue,
			}, workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: interval, Page: workflows.DefaultProbePage, Window: window})
			if err != nil {
				return nil, err
			}
			w, err := loader.fire(burst{
				URL: server.Ready, Wire: wire{H2C: true}, Ask: "resolve", Mode: mode, Prefix: "good", Tenants: []string{tenant},
				Servers: f.Servers, Tools: f.Tools, AtOnce: 8, Rate: 50, Calls: int(50 * (pace * time.Duration(f.Servers)).Seconds()),
			})
			if err != nil {
				return nil, err
			}
			if err := run.Get(ctx, nil); err != nil {
				return nil, err
			}
			if round == 0 { // memories are filled
				continue
			}
			calls += w.Calls
			p50, p95, p99 = append(p50, w.P50), append(p95, w.P95), append(p99, w.P99)
		}
		t.rows = append(t.rows, []string{mode, fmt.Sprint(calls), millis(median(p50)), millis(median(p95)), millis(median(p99))})
	}
	return []table{t}, nil
}
