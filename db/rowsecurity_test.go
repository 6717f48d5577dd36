package db_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/db"
	"countersign/registry"
)

// withoutTenants are the tables that hold nothing of tenants.
var withoutTenants = []string{"schema_migrations"}

func TestEveryTableIsUnderRowSecurity(t *testing.T) {
	t.Parallel()
	pool := raw(t, postgresDB(t))
	got := strings.Join(column[string](t, pool, `SELECT relname FROM pg_class AS c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'm', 'v', 'f')
AND NOT EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) ORDER BY 1`), " ")
	if want := strings.Join(withoutTenants, " "); got != want {
		t.Errorf("tables without tenant_id: %s; want %s. A new one belongs into this list only if it holds nothing of tenants", got, want)
	}
	if len(tenantTables(t, pool)) < 20 {
		t.Error("the test finds no tables")
	}
	for _, table := range tenantTables(t, pool) {
		var enabled, forced bool
		err := pool.QueryRowContext(t.Context(), "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = $1::regclass", table).Scan(&enabled, &forced)
		if err != nil || !enabled || !forced {
			t.Errorf("row security of %s: enabled %v, forced %v: %v", table, enabled, forced, err)
		}
		want := []string{
			"countersign_migration ALL postgres (current_setting('countersign.migrating'::text, true) = 'on'::text)",
			"countersign_system ALL countersign_system (CURRENT_USER = 'countersign_system'::name)",
			"countersign_tenant ALL countersign_app (tenant_id = current_setting('countersign.tenant'::text, true))",
		}
		policies := column[string](t, pool, `SELECT policyname || ' ' || cmd || ' ' || array_to_string(roles, ',') || ' ' || qual FROM pg_policies
WHERE tablename = $1 AND permissive = 'PERMISSIVE' AND qual = with_check ORDER BY 1`, table)
		if diff := cmp.Diff(want, policies); diff != "" {
			t.Errorf("policies of %s: %s", table, diff)
		}
	}
}

// A table that a later migration makes needs nothing but its column.
func TestANewTableComesUnderRowSecurity(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	exec(t, d, "CREATE TABLE later (tenant_id TEXT NOT NULL, what TEXT)", "INSERT INTO later VALUES ('acme', 'a'), ('globex', 'b')")
	refused(t, d.Check(t.Context()), registry.ReasonRowSecurity)
	if _, err := d.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	app := as(t, d, "countersign_app", "globex")
	if got := column[string](t, app, "SELECT what FROM later"); !cmp.Equal(got, []string{"b"}) {
		t.Errorf("globex finds %v", got)
	}
	if _, err := as(t, d, "countersign_system", "").ExecContext(t.Context(), "SELECT FROM later"); err == nil {
		t.Error("the system's role reads a table that no method of its needs")
	}
}

func TestAQueryThatForgetsTheTenantFindsNothing(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	acme, globex := everything(t, d, "acme"), everything(t, d, "globex")
	pool := raw(t, d)
	exec(t, d, "CREATE SCHEMA spare", "GRANT USAGE ON SCHEMA spare TO countersign_app")
	for _, table := range tenantTables(t, pool) {
		total, theirs := value[int](t, pool, "SELECT count(*) FROM "+table), value[int](t, pool, "SELECT count(*) FROM "+table+" WHERE tenant_id = 'acme'")
		if theirs == 0 || total <= theirs {
			t.Errorf("%s: %d rows, %d of them acme's: the test shows nothing", table, total, theirs)
		}
		forgetful := as(t, d, "countersign_app", "")
		if n := value[int](t, forgetful, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%s: %d rows without a tenant", table, n)
		}
		if n := value[int](t, as(t, d, "countersign_app", "acme"), "SELECT count(*) FROM "+table); n != theirs {
			t.Errorf("%s: acme finds %d rows, has %d", table, n, theirs)
		}
		if n := value[int](t, as(t, d, "countersign_app", "acme"), "SELECT count(*) FROM "+table+" WHERE tenant_id <> 'acme'"); n != 0 {
			t.Errorf("%s: acme finds %d rows of others", table, n)
		}
		exec(t, d, fmt.Sprintf("CREATE TABLE spare.%[1]s AS TABLE %[1]s; DELETE FROM spare.%[1]s WHERE tenant_id <> 'globex'; GRANT SELECT ON spare.%[1]s TO countersign_app", table))
		written := value[string](t, pool, "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = '"+table+"'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''")
		adding := "row-level security"
		if table == "audit_checkpoints" || table == "audit_heads" { // only read
			adding = "permission denied"
		}
		for _, tenant := range []string{"", "acme"} {
			denied(t, as(t, d, "countersign_app", tenant), fmt.Sprintf("INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM spare.%[1]s", table, written), adding)
		}
		switch table {
		case "audit", "audit_checkpoints", "audit_heads", "connections", "decisions", "fact_records", "outbox", "policies", "server_targets", "server_versions": // only added to, or read
			denied(t, as(t, d, "countersign_app", "acme"), "UPDATE "+table+" SET tenant_id = tenant_id", "permission denied")
			denied(t, as(t, d, "countersign_app", "acme"), "DELETE FROM "+table, "permission denied")
		default:
			for _, statement := range []string{"UPDATE " + table + " SET tenant_id = tenant_id WHERE tenant_id = 'globex'", "DELETE FROM " + table} {
				result, err := forgetful.ExecContext(t.Context(), statement)
				if err != nil {
					t.Errorf("%s: %v", statement, err)
				} else if n, _ := result.RowsAffected(); n != 0 {
					t.Errorf("%s: %d rows without a tenant", statement, n)
				}
			}
		}
		denied(t, as(t, d, "countersign_app", "acme"), "TRUNCATE "+table+" CASCADE", "permission denied")
	}
	denied(t, as(t, d, "countersign_app", "acme"), "UPDATE mcp_servers SET tenant_id = 'globex'", "row-level security")
	denied(t, as(t, d, "countersign_app", "acme"), "CREATE TABLE mine (id INT)", "permission denied")
	denied(t, as(t, d, "countersign_app", "acme"), "ALTER TABLE tools DISABLE ROW LEVEL SECURITY", "must be owner")
	acme.resolves("weather.forecast", "")
	globex.resolves("weather.forecast", "")
}

// The methods of SystemStore are all there is that sees several tenants. Each
// is here, so that a new one is not forgotten, nor what its role may do.
func TestTheSystemSeesAllTenantsAndMayDoLittle(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	everything(t, d, "acme")
	everything(t, d, "globex")
	y, ctx := d.System(), t.Context()
	var ids []string
	var seen []registry.Probe
	var claimed []registry.Lane
	var received []registry.InboundEvent
	window := time.Date(2030, 1, 2, 3, 5, 0, 0, time.UTC)
	tenants := func(n int, tenant func(i int) string) []string {
		var out []string
		for i := range n {
			if len(out) == 0 || out[len(out)-1] != tenant(i) {
				out = append(out, tenant(i))
			}
		}
		return out
	}
	calls := []struct {
		method string
		call   func() ([]string, error) // the tenants that it sees
	}{
		{"Check", func() ([]string, error) { return []string{"acme", "globex"}, y.Check(ctx) }},
		{"ProbePage", func() ([]string, error) {
			targets, _, err := y.ProbePage(ctx, "", 10)
			for _, target := range targets {
				ids = append(ids, target.Server.ServerID)
				seen = append(seen, registry.Probe{
					ServerID: target.Server.ServerID, TenantID: target.Server.TenantID, Window: window, At: window, Since: window, Outcome: "healthy",
				})
			}
			return tenants(len(targets), func(i int) string { return targets[i].Server.TenantID }), err
		}},
		{"LiveServers", func() ([]string, error) {
			live, _, err := y.LiveServers(ctx, "", 100)
			return tenants(len(live), func(i int) string { return live[i].Server.TenantID }), err
		}},
		{"PlanSweep", func() ([]string, error) {
			plan, err := y.PlanSweep(ctx, window, 1)
			return tenants(min(plan.Quick, 2), func(i int) string { return []string{"acme", "globex"}[i] }), err
		}},
		{"SweepTargets", func() ([]string, error) {
			targets, err := y.SweepTargets(ctx, db.SweepQuery{Window: window})
			return tenants(len(targets), func(i int) string { return targets[i].Server.TenantID }), err
		}},
		{"RecordProbes", func() ([]string, error) {
			rows, err := y.RecordProbes(ctx, seen, 0)
			return tenants(len(rows), func(i int) string { return rows[i].TenantID }), err
		}},
		{"RecordedProbes", func() ([]string, error) {
			rows, err := y.RecordedProbes(ctx, window, ids)
			return tenants(len(ids), func(i int) string { return rows[ids[i]].TenantID }), err
		}},
		{"OutboxAfter", func() ([]string, error) {
			rows, _ := follow(t, count(t, d, "SELECT count(*) FROM outbox"), y.OutboxAfter)
			return tenants(len(rows), func(i int) string { return rows[i].TenantID }), nil
		}},
		{"AuditAfter", func() ([]string, error) {
			rows, _ := follow(t, count(t, d, "SELECT count(*) FROM audit"), y.AuditAfter)
			return tenants(len(rows), func(i int) string { return rows[i].TenantID }), nil
		}},
		{"AuditBacklogs", func() ([]string, error) {
			exec(t, d, "INSERT INTO audit (tenant_id, audit_id, at, actor, roles, origin, action, object_kind, object_id, object_name, operation_id, outcome, reason, version_before, version_after, digest_before, digest_after, note, detail) "+
				"SELECT DISTINCT ON (tenant_id) tenant_id, 'again ' || audit_id, at, actor, roles, origin, action, object_kind, object_id, object_name, operation_id, outcome, reason, version_before, version_after, digest_before, digest_after, note, detail FROM audit")
			behind, err := y.AuditBacklogs(ctx, true)
			return tenants(len(behind), func(i int) string { return behind[i].Tenant }), err
		}},
		{"SealAudit", func() ([]string, error) {
			sealed(t, d, "acme")
			sealed(t, d, "globex")
			return tenants(2, func(i int) string { return []string{"acme", "globex"}[i] }), nil
		}},
		{"PruneSnapshots", func() ([]string, error) {
			exec(t, d, "UPDATE snapshots SET seen_at = '2020-01-01' WHERE digest = 'sha256:unneeded'")
			pruned, err := y.PruneSnapshots(ctx, time.Hour, 100)
			if pruned.Snapshots != 2 {
				t.Errorf("pruned %+v", pruned)
			}
			return []string{"acme", "globex"}, err
		}},
		{"PruneProbes", func() ([]string, error) {
			exec(t, d, "UPDATE probes SET probe_window = '2020-01-01' WHERE probe_window = '2030-01-02 03:00+00'")
			n, err := y.PruneProbes(ctx, time.Hour, 100)
			if n != 2 {
				t.Errorf("pruned %d", n)
			}
			return []string{"acme", "globex"}, err
		}},
		{"PruneOperations", func() ([]string, error) {
			exec(t, d, "UPDATE idempotency_keys SET created_at = '2020-01-01'", "UPDATE applied_operations SET at = '2020-01-01' WHERE name = 'register'")
			pruned, err := y.PruneOperations(ctx, time.Hour, time.Hour, 100)
			if want := (db.PrunedOperations{Keys: 2, Operations: 4}); pruned != want {
				t.Errorf("pruned %+v, want %+v", pruned, want)
			}
			return []string{"acme", "globex"}, err
		}},
		{"RelayEvents", func() ([]string, error) {
			exec(t, d, "UPDATE outbox SET relayed = FALSE")
			n, err := y.RelayEvents(ctx, []string{"installation/log"}, 1000)
			if want := count(t, d, "SELECT count(*) FROM outbox"); n != want {
				t.Errorf("relayed %d events of %d", n, want)
			}
			return []string{"acme", "globex"}, err
		}},
		{"EventBacklog", func() ([]string, error) {
			b, err := y.EventBacklog(ctx)
			return tenants(min(b.Pending, 2), func(i int) string { return []string{"acme", "globex"}[i] }), err
		}},
		{"Vitals", func() ([]string, error) {
			v, err := y.Vitals(ctx)
			return tenants(len(v.Servers), func(i int) string { return v.Servers[i].Tenant }), err
		}},
		{"ClaimLanes", func() ([]string, error) {
			lanes, err := y.ClaimLanes(ctx, []string{"sub_acme", "sub_globex"}, 1000, time.Minute)
			claimed = lanes
			slices.SortFunc(lanes, func(a, b registry.Lane) int { return strings.Compare(a.TenantID, b.TenantID) })
			return tenants(len(lanes), func(i int) string { return lanes[i].TenantID }), err
		}},
		{"Parcels", func() ([]string, error) {
			var out []string
			for _, lane := range []registry.Lane{claimed[0], claimed[len(claimed)-1]} {
				parcels, _, err := y.Parcels(ctx, lane, 1)
				if err != nil || len(parcels) != 1 {
					return nil, err
				}
				out = append(out, parcels[0].Event.TenantID)
			}
			return out, nil
		}},
		{"SettleLane", func() ([]string, error) {
			for _, lane := range claimed {
				if mine, err := y.SettleLane(ctx, lane, nil, 0); err != nil || !mine {
					return nil, fmt.Errorf("%t: %w", mine, err)
				}
			}
			return []string{"acme", "globex"}, nil
		}},
		{"PruneEvents", func() ([]string, error) {
			exec(t, d, "UPDATE event_deliveries SET state = 'delivered', created_at = '2020-01-01'", "UPDATE outbox SET occurred_at = '2020-01-01' WHERE aggregate LIKE 'agent/%'")
			n, err := y.PruneEvents(ctx, time.Hour, 1000)
			if n == 0 {
				t.Error("nothing was pruned")
			}
			return []string{"acme", "globex"}, err
		}},
		{"ClaimInbound", func() ([]string, error) {
			rows, err := y.ClaimInbound(ctx, 10, time.Minute)
			received = rows
			slices.SortFunc(rows, func(a, b registry.InboundEvent) int { return strings.Compare(a.TenantID, b.TenantID) })
			return tenants(len(rows), func(i int) string { return rows[i].TenantID }), err
		}},
		{"SettleInbound", func() ([]string, error) {
			for _, e := range received {
				e.State = registry.InboundDone
				if err := y.SettleInbound(ctx, e, 0); err != nil {
					return nil, err
				}
			}
			return tenants(count(t, d, "SELECT count(*) FROM inbound_events WHERE state = 'done'"), func(i int) string { return []string{"acme", "globex"}[i] }), nil
		}},
	}
	known := map[string]bool{}
	for _, c := range calls {
		known[c.method] = true
		if got, err := c.call(); err != nil || !cmp.Equal(got, []string{"acme", "globex"}) {
			t.Errorf("%s sees %v: %v", c.method, got, err)
		}
	}
	for method := range reflect.TypeFor[*db.SystemStore]().Methods() {
		if !known[method.Name] {
			t.Errorf("method %s is not in this test", method.Name)
		}
	}
	system := as(t, d, "countersign_system", "")
	for _, statement := range []string{
		"UPDATE mcp_servers SET owner = 'me'", "DELETE FROM mcp_servers", "UPDATE tools SET enabled = TRUE",
		"INSERT INTO outbox OVERRIDING SYSTEM VALUE SELECT * FROM outbox", "INSERT INTO mcp_tool_bindings SELECT * FROM mcp_tool_bindings",
		"SELECT FROM mcp_prompt_bindings", "SELECT key FROM idempotency_keys", "SELECT answer FROM idempotency_keys",
		"SELECT FROM idempotency_keys FOR UPDATE", "UPDATE idempotency_keys SET created_at = created_at", "SELECT result FROM applied_operations",
		"INSERT INTO audit OVERRIDING SYSTEM VALUE SELECT * FROM audit",
		"DELETE FROM audit", "DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET head = head", "DELETE FROM audit_heads", "UPDATE descriptors SET class = 'read'",
		"UPDATE event_subscriptions SET url = ''", "DELETE FROM event_subscriptions", "INSERT INTO inbound_events SELECT * FROM inbound_events", "DELETE FROM assignments",
	} {
		denied(t, system, statement, "permission denied")
	}
}

// On databases that others manage nobody is a superuser.
func TestAnOwnerThatIsNoSuperuserIsEnough(t *testing.T) {
	t.Parallel()
	m := managed(t)
	owner := m.login("owner", "CREATEROLE")
	m.exec("ALTER DATABASE " + m.database + " OWNER TO " + owner.name)
	d := m.open(db.Options{URL: owner.url})
	if _, err := d.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := everything(t, d, "acme")
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.System().Check(t.Context()); err != nil {
		t.Error(err)
	}
	if targets, _, err := d.System().ProbePage(t.Context(), "", 10); err != nil || len(targets) != 1 {
		t.Errorf("the system sees %d servers: %v", len(targets), err)
	}
	w.resolves("weather.forecast", "")
	pool := m.pool(owner.url)
	for _, table := range tenantTables(t, pool) {
		if n := value[int](t, pool, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("outside of a transaction of ours, the owner finds %d rows of %s", n, table)
		}
	}
	// A migration that works on rows finds them.
	m.exec("DELETE FROM tool_search")
	if _, err := d.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.finds(db.ToolQuery{Words: []string{"forecast"}}); len(got) != 1 {
		t.Errorf("the search finds %v after it was filled", got)
	}
	if err := d.Down(t.Context(), 100); err != nil {
		t.Error(err)
	}
}

func TestEachPartCanHaveALoginOfItsOwn(t *testing.T) {
	t.Parallel()
	m := managed(t)
	owner, app, system := m.login("owner", "CREATEROLE"), m.login("login", ""), m.login("jobs", "")
	m.exec("ALTER DATABASE " + m.database + " OWNER TO " + owner.name)
	if _, err := m.open(db.Options{URL: app.url, SystemURL: system.url, MigrateURL: owner.url}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := m.open(db.Options{URL: app.url, SystemURL: system.url})
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	everything(t, d, "acme").resolves("weather.forecast", "")
	if targets, _, err := d.System().ProbePage(t.Context(), "", 10); err != nil || len(targets) != 1 {
		t.Errorf("the system sees %d servers: %v", len(targets), err)
	}
	alone := m.open(db.Options{URL: app.url})
	if err := alone.Check(t.Context()); err != nil {
		t.Error(err)
	}
	e := refused(t, alone.System().Check(t.Context()), registry.ReasonRowSecurity)
	if !strings.Contains(e.Next, "GRANT") {
		t.Errorf("what to do: %s", e.Next)
	}
	_, _, err := alone.System().ProbePage(t.Context(), "", 10)
	refused(t, err, registry.ReasonRowSecurity)
	denied(t, m.pool(app.url), "SET ROLE "+m.roles.SystemRole, "permission denied")
	if _, err := m.open(db.Options{URL: app.url}).Up(t.Context()); err == nil {
		t.Error("the login of the application migrates")
	}
}

// The login may be the role itself, as with a pooler or a database that knows
// no other way.
func TestTheLoginMayBeTheRoleItself(t *testing.T) {
	t.Parallel()
	m := managed(t)
	app := m.login("itself", "")
	m.roles.AppRole = app.name
	if _, err := m.open(db.Options{URL: m.dsn}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := m.open(db.Options{URL: app.url, SystemURL: m.dsn})
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	everything(t, d, "acme").resolves("weather.forecast", "")
}

func TestNothingStartsWithoutRowSecurity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil []string // of %s, the role of the application
		next  string
		mends bool // so that migrating does it
	}{
		"a superuser":         {spoil: []string{"ALTER ROLE %s SUPERUSER"}, next: "NOSUPERUSER"},
		"BYPASSRLS":           {spoil: []string{"ALTER ROLE %s BYPASSRLS"}, next: "NOBYPASSRLS"},
		"an owner":            {spoil: []string{"ALTER TABLE tools OWNER TO %s"}, next: "REVOKE"},
		"a member of owners":  {spoil: []string{"GRANT postgres TO %s"}, next: "REVOKE"},
		"off":                 {spoil: []string{"ALTER TABLE tools DISABLE ROW LEVEL SECURITY"}, next: "migrate up", mends: true},
		"not forced":          {spoil: []string{"ALTER TABLE tools NO FORCE ROW LEVEL SECURITY"}, next: "migrate up", mends: true},
		"no policy":           {spoil: []string{"DROP POLICY countersign_tenant ON tools"}, next: "migrate up", mends: true},
		"for all":             {spoil: []string{"ALTER POLICY countersign_system ON tools TO PUBLIC"}, next: "migrate up", mends: true},
		"admits everything":   {spoil: []string{"ALTER POLICY countersign_tenant ON tools USING (TRUE)"}, next: "migrate up", mends: true},
		"admits what is new":  {spoil: []string{"ALTER POLICY countersign_tenant ON tools WITH CHECK (TRUE)"}, next: "migrate up", mends: true},
		"another setting":     {spoil: []string{"ALTER POLICY countersign_tenant ON tools USING (tenant_id = current_setting('my.tenant', true))"}, next: "migrate up", mends: true},
		"reads alone":         {spoil: []string{"DROP POLICY countersign_tenant ON tools", "CREATE POLICY countersign_tenant ON tools FOR SELECT TO %s USING (tenant_id = current_setting('countersign.tenant', true))"}, next: "migrate up", mends: true},
		"a policy of others'": {spoil: []string{"CREATE POLICY open ON tools USING (TRUE)"}, next: "drop the policies"},
		"no schema":           {spoil: []string{"ALTER ROLE %s RENAME TO %[1]s_gone"}, next: "migrate up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := managed(t)
			d := m.open(db.Options{URL: m.dsn})
			if _, err := d.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := d.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, statement := range c.spoil {
				if strings.Contains(statement, "%") {
					statement = fmt.Sprintf(statement, m.roles.AppRole)
				}
				m.exec(statement)
			}
			e := refused(t, d.Check(t.Context()), registry.ReasonRowSecurity)
			if !strings.Contains(e.Next, c.next) {
				t.Errorf("%s: what to do is %q, want %q in it", e.Message, e.Next, c.next)
			}
			if c.mends {
				if _, err := d.Up(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := d.Check(t.Context()); err != nil {
					t.Errorf("migrating does not mend it: %v", err)
				}
			}
			if name == "no schema" {
				m.exec("DROP OWNED BY " + m.roles.AppRole + "_gone; DROP ROLE " + m.roles.AppRole + "_gone")
			}
		})
	}
}

func TestWhoMayNotMakeRolesIsToldWhatAnAdministratorHasToDo(t *testing.T) {
	t.Parallel()
	m := managed(t)
	owner := m.login("owner", "")
	m.exec("ALTER DATABASE " + m.database + " OWNER TO " + owner.name)
	d := m.open(db.Options{URL: owner.url})
	for _, want := range []string{"CREATE ROLE", "GRANT", "CREATE ROLE", "GRANT"} {
		_, err := d.Up(t.Context())
		e := refused(t, err, registry.ReasonRowSecurity)
		statement, found := strings.CutPrefix(e.Next, "as an administrator of the database: ")
		if !found || !strings.HasPrefix(statement, want) {
			t.Fatalf("what to do is %q, want %s", e.Next, want)
		}
		if create, _, found := strings.Cut(statement, "; "); found {
			statement = create // and the grant the next time
		}
		m.exec(statement)
	}
	if _, err := d.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRolesThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []db.Options{
		{AppRole: "none"}, {SystemRole: "NONE"}, {AppRole: "same", SystemRole: "same"}, {AppRole: strings.Repeat("x", 64)}, {AppRole: "a\x00"},
	} {
		o.URL = "postgres://127.0.0.1:1/none"
		_, err := db.Open(t.Context(), o)
		refused(t, err, registry.ReasonInvalidArgument)
	}
	_, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + t.TempDir() + "/registry.db", SystemURL: "postgres://127.0.0.1:1/none"})
	refused(t, err, registry.ReasonInvalidArgument)
}

// Migrating what is migrated waits for nobody who reads or writes.
func TestMigratingAgainLocksNoTable(t *testing.T) {
	t.Parallel()
	d := postgresDB(t)
	tx, err := raw(t, d).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, table := range tenantTables(t, raw(t, d)) {
		if _, err := tx.ExecContext(t.Context(), "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Up(t.Context()); err != nil {
		t.Error(err)
	}
}

// everything fills every table of a tenant.
func everything(tb testing.TB, d *db.DB, tenant string) *world {
	tb.Helper()
	w, ctx := newWorld(tb, d, tenant), tb.Context()
	g := w.registration("weather")
	s := w.must(w.Register(ctx, g, named("register"), claim("k", "b")))
	s = w.approve(w.discover(s.ServerID, surface("forecast")), "forecast")
	w.assign("agent", "weather.forecast", "")
	stdio := w.registration("files")
	stdio.Transport, stdio.URL, stdio.CommandRef, stdio.Authentication = registry.TransportStdio, "", "files", registry.AuthWorkloadIdentity
	stdio.Command = &registry.Command{Ref: "files", Argv: []string{"/bin/true"}, Sandbox: registry.SandboxBubblewrap}
	if _, err := w.Register(ctx, stdio, named("register"), nil); err != nil {
		tb.Fatal(err)
	}
	if err := w.SaveSnapshot(ctx, &registry.Snapshot{Digest: "sha256:unneeded"}); err != nil {
		tb.Fatal(err)
	}
	w.connect("shared")
	w.publishes("payments", 1)
	w.extend("tools")
	w.plan("tools", declared([]string{"utils"}, [3]string{"hash", "utils", "hash"}))
	k := registry.DecisionToken{TokenID: "dtk_" + tenant, ServerID: s.ServerID, Verb: registry.VerbReject, Digest: "d", Subject: "ann"}
	if _, err := w.MintToken(ctx, k, "secret of "+tenant, time.Hour, named("mint_token")); err != nil {
		tb.Fatal(err)
	}
	for _, u := range []registry.Subscription{subscription("sub_" + tenant), receiving("in_" + tenant)} {
		if _, err := w.CreateSubscription(ctx, u, named("subscribe")); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.TestSubscription(ctx, "sub_"+tenant, named("test_subscription")); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.TakeIn(ctx, registry.InboundEvent{SubscriptionID: "in_" + tenant, EventID: "e", Type: registry.EventAssetReleaseRevoked, Data: []byte("{}")}); err != nil {
		tb.Fatal(err)
	}
	sealed(tb, d, tenant)
	window := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	_, err := d.System().RecordProbes(ctx, []registry.Probe{{
		ServerID: s.ServerID, TenantID: tenant, Window: window, At: window, Since: window, Outcome: "healthy", Era: "modern",
	}}, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}
