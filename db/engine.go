package db

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
)

// engine is what differs between the two databases.
type engine struct {
	name string
	// queue waits for the changes of a server that came before. Unlike a lock
	// of its row it is taken before the transaction gets its number, so that
	// numbers follow the order of the changes.
	queue string
	// snapshotsStay keeps the snapshots of a tenant from being pruned until the
	// transaction ends, and pruning waits for all who hold them.
	snapshotsStay, pruning string
	// forUpdate locks the rows that a query reads. It leaves out their keys,
	// which never change, so that rows which refer to them can be written.
	forUpdate string
	// clock gives the time; empty when the database runs in this process and
	// its clock is ours.
	clock string
	// horizon holds for rows that no running transaction can still come before.
	horizon string
	// end gives the position of the last event that can be told now, of a tenant.
	end string
	// history identifies the database among all that were made from its dumps; empty
	// where nothing does.
	history string
	// changesFrom gives the horizon of what is committed, and the time.
	changesFrom string
	// changed holds for audit rows that are not below a horizon.
	changed string
	// settled holds for audit rows that no running transaction can still come
	// before. Numbers that this database has not given yet are those of one that
	// was restored from; its transactions have all ended.
	settled string
	// sealing keeps other processes from sealing the same tenant's audit rows
	// until the transaction ends, or says that one does.
	sealing string
	// relaying keeps other processes from relaying events until the transaction
	// ends, or says that one does.
	relaying string
	// byIndex keeps a transaction's statements from reading all that matches before
	// they sort it, where an index has it in order: without statistics a planner
	// takes what matches for little. Empty where nothing of the kind is done.
	byIndex string
	// among makes a condition of a subquery's few ids, which are looked up each.
	among func(subquery string) string
	// skipLocked leaves out rows that others have locked.
	skipLocked string
	// migrating serialises migrators, besides the transactions they run in.
	migrating string
	// label gives the value of a label by its key.
	label string
	// contains says whether a text contains another, whatever the case.
	contains string
	// searched joins the words q of a tenant, ?0, that are found by what search
	// makes of words, ?1, to their tools t, in this order: the planners know too
	// little of words to choose it.
	searched string
	search   func(words []string) string
	// pairs lists the tools o as a JSON array, with the arguments in their definitions od.
	pairs string
	// writesInWith: a WITH may hold statements that write.
	writesInWith bool
	// snapshot begins a transaction that reads one state of the database.
	snapshot *sql.TxOptions
}

var postgres = engine{
	name:         "postgres",
	writesInWith: true,

	queue:     "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))",
	forUpdate: "NO KEY UPDATE",

	snapshotsStay: "SELECT pg_advisory_xact_lock_shared(hashtextextended('snapshots/' || ?, 0))",
	pruning:       "SELECT pg_advisory_xact_lock(hashtextextended('snapshots/' || ?, 0))",

	clock:       "SELECT clock_timestamp()",
	horizon:     "tx < pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
	end:         "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1, 9223372036854775807",
	history:     "SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()",
	changesFrom: "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon, clock_timestamp() AS now",
	changed:     "a.tx >= ?",
	settled: `(a.tx < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
OR a.tx >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)`,
	sealing:    "SELECT pg_try_advisory_xact_lock(hashtextextended('audit/' || ?, 0))",
	relaying:   "SELECT pg_try_advisory_xact_lock(hashtextextended('event relay', 0)) WHERE set_config('enable_bitmapscan', 'off', true) = 'off'",
	byIndex:    "SET LOCAL enable_bitmapscan = off",
	among:      func(subquery string) string { return "= ANY (ARRAY(" + subquery + "))" },
	skipLocked: " FOR UPDATE SKIP LOCKED",
	migrating:  "SELECT pg_advisory_xact_lock(4861272841)", // any number that nobody else uses
	label:      "(s.labels::json ->> ?)",
	contains:   "strpos(lower(?), lower(?)) > 0",
	searched: `(SELECT q.server_id, q.external_key, q.names, q.titles FROM tool_search AS q
WHERE q.tenant_id = ?0 AND array_to_tsvector(string_to_array(q.words, ' ')) @@ CAST(?1 AS tsquery) OFFSET 0) AS q
CROSS JOIN LATERAL (SELECT t.* FROM tools AS t
WHERE t.tenant_id = ?0 AND t.server_id = q.server_id AND t.external_key = q.external_key OFFSET 0) AS t`,
	search:   tsQuery,
	pairs:    "json_agg(json_build_array(o.external_id, od.args))::text",
	snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
}

var sqlite = engine{
	name:    "sqlite",
	horizon: "TRUE",
	settled: "TRUE",

	end:         "SELECT 0, COALESCE(max(id), 0) FROM outbox WHERE tenant_id = ?",
	changesFrom: "SELECT COALESCE(max(id), 0) AS horizon FROM audit",
	changed:     "a.id > ?",
	label:       "(SELECT j.value FROM json_each(s.labels) AS j WHERE j.key = ?)",
	contains:    "instr(lower(?), lower(?)) > 0",
	searched: `(SELECT q.* FROM tool_search AS q WHERE q.id IN (SELECT rowid FROM tool_words WHERE tool_words MATCH ?1) AND +q.tenant_id = ?0) AS q
CROSS JOIN tools AS t ON t.tenant_id = ?0 AND t.server_id = q.server_id AND t.external_key = q.external_key`,
	search:   ftsQuery,
	among:    func(subquery string) string { return "IN (" + subquery + ")" },
	pairs:    "json_group_array(json_array(o.external_id, od.args))",
	snapshot: &sql.TxOptions{ReadOnly: true},
}

// now gives the database's time, in UTC and microseconds.
func (e engine) now(ctx context.Context, q bun.IDB) (time.Time, error) {
	if e.clock == "" {
		return time.Now().UTC().Truncate(time.Microsecond), nil
	}
	var now time.Time
	err := q.NewRaw(e.clock).Scan(ctx, &now)
	return now.UTC().Truncate(time.Microsecond), err
}

// goByIndex makes the rest of a transaction go by what the engine says.
func (e engine) goByIndex(ctx context.Context, q bun.IDB) error {
	if e.byIndex == "" {
		return nil
	}
	_, err := q.NewRaw(e.byIndex).Exec(ctx)
	return err
}

// The dialects keep NUL, which no text of either database can hold, visible:
// it comes in names and texts of strangers, and must not fail a transaction.
type (
	postgresDialect struct{ *pgdialect.Dialect }
	sqliteDialect   struct{ *sqlitedialect.Dialect }
)

func (d postgresDialect) AppendString(b []byte, s string) []byte {
	return d.Dialect.AppendString(b, showNUL(s))
}

func (d sqliteDialect) AppendString(b []byte, s string) []byte {
	return d.Dialect.AppendString(b, showNUL(s))
}

func showNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// asText makes any string one that a database can be asked for.
func asText(s string) string { return showNUL(strings.ToValidUTF8(s, "\uFFFD")) }

var (
	_ schema.Dialect = postgresDialect{}
	_ schema.Dialect = sqliteDialect{}
)
