package db

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Fleet is how the live servers of a tenant are, taken together.
type Fleet struct {
	Servers     int
	States      map[registry.State]int
	Healths     []FleetHealth // the worst first, of equals what most servers have
	NeedsReview int           // an approval is asked for
	Drifted     int           // they differ from what was approved
	Expiring    int           // something of theirs ends within [ExpiringSoon]
	At          time.Time     // by the database's clock
}

// FleetHealth is how many servers are well or not for one reason.
type FleetHealth struct {
	Level   registry.Level
	Reason  string // as registry.Health says it
	Servers int
}

// ExpiringSoon is how long ahead the field expiring of servers looks.
const ExpiringSoon = 14 * 24 * time.Hour

// drifted is whether a server differs from what was approved, as
// registry.Server.ReviewKind has it.
const drifted = `(s.approved_snapshot <> '' AND (s.approved_snapshot <> s.snapshot_digest OR s.approved_target <> s.target_digest))`

// facts are all that registry.HealthOf decides a level and a reason by: servers
// of the same facts are equally well. The database keeps them as one text,
// server_probe_state.health_facts.
type facts struct {
	outcome        registry.Outcome // empty: never probed
	reason         registry.Reason
	after, noTools bool
	server         registry.Server
	drifted        bool
}

func factsFrom(text string) (f facts, err error) {
	part := strings.SplitN(text, "|", 11)
	f = facts{
		outcome: registry.Outcome(part[0]), reason: registry.Reason(part[1]), after: part[2] != "", noTools: part[3] != "",
		server: registry.Server{
			State: registry.State(part[4]), Transport: registry.TransportStreamableHTTP, TargetDigest: "t",
			Discovery: registry.DiscoveryRun{Status: registry.DiscoveryStatus(part[6]), Reason: registry.Reason(part[7]), FinishedAt: time.Unix(0, 0)},
			Review:    registry.Review{Status: registry.ReviewStatus(part[8])},
		},
		drifted: part[9] != "",
	}
	if part[5] != "" {
		f.server.Transport = registry.TransportStdio
	}
	return f, json.Unmarshal([]byte(part[10]), &f.server.Causes)
}

// health is that of servers of these facts, but for its times and messages.
func (f *facts) health() registry.Health {
	if f.outcome == "" {
		return registry.HealthOf(&f.server, nil)
	}
	last := &registry.Probe{TargetDigest: f.server.TargetDigest, Outcome: f.outcome, Reason: f.reason, At: f.server.Discovery.FinishedAt}
	if f.after {
		last.At = last.At.Add(time.Second)
	}
	if f.noTools {
		last.ToolsDigest = noTools
	}
	return registry.HealthOf(&f.server, last)
}

// noTools is the digest of an empty list of tools.
var noTools = (&registry.Snapshot{}).ToolsDigest()

// factsOf counts a tenant's servers by their facts.
func (s *Store) factsOf(ctx context.Context, q bun.IDB) (rows []factsRow, err error) {
	err = q.NewSelect().TableExpr("server_probe_state AS ps").ColumnExpr("ps.health_facts AS facts, count(*) AS servers").
		Where("ps.tenant_id = ?", s.tenant).GroupExpr("ps.health_facts").Scan(ctx, &rows)
	return rows, err
}

type factsRow struct {
	Facts   string
	Servers int
}

// Fleet sums up the live servers.
func (s *Store) Fleet(ctx context.Context) (fleet Fleet, err error) {
	err = s.read(ctx, "sum up the fleet", func(ctx context.Context, q bun.IDB) error {
		fleet = Fleet{States: map[registry.State]int{}}
		var err error
		if fleet.At, err = s.db.engine.now(ctx, q); err != nil {
			return err
		}
		rows, err := s.factsOf(ctx, q)
		if err != nil {
			return err
		}
		byReason := map[FleetHealth]int{}
		for _, row := range rows {
			f, err := factsFrom(row.Facts)
			if err != nil {
				return err
			}
			if f.server.State == registry.StateRetired {
				continue
			}
			h := f.health()
			byReason[FleetHealth{Level: h.Level, Reason: h.Reason}] += row.Servers
			fleet.Servers += row.Servers
			fleet.States[f.server.State] += row.Servers
			if f.server.Review.Status == registry.ReviewPending {
				fleet.NeedsReview += row.Servers
			}
			if f.drifted {
				fleet.Drifted += row.Servers
			}
		}
		for h, n := range byReason {
			h.Servers = n
			fleet.Healths = append(fleet.Healths, h)
		}
		slices.SortFunc(fleet.Healths, worstFirst)
		fleet.Expiring, err = number(s.servers(q).Where("s.state <> ?", registry.StateRetired).
			Where("("+expiringServers+")", s.tenant, fleet.At.Add(ExpiringSoon)).Count(ctx))
		return err
	})
	return fleet, err
}

// expiringServers is whether something of a server s ends by itself before ?1.
const expiringServers = `s.server_id IN (SELECT x.server_id FROM (` + expiring + `) AS x WHERE x.ends_at < ?1)`

// badness orders levels.
var badness = map[registry.Level]int{registry.LevelUnhealthy: 3, registry.LevelDegraded: 2, registry.LevelUnknown: 1}

func worstFirst(a, b FleetHealth) int {
	if d := badness[b.Level] - badness[a.Level]; d != 0 {
		return d
	}
	if d := b.Servers - a.Servers; d != 0 {
		return d
	}
	return strings.Compare(a.Reason, b.Reason)
}

// fewServers are so many that to find and sort them all is less than to look at
// servers in the order of the list until a page is full.
const fewServers = 5_000

// asWell keeps servers that are as well as a condition on health says, and says
// how many of them there are.
func (s *Store) asWell(ctx context.Context, q bun.IDB, chosen *bun.SelectQuery, c Condition, retired bool) (*bun.SelectQuery, int, error) {
	rows, err := s.factsOf(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	var wanted []string
	total := 0
	for _, row := range rows {
		f, err := factsFrom(row.Facts)
		if err != nil {
			return nil, 0, err
		}
		if (string(f.health().Level) == c.Value) == (c.Op == OpIs) && (retired || f.server.State != registry.StateRetired) {
			wanted = append(wanted, row.Facts)
			total += row.Servers
		}
	}
	if len(wanted) == 0 {
		return chosen.Where("1 = 0"), 0, nil
	}
	those := q.NewSelect().ColumnExpr("ps.server_id").TableExpr("server_probe_state AS ps").
		Where("ps.tenant_id = ? AND ps.health_facts IN (?)", s.tenant, bun.List(wanted))
	if total <= fewServers {
		return chosen.Where("s.server_id IN (?)", those), total, nil
	}
	return chosen.Where("EXISTS (?)", those.Where("ps.server_id = s.server_id")), total, nil
}

// FleetWindow is what one window of probes said of a tenant's servers.
type FleetWindow struct {
	Window   time.Time
	Outcomes map[registry.Outcome]int
	P50, P90 time.Duration // of how long good probes took; 0: there was none
}

// FleetWindows cuts the time from since to until into n parts of one length and
// gives, for each in which there were probes, its last window of them, the oldest
// first. So its cost does not grow with the time, only with the fleet.
func (s *Store) FleetWindows(ctx context.Context, since, until time.Time, n int) (out []FleetWindow, err error) {
	err = s.read(ctx, "sum up probes", func(ctx context.Context, q bun.IDB) error {
		windows, err := s.lastWindows(ctx, q, since, until, n)
		if err != nil || len(windows) == 0 {
			return err
		}
		var counts []struct {
			ProbeWindow time.Time
			Outcome     registry.Outcome
			N           int
		}
		err = q.NewSelect().TableExpr("probes AS pr").ColumnExpr("pr.probe_window, pr.outcome, count(*) AS n").
			Where("pr.tenant_id = ? AND pr.probe_window IN (?)", s.tenant, bun.List(windows)).GroupExpr("1, 2").OrderExpr("1").Scan(ctx, &counts)
		if err != nil {
			return err
		}
		var times []struct {
			ProbeWindow time.Time
			P50, P90    time.Duration
		}
		err = q.NewRaw(`SELECT probe_window, max(CASE WHEN place = (n + 1) / 2 THEN duration_ns END) AS p50,
  max(CASE WHEN place = (n * 9 + 9) / 10 THEN duration_ns END) AS p90
FROM (
  SELECT probe_window, duration_ns, row_number() OVER (PARTITION BY probe_window ORDER BY duration_ns) AS place,
    count(*) OVER (PARTITION BY probe_window) AS n
  FROM probes WHERE tenant_id = ? AND probe_window IN (?) AND outcome = ?
) AS good GROUP BY probe_window`, s.tenant, bun.List(windows), registry.OutcomeOK).Scan(ctx, &times)
		if err != nil {
			return err
		}
		for _, c := range counts {
			if len(out) == 0 || !out[len(out)-1].Window.Equal(c.ProbeWindow) {
				out = append(out, FleetWindow{Window: c.ProbeWindow.UTC(), Outcomes: map[registry.Outcome]int{}})
			}
			out[len(out)-1].Outcomes[c.Outcome] = c.N
		}
		for _, t := range times {
			for i := range out {
				if out[i].Window.Equal(t.ProbeWindow) {
					out[i].P50, out[i].P90 = t.P50, t.P90
				}
			}
		}
		return nil
	})
	return out, err
}

// lastWindows gives the last window of each part of a time in which there is one.
func (s *Store) lastWindows(ctx context.Context, q bun.IDB, since, until time.Time, n int) ([]time.Time, error) {
	step := until.Sub(since) / time.Duration(n)
	var out []time.Time
	for i := range n {
		begin := since.Add(step * time.Duration(i))
		end := begin.Add(step)
		if i == n-1 {
			end = until
		}
		var last []time.Time
		err := q.NewSelect().TableExpr("probes AS pr").ColumnExpr("pr.probe_window").
			Where("pr.tenant_id = ? AND pr.probe_window > ? AND pr.probe_window <= ?", s.tenant, micro(begin), micro(end)).
			OrderExpr("pr.probe_window DESC").Limit(1).Scan(ctx, &last)
		if err != nil {
			return nil, err
		}
		out = append(out, last...)
	}
	return out, nil
}
