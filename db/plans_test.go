package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"countersign/db"
	"countersign/registry"
)

// watched keeps the statements that look at the tables of events.
type watched struct {
	mu         sync.Mutex
	statements []string
}

func (w *watched) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (w *watched) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.HasPrefix(e.Query, "INSERT") && growing.MatchString(e.Query) && !slices.Contains(w.statements, e.Query) {
		w.statements = append(w.statements, e.Query)
	}
}

// growing are the tables that grow with the history, and waiting the indexes that
// have only what waits, so that one may go along the whole of them.
var (
	growing = regexp.MustCompile(`\b(outbox|event_deliveries)\b`)
	waiting = []string{"outbox_unrelayed", "event_deliveries_pending", "event_deliveries_waiting", "event_deliveries_dead", "event_deliveries_owed"}
)

// past fills the tables with a history of events, which were delivered; a tenth
// of it is old. Nobody makes statistics of it.
func past(tb testing.TB, d *db.DB, n int) {
	tb.Helper()
	series := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)", n)
	at := fmt.Sprintf("CASE WHEN i <= %d THEN '2020-01-01 00:00:00+00:00' ELSE '2026-01-01 00:00:00+00:00' END", n/10)
	if isPostgres(d) {
		at = "(" + at + ")::timestamptz"
		exec(tb, d, "ALTER TABLE outbox SET (autovacuum_enabled = off)", "ALTER TABLE event_deliveries SET (autovacuum_enabled = off)",
			"ALTER TABLE event_lanes SET (autovacuum_enabled = off)")
	}
	exec(tb, d, "INSERT INTO outbox (event_id, event_type, tenant_id, aggregate, seq, data, occurred_at, correlation_id, causation_id, relayed) "+
		series+" SELECT 'e' || i, 'x', 'acme', 'a' || (i % 1000), i, '{}', "+at+", '', '', TRUE FROM n",
		"INSERT INTO event_deliveries (tenant_id, sink, event_id, event_type, aggregate, seq, state, attempts, status, problem, created_at) "+
			series+" SELECT 'acme', 'hook', 'e' || i, 'x', 'a' || (i % 1000), i, 'delivered', 1, 200, '', "+at+" FROM n")
}

// round relays what is new, delivers what is due, and says how many that were.
func round(tb testing.TB, d *db.DB, sinks ...string) int {
	tb.Helper()
	y, ctx, n := d.System(), tb.Context(), 0
	if _, err := y.RelayEvents(ctx, sinks, 500); err != nil {
		tb.Fatal(err)
	}
	lanes, err := y.ClaimLanes(ctx, nil, 8, time.Minute)
	if err != nil {
		tb.Fatal(err)
	}
	for _, lane := range lanes {
		parcels, _, err := y.Parcels(ctx, lane, 20)
		if err != nil {
			tb.Fatal(err)
		}
		var attempts []registry.Attempt
		for _, p := range parcels {
			attempts = append(attempts, registry.Attempt{DeliveryID: p.Delivery.ID, State: registry.DeliveryDelivered, At: time.Now()})
		}
		n += len(parcels)
		if _, err := y.SettleLane(ctx, lane, attempts, 0); err != nil {
			tb.Fatal(err)
		}
	}
	return n
}

// No statement of the relay, of the backlog and of retention goes along the
// history, also where the planner knows nothing of it yet: after a restore, or on
// a database whose statistics nobody makes.
func TestNoPlanOfTheRelayDependsOnStatistics(t *testing.T) {
	engines(t, func(t on) {
		past(t, t.db, 100_000)
		w := newWorld(t, t.db, "acme")
		w.subscribe(subscription("hook"))
		w.register("weather")
		var seen watched
		t.db.Watch(&seen)
		if n := round(t, t.db, "installation/log"); n < 3 {
			t.Fatalf("%d events were delivered", n)
		}
		if _, err := t.db.System().EventBacklog(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := t.db.System().PruneEvents(t.Context(), 1000*24*time.Hour, 500); err != nil || n != 1000 {
			t.Fatal(n, err)
		}
		if len(seen.statements) < 12 {
			t.Fatalf("%d statements", len(seen.statements))
		}
		for _, statement := range seen.statements {
			bad := walksSQLite
			if isPostgres(t.db) {
				bad = walksPostgres
			}
			if found := bad(t, statement); found != "" {
				t.Errorf("%s goes along the history:\n%s", statement[:min(len(statement), 400)], found)
			}
		}
	})
}

func walksSQLite(t on, statement string) string {
	rows, err := raw(t, t.db).QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement)
	if err != nil {
		t.Fatal(statement, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		by := slices.ContainsFunc(waiting, func(index string) bool { return strings.Contains(detail, index) })
		// bounded is a subquery, l and event_lanes have only what waits.
		harmless := regexp.MustCompile(`^SCAN (bounded|l|event_lanes|CONSTANT ROW|\(subquery.*)\b`).MatchString(detail)
		if strings.HasPrefix(detail, "SCAN ") && !by && !harmless {
			out = append(out, detail)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Cond     string  `json:"Index Cond"`
	Rows     float64 `json:"Actual Rows"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Loops    float64 `json:"Actual Loops"`
	Plans    []plan  `json:"Plans"`
}

func walksPostgres(t on, statement string) string {
	tx, err := raw(t, t.db).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "SET LOCAL ROLE "+db.DefaultSystemRole+"; SET LOCAL enable_bitmapscan = off"); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := tx.QueryRowContext(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+statement).Scan(&text); err != nil {
		t.Fatal(statement, err)
	}
	var plans []struct {
		Plan plan `json:"Plan"`
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if walks(plans[0].Plan) {
		return text
	}
	return ""
}

func walks(p plan) bool {
	if (p.Rows+p.Removed)*p.Loops > 1000 {
		return true
	}
	scan := strings.Contains(p.Node, "Scan") && (growing.MatchString(p.Relation) || growing.MatchString(p.Index))
	if scan && p.Cond == "" && !slices.Contains(waiting, p.Index) && p.Node != "Bitmap Heap Scan" {
		return true
	}
	return slices.ContainsFunc(p.Plans, walks)
}
