package db

import (
	"context"
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
func openPostgres(o Options) (*DB, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		// The parser's text may repeat the password.
		return nil, registry.Errorf(registry.ReasonInvalidArgument, "the database URL cannot be read")
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"application_name":                    "countersign",
		"timezone":                            "UTC",
		"standard_conforming_strings":         "on", // else a backslash would end our quoting
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "60s", // a forgotten transaction would stop the streams
	})
	pool := func(mode pgx.QueryExecMode, more map[string]string) *bun.DB {
		c := config.Copy()
		c.DefaultQueryExecMode = mode
		maps.Copy(c.RuntimeParams, more)
		db := stdlib.OpenDB(*c, stdlib.OptionAfterConnect(timesInUTC))
		db.SetMaxOpenConns(o.Connections)
		db.SetMaxIdleConns(o.Connections)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return bun.NewDB(db, postgresDialect{pgdialect.New()})
	}
	plain := pool(pgx.QueryExecModeSimpleProtocol, nil)
	prepared := pool(pgx.QueryExecModeCacheStatement, byKey)
	return &DB{writer: plain, reader: plain, prepared: prepared, engine: postgres, log: o.Logger}, nil
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
