package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/server/common/config"
	postgres "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema"
	v12 "go.temporal.io/server/schema/postgresql/v12"
)

// shards is the number of history shards on Postgres. It cannot be changed in an
// existing database.
const shards = 4

// systemNamespace is there from the first start on.
const systemNamespace = primitives.SystemLocalNamespace

// openPostgres gives a store on the server that a DSN names, as a production
// server has it: two databases, which are made when they are absent. They are
// named after the DSN's own, with _temporal and _temporal_visibility after it.
func openPostgres(ctx context.Context, dsn string) (*store, error) {
	at, err := url.Parse(dsn)
	if err != nil || at.Hostname() == "" || len(at.Path) < 2 {
		return nil, errors.New("the DSN is not of the form postgres://user:password@host:port/database")
	}
	s := &store{shards: shards}
	for _, part := range []struct {
		name, folder, version string
		config                **config.SQL
	}{
		{at.Path[1:] + "_temporal", "temporal", v12.Version, &s.config},
		{at.Path[1:] + "_temporal_visibility", "visibility", v12.VisibilityVersion, &s.visibility},
	} {
		if err := preparePostgres(ctx, at, part.name, part.folder, part.version); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		password, _ := at.User.Password()
		host, port := at.Hostname(), at.Port()
		if port == "" {
			port = "5432"
		}
		*part.config = &config.SQL{
			PluginName: postgres.PluginNamePGX, DatabaseName: part.name, ConnectAddr: net.JoinHostPort(host, port), ConnectProtocol: "tcp",
			User: at.User.Username(), Password: password, MaxConns: 20, MaxIdleConns: 20, MaxConnLifetime: time.Hour,
		}
	}
	return s, nil
}

// preparePostgres makes a database with its schema, in one transaction, so that
// one which was interrupted begins again.
func preparePostgres(ctx context.Context, at *url.URL, name, folder, version string) error {
	admin, err := pgx.Connect(ctx, at.String())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(ctx) }()
	var there bool
	if err := admin.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0"); err != nil {
			return err
		}
	}
	to := *at
	to.Path = "/" + name
	conn, err := pgx.Connect(ctx, to.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit there is nothing to take back
	var made *string
	if err := tx.QueryRow(ctx, "SELECT to_regclass('schema_version')::text").Scan(&made); err != nil {
		return err
	}
	if made != nil {
		var found string
		if err := tx.QueryRow(ctx, "SELECT curr_version FROM schema_version WHERE db_name = $1", name).Scan(&found); err != nil {
			return err
		}
		if found != version {
			return fmt.Errorf("version %s, and this build needs %s: migrate it with Temporal's own tool", found, version)
		}
		return nil
	}
	text, err := fs.ReadFile(schema.Assets(), "postgresql/v12/"+folder+"/schema.sql")
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, string(text)+versionTables); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO schema_version (version_partition, db_name, creation_time, curr_version, min_compatible_version)
VALUES (0, $1, now(), $2, $2)`, name, version); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// versionTables are those of Temporal's own tool.
const versionTables = `;
CREATE TABLE schema_version (version_partition INT NOT NULL, db_name VARCHAR(255) NOT NULL, creation_time TIMESTAMP,
  curr_version VARCHAR(64), min_compatible_version VARCHAR(64), PRIMARY KEY (version_partition, db_name));
CREATE TABLE schema_update_history (version_partition INT NOT NULL, year INT NOT NULL, month INT NOT NULL, update_time TIMESTAMP NOT NULL,
  description VARCHAR(255), manifest_md5 VARCHAR(64), new_version VARCHAR(64), old_version VARCHAR(64),
  PRIMARY KEY (version_partition, year, month, update_time));`

// dataStores are those of the configuration, and how many shards there are.
func (s *store) dataStores() (stores map[string]config.DataStore, visibility string, number int32) {
	stores = map[string]config.DataStore{storeName: {SQL: s.config}}
	if s.visibility == nil {
		return stores, storeName, 1
	}
	stores["visibility"] = config.DataStore{SQL: s.visibility}
	return stores, "visibility", s.shards
}
