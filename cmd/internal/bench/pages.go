package main

import (
	"context"
	"fmt"
	"time"
)

func init() { //nolint:gochecknoinits // a suite is known by its file
	suites = append(suites, suite{"pages", "pages of lists and searches, beside a bare pass-through of the same rows", measurePages})
}

// look is one kind of page.
type look struct {
	name, ask, search string
}

var looks = []look{
	{"100 servers", "servers", ""}, {"100 tools", "tools", ""}, {"search: in every tool", "tools", "looks"}, {"search: in one server", "tools", "s000042"},
}

func measurePages(ctx context.Context, o options) ([]table, error) {
	sizes, calls := []catalog{{1, 100, 10}, {1, 1000, 10}}, 40
	if o.full {
		sizes, calls = []catalog{{1, 1000, 10}, {1, 100_000, 10}}, 200
	}
	if o.servers > 0 {
		sizes[1].servers = o.servers
	}
	if o.calls > 0 {
		calls = o.calls
	}
	var out []table
	for _, engine := range o.engines() {
		t := table{
			title:   "Pages and searches, " + engine,
			columns: []string{"page of", "servers", "tools", "CPU of the API per call", "CPU of the database per call", "p50", "p99", "against the smaller size", "against the pass-through"},
			notes: []string{fmt.Sprintf("Medians of %d rounds of %d calls each by h2c and proto, 2 at a time. The pass-through selects the same 100 rows by pgx and writes them as JSON, without "+
				"authentication, row security or messages. Ratios are of the CPU of API and database together.", o.rounds, calls)},
		}
		smaller := map[string]time.Duration{}
		for _, size := range sizes {
			rows, err := pagesOf(ctx, o, engine, size, calls, smaller)
			if err != nil {
				return nil, fmt.Errorf("%s, %d servers: %w", engine, size.servers, err)
			}
			t.rows = append(t.rows, rows...)
		}
		out = append(out, t)
	}
	return out, nil
}

func pagesOf(ctx context.Context, o options, engine string, size catalog, calls int, smaller map[string]time.Duration) ([][]string, error) {
	at, drop, err := newDatabase(ctx, o, engine)
	if err != nil {
		return nil, err
	}
	defer drop()
	if err := fill(ctx, at, size); err != nil {
		return nil, err
	}
	var backend *backend
	if engine == postgres {
		if err := execute(ctx, at, "VACUUM ANALYZE"); err != nil {
			return nil, err
		}
		if backend, err = watchPostgres(ctx, at); err != nil {
			return nil, err
		}
		defer backend.close(ctx)
	}
	server, err := start(ctx, o, "serve", served{Database: at, Tenants: size.names()})
	if err != nil {
		return nil, err
	}
	defer server.close()
	loader, err := start(ctx, o, "load", nil)
	if err != nil {
		return nil, err
	}
	defer loader.close()
	asked := looks
	var through *part
	if engine == postgres {
		if through, err = start(ctx, o, "rows", served{Database: at, Tenants: size.names()}); err != nil {
			return nil, err
		}
		defer through.close()
		asked = append([]look{{"100 servers, pass-through", "rows", ""}}, looks...)
	}
	var out [][]string
	var bare time.Duration
	for _, l := range asked {
		p := server
		if l.ask == "rows" {
			p = through
		}
		b := burst{URL: p.Ready, Wire: wire{H2C: true}, Ask: l.ask, Search: l.search, Tenants: size.names(), Calls: calls, AtOnce: 2}
		var cpu, database, p50, p99, both []time.Duration
		for round := range o.rounds + 1 {
			before, err := backend.cpu()
			if err != nil {
				return nil, err
			}
			var s spent
			if err := measureBurst(p, loader, b, &s); err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			after, err := backend.cpu()
			if err != nil {
				return nil, err
			}
			if round == 0 { // statements are prepared
				continue
			}
			per := perCall(after-before, s.Calls)
			cpu, database, both = append(cpu, s.cpu), append(database, per), append(both, s.cpu+per)
			p50, p99 = append(p50, s.P50), append(p99, s.P99)
		}
		total := median(both)
		against, passed := "-", "-"
		if before, ok := smaller[l.name]; ok {
			against = times(float64(total) / float64(before))
		} else {
			smaller[l.name] = total
		}
		switch {
		case l.ask == "rows":
			bare = total
		case l.ask == "servers" && bare > 0:
			passed = times(float64(total) / float64(bare))
		}
		ofDatabase := "of the API"
		if backend != nil {
			ofDatabase = micros(median(database))
		}
		out = append(out, []string{
			l.name, fmt.Sprint(size.servers), fmt.Sprint(size.total()), micros(median(cpu)), ofDatabase, millis(median(p50)), millis(median(p99)), against, passed,
		})
	}
	return out, nil
}
