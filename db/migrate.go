package db

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"

	"countersign/registry"
)

//go:embed migrations
var migrations embed.FS

// migrationsTable holds the numbers of the applied migrations.
const migrationsTable = "schema_migrations"

// Migration is one step of the schema.
type Migration struct {
	Name      string    // its number
	Comment   string    // what it is about
	AppliedAt time.Time // zero: not applied
	Known     bool      // this program has it
}

// Up applies every migration that is missing, each in one transaction together
// with the record of it, and names them. Two that migrate at once take turns.
// It refuses a schema that is newer than the program. On Postgres it then puts
// all tables under row-level security, also those that are there already.
func (d *DB) Up(ctx context.Context) ([]string, error) {
	if err := d.makeMigrationsTable(ctx); err != nil {
		return nil, err
	}
	all, err := d.knownSchema(ctx)
	if err != nil {
		return nil, err
	}
	var applied []string
	for _, m := range all {
		if !m.AppliedAt.IsZero() {
			continue
		}
		done, err := d.step(ctx, m.Name, true)
		if err != nil {
			return applied, err
		}
		if done {
			applied = append(applied, m.Name+"_"+m.Comment)
		}
	}
	if err := d.secure(ctx); err != nil {
		return applied, err
	}
	return applied, d.fillSearch(ctx)
}

// Down takes back the last applied migrations, at most so many, with what they
// hold. It refuses a schema that is newer than the program.
func (d *DB) Down(ctx context.Context, steps int) error {
	all, err := d.knownSchema(ctx)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(all) {
		if steps <= 0 {
			break
		}
		if m.AppliedAt.IsZero() {
			continue
		}
		if _, err := d.step(ctx, m.Name, false); err != nil {
			return err
		}
		steps--
	}
	return nil
}

// Status lists all migrations in order: those of this program, and those that
// were applied by a newer one.
func (d *DB) Status(ctx context.Context) ([]Migration, error) {
	known, err := d.knownMigrations()
	if err != nil {
		return nil, err
	}
	var out []Migration
	for _, m := range known.Sorted() {
		out = append(out, Migration{Name: m.Name, Comment: m.Comment, Known: true})
	}
	applied, err := d.appliedMigrations(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range applied {
		i := slices.IndexFunc(out, func(m Migration) bool { return m.Name == a.Name })
		if i < 0 {
			out = append(out, Migration{Name: a.Name})
			i = len(out) - 1
		}
		out[i].AppliedAt = a.MigratedAt.UTC()
	}
	return out, nil
}

// Check says whether the schema is the one that this program needs, and, on
// Postgres, whether its role is held to its tenant's rows: the error has the
// reason schema_newer, schema_older or row_security_off otherwise.
func (d *DB) Check(ctx context.Context) error {
	if err := d.CheckSchema(ctx); err != nil {
		return err
	}
	return d.secured(ctx, ofTenant(""))
}

// CheckSchema says whether the schema is the one that this program needs.
func (d *DB) CheckSchema(ctx context.Context) error {
	all, err := d.knownSchema(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.AppliedAt.IsZero() {
			return registry.Errorf(registry.ReasonSchemaOlder, "the database lacks migration %s", m.Name).
				WithNext("run `countersign migrate up`")
		}
	}
	return nil
}

// knownSchema is Status for those who cannot work with a newer schema.
func (d *DB) knownSchema(ctx context.Context) ([]Migration, error) {
	all, err := d.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if !m.Known {
			return nil, registry.Errorf(registry.ReasonSchemaNewer, "the database has migration %s, which this program does not know", m.Name).
				WithNext("run the newer version of countersign")
		}
	}
	return all, nil
}

func (d *DB) knownMigrations() (*migrate.Migrations, error) {
	files, err := fs.Sub(migrations, "migrations/"+d.engine.name)
	if err != nil {
		return nil, err
	}
	known := migrate.NewMigrations()
	return known, known.Discover(files)
}

func (d *DB) appliedMigrations(ctx context.Context) ([]migrate.Migration, error) {
	var exists bool
	query := "SELECT to_regclass(?) IS NOT NULL"
	if d.engine.name == sqlite.name {
		query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)"
	}
	var applied []migrate.Migration
	err := d.read(ctx, ofMigration, "read the schema", func(ctx context.Context, q bun.IDB) error {
		if err := q.NewRaw(query, migrationsTable).Scan(ctx, &exists); err != nil || !exists {
			return err
		}
		//nolint:unqueryvet // the columns are those of the model, which another name of the table hides
		return q.NewSelect().Model(&applied).ModelTableExpr(migrationsTable).ColumnExpr("*").OrderExpr("name").Scan(ctx)
	})
	return applied, err
}

// makeMigrationsTable takes the migrators' turn, since two may make it at once.
func (d *DB) makeMigrationsTable(ctx context.Context) error {
	err := d.migrator().RunInTx(ofMigration.in(ctx), nil, func(ctx context.Context, tx bun.Tx) error {
		if err := d.takeTurn(ctx, tx); err != nil {
			return err
		}
		_, err := tx.NewCreateTable().Model((*migrate.Migration)(nil)).ModelTableExpr(migrationsTable).IfNotExists().Exec(ctx)
		return err
	})
	return d.failure(ctx, "migrate", err)
}

// migrator is the pool whose login owns the schema.
func (d *DB) migrator() *bun.DB { return d.pool(ofMigration, d.writer) }

// takeTurn waits for another migrator to end its transaction. On SQLite the
// transaction itself did that.
func (d *DB) takeTurn(ctx context.Context, tx bun.IConn) error {
	if d.engine.migrating == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, d.engine.migrating)
	return err
}

var errNothingToDo = errors.New("another migrator did it")

// step runs one migration up or down, unless another migrator did it meanwhile.
func (d *DB) step(ctx context.Context, name string, up bool) (bool, error) {
	known, err := d.knownMigrations()
	if err != nil {
		return false, err
	}
	all := known.Sorted()
	i := slices.IndexFunc(all, func(m migrate.Migration) bool { return m.Name == name })
	m, run := all[i], all[i].Up
	if !up {
		run = m.Down
	}
	migrator := migrate.NewMigrator(d.migrator(), known, migrate.BeforeMigration(
		func(ctx context.Context, tx bun.IConn, _ *migrate.Migration) error {
			if err := d.takeTurn(ctx, tx); err != nil {
				return err
			}
			is, err := d.migrator().NewSelect().Conn(tx).TableExpr(migrationsTable).Where("name = ?", name).Exists(ctx)
			if err == nil && is == up {
				return errNothingToDo
			}
			return err
		}), migrate.AfterMigration(func(ctx context.Context, tx bun.IConn, _ *migrate.Migration) error {
		if up {
			row := migrate.Migration{Name: name, GroupID: 1, MigratedAt: time.Now().UTC()}
			_, err := d.migrator().NewInsert().Conn(tx).Model(&row).ModelTableExpr(migrationsTable).ExcludeColumn("id").Exec(ctx)
			return err
		}
		_, err := d.migrator().NewDelete().Conn(tx).TableExpr(migrationsTable).Where("name = ?", name).Exec(ctx)
		return err
	}))
	err = run(ofMigration.in(ctx), migrator, &m)
	if errors.Is(err, errNothingToDo) {
		return false, nil
	}
	return err == nil, d.failure(ctx, "migrate", err)
}
