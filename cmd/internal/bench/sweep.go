package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"countersign/worker"
	"countersign/workflows"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"sweep", "what a probe costs, beside the bare SDK doing the same handshakes and lists", measureSweep})
}

// pace is that of sweeps of so few servers that they are done in half of the
// interval.
const pace = 20 * time.Millisecond

func measureSweep(ctx context.Context, o options) ([]table, error) {
	fleets := []fleet{{Servers: 100, Tools: 10}, {Servers: 300, Tools: 10}, {Servers: 100, Tools: 100}, {Servers: 200, Tools: 10, Dead: 10, Hang: 5}}
	if o.full {
		fleets = []fleet{
			{Servers: 100, Tools: 10},
			{Servers: 1000, Tools: 10},
			{Servers: 1000, Tools: 100},
			{Servers: 10_000, Tools: 10},
			{Servers: 1000, Tools: 10, Dead: 10, Hang: 5},
			{Servers: 10_000, Tools: 10, Dead: 10, Hang: 5},
		}
	}
	if o.servers > 0 {
		fleets = []fleet{{Servers: o.servers, Tools: 10}}
	}
	engine := sqlite
	if o.dsn != "" {
		engine = postgres
	}
	t := table{
		title: "Sweeps, " + engine,
		columns: []string{
			"servers", "tools", "of them", "worker, CPU per probe", "bare SDK", "ratio", "Temporal, CPU per probe", "database, CPU per probe",
			"transactions per 1,000 probes", "history events per probe", "share of one core in a window of 5 min", "healthy ones moved by at most",
		},
		notes: []string{fmt.Sprintf("Medians of %d windows after one that is not counted; worker, Temporal (its data in memory), database and MCP servers are processes "+
			"of their own on this machine. The bare SDK makes the same handshakes and lists in the same run, at the same pace, over a connection each, and keeps nothing. "+
			"On SQLite the database is a part of the worker. The last column is how far apart the moments are at which a healthy server is met in two windows.", o.rounds)},
	}
	for i, f := range fleets {
		row, err := sweepOf(ctx, o, engine, f)
		if err != nil {
			return nil, fmt.Errorf("%+v: %w", fleets[i], err)
		}
		t.rows = append(t.rows, row)
	}
	return []table{t}, nil
}

// stage is the processes of an installation.
type stage struct {
	peers, engine, worker, sdk *part
	database                   *backend // nil on SQLite
	temporal                   client.Client
	at                         string // the database
	drop                       func()
}

func newStage(ctx context.Context, o options, engine string) (s *stage, err error) {
	s = &stage{drop: func() {}}
	defer func() {
		if err != nil {
			s.close(ctx)
		}
	}()
	at, drop, err := newDatabase(ctx, o, engine)
	if err != nil {
		return s, err
	}
	s.at, s.drop = at, drop
	if engine == postgres {
		if s.database, err = watchPostgres(ctx, at); err != nil {
			return s, err
		}
	}
	if s.peers, err = start(ctx, o, "peers", nil); err != nil {
		return s, err
	}
	if s.engine, err = start(ctx, o, "engine", nil); err != nil {
		return s, err
	}
	if s.worker, err = start(ctx, o, "work", working{Database: at, Engine: s.engine.Ready}); err != nil {
		return s, err
	}
	if s.sdk, err = start(ctx, o, "sdk", nil); err != nil {
		return s, err
	}
	s.temporal, _, err = worker.Dial(worker.Address{HostPort: s.engine.Ready}, slog.New(slog.DiscardHandler))
	return s, err
}

func (s *stage) close(ctx context.Context) {
	if s.temporal != nil {
		s.temporal.Close()
	}
	for _, p := range []*part{s.sdk, s.worker, s.engine, s.peers} {
		p.close()
	}
	s.database.close(ctx)
	s.drop()
}

// cost is what processes used.
type cost struct{ worker, engine, database, sdk time.Duration }

func (c cost) minus(b cost) cost {
	return cost{c.worker - b.worker, c.engine - b.engine, c.database - b.database, c.sdk - b.sdk}
}

func (s *stage) cost() (c cost, err error) {
	for into, p := range map[*time.Duration]*part{&c.worker: s.worker, &c.engine: s.engine, &c.sdk: s.sdk} {
		u, err := p.usage()
		if err != nil {
			return c, err
		}
		*into = u.CPU
	}
	c.database, err = s.database.cpu()
	return c, err
}

// swept is one window.
type swept struct {
	cost
	events int
	sight
}

func sweepOf(ctx context.Context, o options, engine string, f fleet) ([]string, error) {
	s, err := newStage(ctx, o, engine)
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
	interval := max(time.Minute, 2*pace*time.Duration(f.Servers))
	window := time.Now().UTC().Truncate(interval)
	var rounds []swept
	var began int64
	for n := range o.rounds + 1 {
		one, err := s.sweep(ctx, f, interval, window.Add(time.Duration(n)*interval))
		if err != nil {
			return nil, err
		}
		if n == 0 { // the one in which memories are filled
			if began, err = s.database.transactions(ctx); err != nil {
				return nil, err
			}
			continue
		}
		rounds = append(rounds, one)
	}
	ended, err := s.database.transactions(ctx)
	if err != nil {
		return nil, err
	}
	return f.row(rounds, float64(ended-began)), nil
}

func (f fleet) row(rounds []swept, transactions float64) []string {
	var mine, bare, engine, database []time.Duration
	var ratios, events, cores []float64
	var moved time.Duration
	probes := 0
	for i, r := range rounds {
		n := max(r.Recorded, 1)
		probes += r.Recorded
		mine, bare = append(mine, perCall(r.cost.worker, n)), append(bare, perCall(r.cost.sdk, f.Servers))
		engine, database = append(engine, perCall(r.cost.engine, n)), append(database, perCall(r.cost.database, n))
		ratios = append(ratios, float64(perCall(r.cost.worker, n))/float64(perCall(r.cost.sdk, f.Servers)))
		events = append(events, float64(r.events)/float64(n))
		cores = append(cores, (r.cost.worker+r.cost.engine+r.cost.database).Seconds()/(5*time.Minute).Seconds())
		if i == 0 {
			continue
		}
		for k, at := range r.Offsets {
			if before := rounds[i-1].Offsets[k]; at >= 0 && before >= 0 {
				moved = max(moved, (at - before).Abs())
			}
		}
	}
	kinds := "healthy"
	if f.Dead+f.Hang > 0 {
		kinds = fmt.Sprintf("%d %% dead, %d %% hang", f.Dead, f.Hang)
	}
	perThousand := "-"
	if transactions > 0 {
		perThousand = fmt.Sprintf("%.1f", 1000*transactions/float64(max(probes, 1)))
	}
	return []string{
		fmt.Sprint(f.Servers), fmt.Sprint(f.Tools), kinds, micros(median(mine)), micros(median(bare)), times(median(ratios)), micros(median(engine)),
		micros(median(database)), perThousand, fmt.Sprintf("%.3f", median(events)), fmt.Sprintf("%.3f", median(cores)), moved.Round(time.Millisecond).String(),
	}
}

// sweep runs one window, and the same meetings by the bare SDK after it.
func (s *stage) sweep(ctx context.Context, f fleet, interval time.Duration, window time.Time) (swept, error) {
	var out swept
	before, err := s.cost()
	if err != nil {
		return out, err
	}
	run, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "sweep-" + window.Format(time.RFC3339Nano), TaskQueue: workflows.TaskQueue,
	}, workflows.ProbeSweepWorkflow, workflows.SweepInput{Interval: interval, Page: workflows.DefaultProbePage, Window: window})
	if err != nil {
		return out, err
	}
	began := time.Now()
	if err := run.Get(ctx, nil); err != nil {
		return out, err
	}
	after, err := s.cost()
	if err != nil {
		return out, err
	}
	out.cost = after.minus(before)
	question, err := order("seen", glimpse{window, began})
	if err == nil {
		err = s.worker.ask(&out.sight, question)
	}
	if err != nil {
		return out, err
	}
	if want := f.healthy(); out.OK < want {
		return out, fmt.Errorf("%d of %d healthy servers were seen well", out.OK, want)
	}
	for number := -1; number < 64; number++ {
		id := run.GetID()
		if number >= 0 {
			id = workflows.ShardWorkflowID(window, number)
		}
		n, err := s.events(ctx, id)
		if err != nil {
			return out, err
		}
		if n == 0 {
			break
		}
		out.events += n
	}
	question, err = order("go", tour{f, pace})
	if err == nil {
		err = s.sdk.ask(nil, question)
	}
	if err != nil {
		return out, err
	}
	bare, err := s.cost()
	out.cost.sdk = bare.minus(after).sdk
	return out, err
}

func (f fleet) healthy() int {
	n := 0
	for i := range f.Servers {
		if f.name(i)[0] == 'g' {
			n++
		}
	}
	return n
}

// events counts a history's; there is none: 0.
func (s *stage) events(ctx context.Context, id string) (n int, err error) {
	for list := s.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); list.HasNext(); n++ {
		if _, err := list.Next(); err != nil {
			if _, none := errors.AsType[*serviceerror.NotFound](err); none {
				return 0, nil
			}
			return n, err
		}
	}
	return n, nil
}
