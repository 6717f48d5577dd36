package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"countersign/activities"
	"countersign/db"
	"countersign/mcpclient"
	"countersign/outbound"
	"countersign/registry"
	"countersign/worker"
)

func init() { parts["work"] = work } //nolint:gochecknoinits // a part is known by its file

// working says what a worker works on.
type working struct {
	Database string `json:"database"`
	Engine   string `json:"engine"`
}

const tenant = "default"

// fleet is what a worker registers, without workflows: servers that are probed.
type fleet struct {
	At      string `json:"at"` // of the peers
	Servers int    `json:"servers"`
	Tools   int    `json:"tools"` // of each
	Dead    int    `json:"dead"`  // percent that answer 503
	Hang    int    `json:"hang"`  // percent that never answer
}

// name of the n-th server; of a hundred the first are dead or hang.
func (f fleet) name(n int) string {
	switch at := n % 100; {
	case at < f.Dead:
		return fmt.Sprintf("dead%06d", n)
	case at < f.Dead+f.Hang:
		return fmt.Sprintf("hang%06d", n)
	}
	return fmt.Sprintf("good%06d", n)
}

// glimpse asks what was recorded in a window that began at a time.
type glimpse struct {
	Window time.Time `json:"window"`
	Start  time.Time `json:"start"`
}

// sight is what was.
type sight struct {
	Recorded int             `json:"recorded"`
	OK       int             `json:"ok"`
	Offsets  []time.Duration `json:"offsets"` // of the healthy ones from the start, in the order of their ids; -1: not recorded
}

type worked struct {
	db  *db.DB
	ids []string // of the healthy ones
	all []string
}

// work is a worker of the product; it can fill the database, too, which on
// SQLite nobody else may.
func work(args []string) error {
	in, err := arguments[working](args)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	d, err := open(ctx, in.Database)
	if err != nil {
		return err
	}
	defer d.Close()
	log := slog.New(slog.DiscardHandler)
	c, _, err := worker.Dial(worker.Address{HostPort: in.Engine}, log)
	if err != nil {
		return err
	}
	defer c.Close()
	guard := outbound.NewGuard(outbound.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	w := worker.New(c, &activities.Activities{
		DB: d, MCP: &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits}, Limits: registry.DefaultLimits,
		ProbeConcurrency: 64, ProbesPerHost: 512, // the peers are one host
		KeepSnapshots: 48 * time.Hour, KeepProbes: 24 * time.Hour, Log: log,
	}, worker.Options{})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	k := &worked{db: d}
	return answerLines("ready", map[string]func(string) (any, error){
		"fill": func(arg string) (any, error) {
			return answer(arg, func(f fleet) (any, error) { return nil, k.fill(ctx, f) })
		},
		"seen": func(arg string) (any, error) {
			return answer(arg, func(g glimpse) (any, error) { return k.seen(ctx, g) })
		},
	})
}

func answer[T any](arg string, by func(T) (any, error)) (any, error) {
	var in T
	if err := json.Unmarshal([]byte(arg), &in); err != nil {
		return nil, err
	}
	return by(in)
}

// order is a question with its arguments.
func order(word string, args any) (string, error) {
	raw, err := json.Marshal(args)
	return word + " " + string(raw), err
}

func (k *worked) fill(ctx context.Context, f fleet) error {
	store := k.db.Tenant(tenant)
	fill := filler{store: store}
	surface := offer(f.Tools)
	for n := range f.Servers {
		name := f.name(n)
		s, err := fill.active(ctx, name, peerURL(f.At, f.Tools, name), surface)
		if err != nil {
			return err
		}
		if err := store.RememberEra(ctx, s.ServerID, mcpclient.EraModern); err != nil {
			return err
		}
		k.all = append(k.all, s.ServerID)
		if strings.HasPrefix(name, "good") {
			k.ids = append(k.ids, s.ServerID)
			continue
		}
		// There is no workflow to hear of it.
		if _, err := fill.change(ctx, s.ServerID, "probe", func(r *registry.Record, now time.Time, _ registry.Operation) error {
			return r.Probed(registry.Probe{Outcome: registry.OutcomeFailed, Reason: registry.ReasonUnreachable, TargetDigest: s.TargetDigest, At: now})
		}); err != nil {
			return err
		}
	}
	return nil
}

func (k *worked) seen(ctx context.Context, g glimpse) (sight, error) {
	var out sight
	at := map[string]time.Time{}
	for ids := k.all; len(ids) > 0; {
		some := ids[:min(len(ids), 1000)]
		ids = ids[len(some):]
		probes, err := k.db.System().RecordedProbes(ctx, g.Window, some)
		if err != nil {
			return out, err
		}
		for id, p := range probes {
			out.Recorded++
			if p.Outcome == registry.OutcomeOK {
				out.OK++
			}
			at[id] = p.At
		}
	}
	out.Offsets = make([]time.Duration, len(k.ids))
	for i, id := range k.ids {
		out.Offsets[i] = -1
		if t, ok := at[id]; ok {
			out.Offsets[i] = t.Sub(g.Start)
		}
	}
	return out, nil
}
