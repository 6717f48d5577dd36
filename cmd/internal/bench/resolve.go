package main

import (
	"context"
	"fmt"
	"time"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"resolve", "CPU and latency of resolve, beside a call that is answered from memory", measureResolve})
}

// catalog is how many there are.
type catalog struct{ tenants, servers, tools int } // servers of each tenant, tools of each server

func (c catalog) total() int { return c.tenants * c.servers * c.tools }

func (c catalog) names() []string {
	names := make([]string, c.tenants)
	for i := range names {
		names[i] = fmt.Sprintf("t%04d", i)
	}
	return names
}

var modes = []string{baseline, "bounded", "fully_consistent"}

func measureResolve(ctx context.Context, o options) ([]table, error) {
	sizes, calls, wires := []catalog{{10, 1, 100}}, 1500, []wire{{H2C: true}, {JSON: true, H2C: true}, {}, {JSON: true}}
	if o.full {
		sizes, calls = []catalog{{10, 1, 100}, {1000, 1, 1000}}, 10_000
	}
	if o.calls > 0 {
		calls = o.calls
	}
	if o.tenants > 0 {
		sizes = append(sizes[:1], catalog{o.tenants, 1, 1000})
	}
	var out []table
	for _, size := range sizes {
		t := table{
			title:   fmt.Sprintf("Resolve, %d tools in %d tenants", size.total(), size.tenants),
			columns: []string{"database", "wire", "consistency", "CPU of the API per call", "against the baseline", "p50", "p99", "calls a second"},
			notes: []string{fmt.Sprintf("Medians of %d rounds of %d calls each, 4 at a time, by a process of its own; CPU is that of the serving process alone. "+
				"The baseline is a ResolveTool through the same listener, authentication and interceptors that is answered from memory with an equally long message. "+
				"The ratio is the median of those inside one round.", o.rounds, calls)},
		}
		for _, engine := range o.engines() {
			rows, note, err := resolveOn(ctx, o, engine, size, calls, wires)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", engine, err)
			}
			t.rows, t.notes = append(t.rows, rows...), append(t.notes, note)
		}
		out = append(out, t)
	}
	return out, nil
}

func fill(ctx context.Context, at string, c catalog) error {
	d, err := open(ctx, at)
	if err != nil {
		return err
	}
	defer d.Close()
	surface := offer(c.tools)
	for _, tenant := range c.names() {
		f := filler{store: d.Tenant(tenant)}
		for n := range c.servers {
			if _, err := f.active(ctx, serverName(n), "https://"+serverName(n)+".example/mcp", surface); err != nil {
				return err
			}
		}
	}
	return nil
}

// spent is one burst.
type spent struct {
	cpu time.Duration // of the API, per call
	went
}

func resolveOn(ctx context.Context, o options, engine string, size catalog, calls int, wires []wire) (rows [][]string, note string, err error) {
	at, drop, err := newDatabase(ctx, o, engine)
	if err != nil {
		return nil, "", err
	}
	defer drop()
	if err := fill(ctx, at, size); err != nil {
		return nil, "", err
	}
	if engine == postgres {
		if err := execute(ctx, at, "VACUUM ANALYZE"); err != nil {
			return nil, "", err
		}
	}
	server, err := start(ctx, o, "serve", served{Database: at, Tenants: size.names()})
	if err != nil {
		return nil, "", err
	}
	defer server.close()
	loader, err := start(ctx, o, "load", nil)
	if err != nil {
		return nil, "", err
	}
	defer loader.close()
	ask := burst{URL: server.Ready, Ask: "resolve", Tenants: size.names(), Servers: size.servers, Tools: size.tools, AtOnce: 4}
	one := func(w wire, mode string, calls int) (s spent, err error) {
		b := ask
		b.Wire, b.Mode, b.Calls = w, mode, calls
		return s, measureBurst(server, loader, b, &s)
	}
	// What is remembered is remembered before it is measured.
	if _, err := one(wires[0], "fully_consistent", max(calls, 2*size.tenants)); err != nil {
		return nil, "", err
	}
	before, err := gc(server)
	if err != nil {
		return nil, "", err
	}
	if _, err := one(wires[0], "bounded", max(calls, 2*size.tenants)); err != nil {
		return nil, "", err
	}
	after, err := gc(server)
	if err != nil {
		return nil, "", err
	}
	note = fmt.Sprintf("%s: for `bounded` the process keeps %.0f bytes of heap per tool; its resident memory is then %s.", engine,
		float64(after.Heap-before.Heap)/float64(size.total()), megabytes(after.RSS))
	if o.profile != "" {
		if err := server.ask(nil, "profile "+o.profile+"-"+engine); err != nil {
			return nil, "", err
		}
	}
	for _, w := range wires {
		each := map[string][]spent{}
		for range o.rounds {
			for _, mode := range modes {
				s, err := one(w, mode, calls)
				if err != nil {
					return nil, "", err
				}
				each[mode] = append(each[mode], s)
			}
		}
		for _, mode := range modes {
			var cpu, p50, p99 []time.Duration
			var ratio, rate []float64
			for i, s := range each[mode] {
				cpu, p50, p99 = append(cpu, s.cpu), append(p50, s.P50), append(p99, s.P99)
				ratio = append(ratio, float64(s.cpu)/float64(each[baseline][i].cpu))
				rate = append(rate, float64(s.Calls)/s.Took.Seconds())
			}
			rows = append(rows, []string{
				engine, w.String(), mode, micros(median(cpu)), times(median(ratio)), millis(median(p50)), millis(median(p99)), fmt.Sprintf("%.0f", median(rate)),
			})
		}
	}
	return rows, note, nil
}

func gc(p *part) (u usage, err error) { return u, p.ask(&u, "gc") }

// measureBurst runs a burst and says what the server spent for it.
func measureBurst(server, loader *part, b burst, s *spent) error {
	before, err := server.usage()
	if err != nil {
		return err
	}
	if s.went, err = loader.fire(b); err != nil {
		return err
	}
	after, err := server.usage()
	s.cpu = perCall(after.CPU-before.CPU, s.Calls)
	return err
}
