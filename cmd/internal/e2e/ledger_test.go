package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"countersign/registry"
)

// ledger is what a database holds of the servers' lives.
type ledger struct {
	servers   map[string]*serverEntry
	audit     []auditEntry
	events    []eventEntry
	decisions []decisionEntry
	applied   map[[2]string]string // server and operation id → name, of the operations that were recorded
}

type serverEntry struct {
	id, tenant, name  string
	state             registry.State
	version, eventSeq int64
}

type auditEntry struct {
	server, operation, action, outcome string
	before, after                      int64
	detail                             string
}

type eventEntry struct {
	server, operation string
	kind              registry.EventType
	seq               int64
	data              []byte
}

type decisionEntry struct {
	server, subject string
	verb            registry.Verb
	applied         bool
	reason          registry.Reason
	origin          registry.Origin
}

// readSQLite reads the database of a process that has ended.
func readSQLite(t *testing.T, path string) *ledger {
	t.Helper()
	return read(t, "sqlite", "file:"+path+"?mode=ro&_timezone=UTC")
}

func readPostgres(t *testing.T, dsn string) *ledger {
	t.Helper()
	return read(t, "pgx", dsn)
}

func read(t *testing.T, driver, dsn string) *ledger {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := &ledger{servers: map[string]*serverEntry{}, applied: map[[2]string]string{}}
	query(t, db, "SELECT server_id, tenant_id, name, state, version, event_seq FROM mcp_servers", func(scan func(...any) error) error {
		var s serverEntry
		err := scan(&s.id, &s.tenant, &s.name, &s.state, &s.version, &s.eventSeq)
		l.servers[s.id] = &s
		return err
	})
	query(t, db, "SELECT object_id, operation_id, action, outcome, version_before, version_after, detail FROM audit ORDER BY id", func(scan func(...any) error) error {
		var a auditEntry
		err := scan(&a.server, &a.operation, &a.action, &a.outcome, &a.before, &a.after, &a.detail)
		l.audit = append(l.audit, a)
		return err
	})
	query(t, db, "SELECT aggregate, correlation_id, event_type, seq, data FROM outbox ORDER BY tenant_id, aggregate, seq", func(scan func(...any) error) error {
		var e eventEntry
		err := scan(&e.server, &e.operation, &e.kind, &e.seq, &e.data)
		l.events = append(l.events, e)
		return err
	})
	query(t, db, "SELECT server_id, subject, verb, applied, reason, origin FROM decisions ORDER BY decided_at, decision_id", func(scan func(...any) error) error {
		var d decisionEntry
		err := scan(&d.server, &d.subject, &d.verb, &d.applied, &d.reason, &d.origin)
		l.decisions = append(l.decisions, d)
		return err
	})
	query(t, db, "SELECT server_id, operation_id, name FROM applied_operations", func(scan func(...any) error) error {
		var server, operation, name string
		err := scan(&server, &operation, &name)
		l.applied[[2]string{server, operation}] = name
		return err
	})
	return l
}

func query(t *testing.T, db *sql.DB, statement string, row func(scan func(...any) error) error) {
	t.Helper()
	rows, err := db.QueryContext(context.WithoutCancel(t.Context()), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// isServer tells a server's id from what else audit rows and events are about,
// such as policies.
func isServer(id string) bool { return strings.HasPrefix(id, "srv_") }

// check wants what must be true of every database, whatever happened to the
// processes: nothing is missing, nothing is there twice.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	live := map[[2]string]string{}
	for _, s := range l.servers {
		name := [2]string{s.tenant, s.name}
		if s.state != registry.StateRetired {
			if other, twice := live[name]; twice {
				t.Errorf("%s and %s both have the name %v", s.id, other, name)
			}
			live[name] = s.id
		}
	}
	l.checkAudit(t)
	l.checkEvents(t)
}

// checkAudit wants every operation once, and the versions to follow each other
// without a gap up to the server's.
func (l *ledger) checkAudit(t *testing.T) {
	t.Helper()
	version := map[string]int64{}
	seen := map[[2]string]bool{}
	for _, a := range l.audit {
		if !isServer(a.server) {
			continue
		}
		key := [2]string{a.server, a.operation}
		if seen[key] {
			t.Errorf("%s: operation %s (%s) is audited twice", a.server, a.operation, a.action)
		}
		seen[key] = true
		if a.outcome != "applied" {
			continue
		}
		if a.before != version[a.server] || a.after != a.before && a.after != a.before+1 {
			t.Errorf("%s: %s goes from version %d to %d, but it was at %d", a.server, a.action, a.before, a.after, version[a.server])
		}
		version[a.server] = a.after
		if l.applied[key] == "" {
			t.Errorf("%s: %s is audited, and the operation %s is not recorded", a.server, a.action, a.operation)
		}
	}
	for id, s := range l.servers {
		if version[id] != s.version {
			t.Errorf("%s is at version %d, the audit trail at %d", id, s.version, version[id])
		}
	}
}

// checkEvents wants the events of each server to be numbered without a gap, to
// begin with its registration, and its states to follow each other.
func (l *ledger) checkEvents(t *testing.T) {
	t.Helper()
	seq, state := map[string]int64{}, map[string]registry.State{}
	for _, e := range l.events {
		if !isServer(e.server) {
			continue
		}
		if seq[e.server]++; e.seq != seq[e.server] {
			t.Errorf("%s: event %d follows %d", e.server, e.seq, seq[e.server]-1)
		}
		if (e.kind == registry.EventServerRegistered) != (e.seq == 1) {
			t.Errorf("%s: event %d is %s", e.server, e.seq, e.kind)
		}
		if e.seq == 1 {
			state[e.server] = registry.StateRegistered
		}
		if e.kind == registry.EventServerStateChanged {
			var change registry.ServerStateChanged
			if err := json.Unmarshal(e.data, &change); err != nil || change.FromState != state[e.server] || change.ToState == change.FromState {
				t.Errorf("%s: event %d says %s, but it was %s (%v)", e.server, e.seq, e.data, state[e.server], err)
			}
			state[e.server] = change.ToState
		}
	}
	for id, s := range l.servers {
		if seq[id] != s.eventSeq || state[id] != s.state {
			t.Errorf("%s is %s with %d events, the outbox says %s and %d", id, s.state, s.eventSeq, state[id], seq[id])
		}
	}
}

// named gives the ids of the servers that have or had a name.
func (l *ledger) named(tenant, name string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(l.servers)) {
		if s := l.servers[id]; s.tenant == tenant && s.name == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// did counts what was done to a server, by action.
func (l *ledger) did(server string) map[string]int {
	counts := map[string]int{}
	for _, a := range l.audit {
		// A repeat that finds what it asks for is audited, too.
		if a.server == server && a.outcome == "applied" && !strings.Contains(a.detail, `"unchanged"`) {
			counts[a.action]++
		}
	}
	return counts
}

// states gives the states that a server went through, as its events say.
func (l *ledger) states(server string) []registry.State {
	states := []registry.State{registry.StateRegistered}
	for _, e := range l.events {
		var change registry.ServerStateChanged
		if e.server == server && e.kind == registry.EventServerStateChanged && json.Unmarshal(e.data, &change) == nil {
			states = append(states, change.ToState)
		}
	}
	return states
}

// decided counts the decisions on a server that count, by verb.
func (l *ledger) decided(server string) map[registry.Verb]int {
	counts := map[registry.Verb]int{}
	for _, d := range l.decisions {
		if d.server == server && d.applied {
			counts[d.verb]++
		}
	}
	return counts
}
