package db

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// About is what a database says of itself.
type About struct {
	Engine  string // postgres or sqlite
	Version string
	Login   string    // on Postgres: who this process is there
	Now     time.Time // its clock, which decides what has expired
	// Unsafe are settings of Postgres with which acknowledged changes are lost when
	// its machine fails.
	Unsafe []string
}

// About asks the database what it is.
func (d *DB) About(ctx context.Context) (About, error) {
	about := About{Engine: d.engine.name}
	err := d.read(ctx, ofMigration, "ask what the database is", func(ctx context.Context, q bun.IDB) (err error) {
		if about.Now, err = d.engine.now(ctx, q); err != nil {
			return err
		}
		if d.engine.name == sqlite.name {
			return q.NewRaw("SELECT sqlite_version()").Scan(ctx, &about.Version)
		}
		if err := q.NewRaw("SELECT current_setting('server_version'), session_user::text").Scan(ctx, &about.Version, &about.Login); err != nil {
			return err
		}
		return q.NewRaw(`SELECT name || ' = ' || setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name`).Scan(ctx, &about.Unsafe)
	})
	return about, err
}
