package db

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"countersign/registry"
)

// openPostgres opens two pools. Bun writes arguments into the text of a query,
// which would prepare a statement for every text, so its pool sends plain ones;
// the other keeps the few that are asked often prepared.
//
// A transaction runs as a role, which is less than the login. Logins of their
// own have pools of their own.
func openPostgres(o Options) (*DB, error) {
	d := &DB{engine: postgres, log: o.Logger, roles: roles{cmp.Or(o.AppRole, DefaultAppRole), cmp.Or(o.SystemRole, DefaultSystemRole)}}
	if err := d.roles.check(); err != nil {
		return nil, err
	}
	for _, login := range []struct {
		what, url   string
		connections int
		opened      **bun.DB
		user        *string
	}{
		{"database URL", o.URL, o.Connections, &d.writer, &d.logins.app},
		{"database URL of the system", o.SystemURL, o.Connections, &d.system, &d.logins.system},
		{"database URL of migrations", o.MigrateURL, 2, &d.owner, &d.logins.owner},
	} {
		if login.url == "" {
			*login.user = d.logins.app
			continue
		}
		config, err := parsePostgres(login.url)
		if err != nil {
			// The parser's text may repeat the password.
			return nil, registry.Errorf(registry.ReasonInvalidArgument, "the %s cannot be read", login.what)
		}
		*login.user = config.User
		*login.opened = d.open(config, login.connections, pgx.QueryExecModeSimpleProtocol)
		if login.opened == &d.writer {
			d.listening = config.Copy()
			maps.Copy(config.RuntimeParams, byKey)
			d.prepared = d.open(config, login.connections, pgx.QueryExecModeCacheStatement)
		}
	}
	d.reader = d.writer
	return d, nil
}

// logins are the users that the URLs name.
type logins struct{ app, system, owner string }

func parsePostgres(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"application_name":                    "countersign",
		"timezone":                            "UTC",
		"standard_conforming_strings":         "on", // else a backslash would end our quoting
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "60s", // a forgotten transaction would stop the streams
	})
	return config, nil
}

// open makes a pool. It connects when it is first used.
func (d *DB) open(config *pgx.ConnConfig, connections int, mode pgx.QueryExecMode) *bun.DB {
	c := config.Copy()
	c.DefaultQueryExecMode = mode
	db := sql.OpenDB(scopedConnector{stdlib.GetConnector(*c, stdlib.OptionAfterConnect(timesInUTC)), d.roles})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return bun.NewDB(db, postgresDialect{pgdialect.New()})
}

// byKey makes one plan for a prepared statement, which finds rows by their
// keys. Planning takes longer than the query, and what is planned for small
// tables must still be right when they have grown.
var byKey = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_seqscan":  "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
}

func timesInUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}
