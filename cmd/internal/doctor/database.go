package doctor

import (
	"context"
	"os"
	"strings"
	"time"

	"countersign/db"
)

// Differences of clocks. Who may do what ends by the database's clock, windows
// begin by Temporal's, tokens end by this process's.
const (
	clockWarns = 2 * time.Second
	clockFails = 30 * time.Second // as much as issuers' tokens are allowed by default
)

func (x *examination) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const away = "see that database.url names a database that runs, and that its login and password are right"
	unseen := []string{"schema", "row security", "database clock"}
	if x.conf.Database.URL == "" {
		x.failf("database", "set database.url (COUNTERSIGN_DATABASE_URL) to sqlite:PATH or postgres://…", "no database is configured")
		x.unseen("the database", unseen...)
		return
	}
	if path, ok := strings.CutPrefix(string(x.conf.Database.URL), "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil { // opening it would make it
			x.failf("database", "run `countersign migrate up`", "there is no database %s", path)
			x.unseen("the database", unseen...)
			return
		}
	}
	store := x.store
	if store == nil {
		var err error
		if store, err = db.Open(ctx, x.conf.Database.Options(x.log)); err != nil {
			x.failed("database", away, err)
			x.unseen("the database", unseen...)
			return
		}
		defer func() { _ = store.Close() }()
	}
	about, err := store.About(ctx)
	if err != nil {
		x.failed("database", away, err)
		x.unseen("the database", unseen...)
		return
	}
	switch {
	case about.Engine != "postgres":
		x.okf("database", "SQLite %s, for this process alone", about.Version)
	case len(about.Unsafe) > 0:
		x.warnf("database", "switch them on in the configuration of Postgres", "Postgres %s as %s, with %s: when its machine fails, changes are lost that were acknowledged",
			about.Version, about.Login, strings.Join(about.Unsafe, ", "))
	default:
		x.okf("database", "Postgres %s as %s", about.Version, about.Login)
	}
	x.schema(ctx, store, about.Engine)
	x.clock("database clock", "the database", time.Until(about.Now))
}

// schema checks the version, the roles, and that these are held to the rows of
// one tenant.
func (x *examination) schema(ctx context.Context, store *db.DB, engine string) {
	list, err := store.Status(ctx)
	if err != nil {
		x.failed("schema", "see that the login may read the schema", err)
		x.unseen("the schema", "row security")
		return
	}
	last := ""
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			last = m.Name
		}
	}
	switch err := store.CheckSchema(ctx); {
	case err != nil:
		x.failed("schema", "run `countersign migrate up`", err)
		x.unseen("the schema", "row security")
		return
	default:
		x.okf("schema", "at migration %s", last)
	}
	if engine != "postgres" {
		x.okf("row security", "SQLite has none; each query names its tenant")
		return
	}
	const fix = "run `countersign migrate up`"
	if x.role != "worker" {
		if err := store.Check(ctx); err != nil {
			x.failed("row security", fix, err)
			return
		}
	}
	if x.role != "api" {
		if err := store.System().Check(ctx); err != nil {
			x.failed("row security", fix, err)
			return
		}
	}
	x.okf("row security", "transactions run as %s and %s, which see what they should", x.conf.Database.AppRole, x.conf.Database.SystemRole)
}

// clock judges by how much a clock is ahead of ours.
func (x *examination) clock(check, whose string, ahead time.Duration) {
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	const fix = "let both machines follow the same time servers (NTP)"
	switch off := ahead.Abs().Round(100 * time.Millisecond); {
	case off >= clockFails:
		x.failf(check, fix, "the clock of %s is %s %s this machine's", whose, off, how)
	case off >= clockWarns:
		x.warnf(check, fix, "the clock of %s is %s %s this machine's", whose, off, how)
	default:
		x.okf(check, "the clock of %s is within %s of this machine's", whose, clockWarns)
	}
}
