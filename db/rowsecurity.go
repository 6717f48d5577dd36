package db

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"countersign/registry"
)

// systemMay is all that the role of SystemStore may do, by table and in the
// order of the alphabet: what its methods do and no more. It sees the rows of
// all tenants.
var systemMay = map[string]string{
	"applied_operations":  "DELETE",
	"audit":               "SELECT, UPDATE", // a trigger lets it seal a row once, and no more
	"audit_checkpoints":   "INSERT, SELECT",
	"audit_heads":         "INSERT, SELECT, UPDATE",
	"commands":            "SELECT",
	"connections":         "SELECT",
	"decisions":           "SELECT",
	"definitions":         "DELETE, SELECT",
	"event_deliveries":    "DELETE, INSERT, SELECT, UPDATE",
	"event_lanes":         "DELETE, INSERT, SELECT, UPDATE",
	"event_subscriptions": "SELECT",
	"idempotency_keys":    "DELETE",
	"inbound_events":      "DELETE, SELECT, UPDATE",
	"mcp_servers":         "SELECT",
	"mcp_tool_bindings":   "SELECT",
	"outbox":              "DELETE, SELECT, UPDATE",
	"probes":              "DELETE, INSERT, SELECT",
	"providers":           "SELECT",
	"server_probe_state":  "INSERT, SELECT, UPDATE",
	"snapshot_items":      "SELECT",
	"snapshots":           "DELETE, SELECT",
	"tools":               "SELECT",
}

// systemSees are the columns that the role of SystemStore may read of tables
// which it may not read otherwise.
var systemSees = map[string]string{"applied_operations": "at", "idempotency_keys": "created_at"}

// addedTo are the tables to which tenants only ever add rows.
var addedTo = []string{"audit", "connections", "decisions", "fact_records", "outbox", "policies", "server_targets", "server_versions"}

// readOnly are the tables that are the system's, and tenants read.
var readOnly = []string{"audit_checkpoints", "audit_heads"}

// check refuses names of roles that mean no role of their own.
func (r roles) check() error {
	for _, role := range []string{r.app, r.system} {
		if len(role) > 63 || role != asText(role) || strings.EqualFold(role, "none") {
			return registry.Errorf(registry.ReasonInvalidArgument, "%q cannot be the name of a database role", role)
		}
	}
	if r.app == r.system {
		return registry.Errorf(registry.ReasonInvalidArgument, "the roles of tenants and of the system must be two")
	}
	return nil
}

// policies are those of every table: for whom each is, empty the owner, and
// which rows it admits. current_user keeps those out that are only members of
// the system's role; the owner is held too, but in migrations.
func (r roles) policies() []policy {
	return []policy{
		{"countersign_tenant", r.app, "tenant_id = current_setting('" + tenantSetting + "', true)"},
		{"countersign_system", r.system, "CURRENT_USER = " + literal(r.system)},
		{"countersign_migration", "", "current_setting('" + migratingSetting + "', true) = 'on'"},
	}
}

type policy struct{ name, role, admits string }

// tenantTables selects the tables with rows of tenants, and what keeps them.
const tenantTables = `SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS held,
  COALESCE((SELECT json_object_agg(p.polname, json_build_object(
      'for', (SELECT string_agg(CASE r WHEN 0 THEN 'public' ELSE pg_get_userbyid(r)::text END, ',') FROM unnest(p.polroles) AS r),
      'does', p.polcmd, 'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid)))
    FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polpermissive), '{}')::text AS policies,
  COALESCE((SELECT json_object_agg(g.grantee, g.may) FROM (
    SELECT pg_get_userbyid(x.grantee) AS grantee, string_agg(x.privilege_type, ', ' ORDER BY x.privilege_type) AS may
    FROM aclexplode(c.relacl) AS x WHERE x.grantee <> 0 GROUP BY 1) AS g), '{}')::text AS grants,
  COALESCE((SELECT json_object_agg(g.grantee, g.sees) FROM (
    SELECT pg_get_userbyid(x.grantee) AS grantee, string_agg(a.attname, ', ' ORDER BY a.attname) AS sees
    FROM pg_attribute AS a, aclexplode(a.attacl) AS x WHERE a.attrelid = c.oid AND x.privilege_type = 'SELECT' AND x.grantee <> 0 GROUP BY 1) AS g), '{}')::text AS columns,
  pg_get_userbyid(c.relowner)::text AS owner, row_security_active(c.oid) AS active, pg_has_role(c.relowner, 'MEMBER') AS owned
FROM pg_class AS c
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND c.relnamespace <> 'pg_catalog'::regnamespace
  AND EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
ORDER BY c.relname`

type tenantTable struct {
	Name     string            `bun:"name"`
	Held     bool              `bun:"held"`
	Policies map[string]held   `bun:"policies"` // by name
	Grants   map[string]string `bun:"grants"`   // to each role, in the order of the alphabet
	Columns  map[string]string `bun:"columns"`  // that each role may read, besides, in that order
	Owner    string            `bun:"owner"`
	Active   bool              `bun:"active"` // for whoever asks
	Owned    bool              `bun:"owned"`  // by whoever asks, or by a role it may take
}

// held is a policy as the database has it.
type held struct {
	For   string `json:"for"`  // roles
	Does  string `json:"does"` // "*": everything
	Using string `json:"using"`
	Check string `json:"check"`
}

// is says whether a policy is another one, for a role.
func (h held) is(p policy, role string) bool {
	admits := tokens(p.admits)
	return h.For == role && h.Does == "*" && tokens(h.Using) == admits && tokens(h.Check) == admits
}

// tokens gives an expression without what Postgres adds when it prints one:
// blanks, parentheses and casts.
func tokens(expression string) string {
	return strings.NewReplacer("::text", "", "::name", "", " ", "", "(", "", ")", "").Replace(expression)
}

// secure makes the roles, if it may, and puts every table that has rows of
// tenants under the policies. Where all is as it should be it locks no table.
func (d *DB) secure(ctx context.Context) error {
	if d.engine.name != postgres.name {
		return nil
	}
	return d.write(ctx, ofMigration, "secure the tables", func(ctx context.Context, tx bun.Tx) error {
		if err := d.takeTurn(ctx, tx); err != nil {
			return err
		}
		for _, part := range []struct{ role, login string }{{d.roles.app, d.logins.app}, {d.roles.system, d.logins.system}} {
			if part.login == d.logins.owner {
				part.login = "" // ourselves, whatever the database calls us
			}
			if err := makeRole(ctx, tx, part.role, part.login); err != nil {
				return err
			}
		}
		var tables []tenantTable
		if err := tx.NewRaw(tenantTables).Scan(ctx, &tables); err != nil {
			return err
		}
		statements := []string{"GRANT SELECT ON " + migrationsTable + " TO PUBLIC"}
		for _, table := range tables {
			statements = append(statements, d.roles.secure(table)...)
		}
		_, err := tx.ExecContext(ctx, strings.Join(statements, ";\n"))
		return err
	})
}

// secure gives the statements that put a table under the policies, and say who
// may do what with it.
func (r roles) secure(table tenantTable) []string {
	name := identifier(table.Name)
	var out []string
	if !table.Held {
		out = append(out, "ALTER TABLE "+name+" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
	}
	for _, p := range r.policies() {
		role := p.role
		if role == "" {
			role = table.Owner
		}
		if table.Policies[p.name].is(p, role) {
			continue
		}
		out = append(out, "DROP POLICY IF EXISTS "+p.name+" ON "+name,
			"CREATE POLICY "+p.name+" ON "+name+" TO "+identifier(role)+" USING ("+p.admits+") WITH CHECK ("+p.admits+")")
	}
	may := "DELETE, INSERT, SELECT, UPDATE"
	if slices.Contains(addedTo, table.Name) {
		may = "INSERT, SELECT"
	}
	if slices.Contains(readOnly, table.Name) {
		may = "SELECT"
	}
	sees := map[string]string{r.system: systemSees[table.Name]}
	for role, may := range map[string]string{r.app: may, r.system: systemMay[table.Name]} {
		if table.Grants[role] == may && table.Columns[role] == sees[role] {
			continue
		}
		out = append(out, "REVOKE ALL ON "+name+" FROM "+identifier(role))
		if may != "" {
			out = append(out, "GRANT "+may+" ON "+name+" TO "+identifier(role))
		}
		if sees[role] != "" {
			out = append(out, "GRANT SELECT ("+sees[role]+") ON "+name+" TO "+identifier(role))
		}
	}
	return out
}

// makeRole makes a role, unless it is there, and lets the login run
// transactions as it. Managed databases give their users the right to make
// roles, though not superuser's. Where it is missing, the error says what an
// administrator has to do.
func makeRole(ctx context.Context, tx bun.Tx, role, login string) error {
	var is struct {
		There   bool   `bun:"there"`
		Login   string `bun:"login"` // empty: not known by this name
		Version int    `bun:"version"`
	}
	err := tx.NewRaw(`SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = ?) AS there,
  COALESCE((SELECT rolname::text FROM pg_roles WHERE rolname = COALESCE(NULLIF(?, ''), CURRENT_USER)), '') AS login,
  current_setting('server_version_num')::int AS version`, role, login).Scan(ctx, &is)
	if err != nil {
		return err
	}
	create, grant := "CREATE ROLE "+identifier(role)+" NOLOGIN", "GRANT "+identifier(role)+" TO "+identifier(is.Login)
	how := "MEMBER"
	if is.Version >= 160000 { // which tells inheriting from setting
		grant += " WITH INHERIT FALSE, SET TRUE"
		how = "SET"
	}
	if !is.There {
		// Roles are those of all databases of the server: somebody else may make it now.
		_, err := tx.ExecContext(ctx, "DO $make$ BEGIN "+create+"; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $make$")
		if err != nil {
			return forAdministrator(err, role, create+"; "+grant)
		}
	}
	if is.Login == "" || is.Login == role {
		return nil
	}
	var settable bool
	if err := tx.NewRaw("SELECT pg_has_role(?, ?, ?)", is.Login, role, how).Scan(ctx, &settable); err != nil || settable {
		return err
	}
	_, err = tx.ExecContext(ctx, grant)
	return forAdministrator(err, role, grant)
}

func forAdministrator(err error, role, statement string) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42501" {
		return registry.Errorf(registry.ReasonRowSecurity, "this login may not make the role %s, or not give it", role).
			WithNext("as an administrator of the database: %s", statement)
	}
	return err
}

// secured says whether a scope's transactions are held by the policies.
func (d *DB) secured(ctx context.Context, who scope) error {
	if d.engine.name != postgres.name {
		return nil
	}
	role := d.roles.of(who)
	insecure := func(next, format string, args ...any) error {
		return registry.Errorf(registry.ReasonRowSecurity, format, args...).WithNext("%s", next)
	}
	return d.read(ctx, who, "check row security", func(ctx context.Context, q bun.IDB) error {
		var is struct {
			Super  bool `bun:"rolsuper"`
			Bypass bool `bun:"rolbypassrls"`
		}
		if err := q.NewRaw("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = CURRENT_USER").Scan(ctx, &is); err != nil {
			return err
		}
		if is.Super || is.Bypass {
			return insecure("choose another role, or as an administrator of the database: ALTER ROLE "+identifier(role)+" NOSUPERUSER NOBYPASSRLS",
				"row security does not hold the role %s: it is a superuser or has BYPASSRLS", role)
		}
		var tables []tenantTable
		if err := q.NewRaw(tenantTables).Scan(ctx, &tables); err != nil {
			return err
		}
		if len(tables) == 0 {
			return insecure("put their schema into the database URL: options=-csearch_path%3DSCHEMA",
				"the role %s finds no tables where the login finds them", role)
		}
		for _, table := range tables {
			if table.Owned {
				return insecure("choose another role, or REVOKE "+identifier(table.Owner)+" FROM "+identifier(role),
					"row security does not hold the role %s: it owns the table %s, or may become its owner", role, table.Name)
			}
			if !table.Active || !table.Held || !table.under(d.roles.policies()) {
				return insecure("run `countersign migrate up`, and drop the policies that others made",
					"row security is off for the table %s, or has other policies than countersign's", table.Name)
			}
		}
		return nil
	})
}

// under says whether a table has these policies and no others.
func (t tenantTable) under(policies []policy) bool {
	for _, p := range policies {
		role := p.role
		if role == "" {
			role = t.Owner
		}
		if !t.Policies[p.name].is(p, role) {
			return false
		}
	}
	return len(t.Policies) == len(policies)
}

// Check says whether the system's role is held to what it may do.
func (y *SystemStore) Check(ctx context.Context) error { return y.db.secured(ctx, ofSystem) }
