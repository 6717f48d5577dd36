package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	tlog "go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistence "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	plugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/schema/sqlite"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// store is the open database: one connection, which the whole server shares.
type store struct {
	config     *config.SQL
	visibility *config.SQL // on Postgres; nil: that of config
	shards     int32       // on Postgres
	db         sqlplugin.DB
	pool       io.Closer
}

// patience is how long a start waits for a file that another process has open: it may be the one before us, ending.
const patience = 3 * time.Second

// openStore opens the database and creates the schema in a new one.
func openStore(ctx context.Context, file string) (*store, error) {
	c, err := connection(file)
	if err != nil {
		return nil, err
	}
	s := &store{config: c}
	for deadline := time.Now().Add(patience); ; {
		s.db, err = persistence.NewSQLDB(sqlplugin.DbKindMain, c, resolver.NewNoopResolver(), tlog.NewNoopLogger(), metrics.NoopMetricsHandler)
		sqlErr, ok := errors.AsType[*driver.Error](err)
		if !ok || sqlErr.Code()&0xff != codes.SQLITE_BUSY || ctx.Err() != nil {
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s is open in another server: %w", file, err)
		}
		time.Sleep(patience / 100)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	if s.pool, err = poolOf(s.db); err != nil {
		return nil, err
	}
	if file != "" { // in memory the plugin has done it
		if err := s.createSchema(); err != nil {
			return nil, errors.Join(fmt.Errorf("schema of %s: %w", file, err), s.close())
		}
	}
	return s, nil
}

// starts counts the databases that this process opened.
var starts atomic.Int64

// connection returns the settings of a connection that belongs to one server. Temporal keeps a connection for every
// set of settings it has seen, as long as the process lives. A pragma that SQLite does not know, and so ignores,
// makes this set a new one: it can be closed, and the same file opened again.
func connection(file string) (*config.SQL, error) {
	number := strconv.FormatInt(starts.Add(1), 10)
	c := &config.SQL{
		PluginName: plugin.PluginName,
		ConnectAttributes: map[string]string{
			"busy_timeout":   "0", // Temporal opens one database at a time; openStore waits without holding up the others
			"embedded_start": number,
		},
	}
	if file == "" {
		c.DatabaseName = "embedded-" + number
		c.ConnectAttributes["mode"] = "memory"
		c.ConnectAttributes["cache"] = "shared"
		return c, nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	c.DatabaseName = (&url.URL{Path: path}).EscapedPath() // it becomes part of a file: URI
	c.ConnectAttributes["mode"] = "rw"
	// Otherwise a commit waits for the disk more than once, and a start of a workflow is some ten commits.
	c.ConnectAttributes["journal_mode"] = "wal"
	c.ConnectAttributes["synchronous"] = "normal"
	// Two servers on one file would take the history shard from each other without end.
	c.ConnectAttributes["locking_mode"] = "exclusive"
	return c, nil
}

// createFile creates the database file before SQLite does, because SQLite would let everybody read it. The two files
// that SQLite puts beside it get the same mode.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// poolOf returns the connection pool behind db. Temporal never closes it: whoever is still running after Stop would
// go on writing. There is no other way to it than the field.
func poolOf(db sqlplugin.DB) (io.Closer, error) {
	v := reflect.Indirect(reflect.ValueOf(db))
	if v.Kind() == reflect.Struct {
		if f := v.FieldByName("db"); f.IsValid() && f.Type() == reflect.TypeFor[*sqlx.DB]() {
			return (*sqlx.DB)(f.UnsafePointer()), nil
		}
	}
	return nil, fmt.Errorf("%T of this Temporal version does not hold its connection where it used to", db)
}

// The version of the schema is kept in the file, since Temporal has no migrations for SQLite.
const (
	schemaVersion = sqlite.Version + "/" + sqlite.VisibilityVersion
	schemaOwner   = "embedded"
)

// createSchema creates the schema in an empty database, all of it or nothing, and otherwise compares its version.
func (s *store) createSchema() (err error) {
	db, err := persistence.NewSQLAdminDB(sqlplugin.DbKindMain, s.config, resolver.NewNoopResolver(), tlog.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	// There is one connection only, so these statements form a transaction.
	if err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Exec("ROLLBACK"))
		}
	}()
	tables, err := db.ListTables("")
	if err != nil {
		return err
	}
	if len(tables) > 0 {
		found, err := db.ReadSchemaVersion(schemaOwner)
		if err != nil {
			return fmt.Errorf("not a database of this server: %w", err)
		}
		if found != schemaVersion {
			return fmt.Errorf("version %s, and this build needs %s: there is no migration, start with another file", found, schemaVersion)
		}
		return db.Exec("COMMIT")
	}
	if err := sqlite.SetupSchemaOnDB(db); err != nil {
		return err
	}
	if err := db.CreateSchemaVersionTables(); err != nil {
		return err
	}
	if err := db.UpdateSchemaVersion(schemaOwner, schemaVersion, schemaVersion); err != nil {
		return err
	}
	return db.Exec("COMMIT")
}

// close waits for running statements and closes the connection; later ones fail.
func (s *store) close() error {
	if s.pool == nil {
		return nil // Temporal's own, which ends with the process
	}
	return s.pool.Close()
}
