package db

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"countersign/failpoint"
	"countersign/telemetry"
)

// attempts is how often a transaction is tried that meets other writers.
const attempts = 6

// write runs fn in one transaction of a scope, again when another writer came
// first. A name of the failpoints is that of the operation.
func (d *DB) write(ctx context.Context, who scope, name string, fn func(ctx context.Context, tx bun.Tx) error) (err error) {
	ctx, end := d.span(ctx, who, name)
	defer func() { end(err) }()
	for try := 1; ; try++ {
		err = d.attempt(ctx, who, name, fn)
		if err == nil {
			return nil
		}
		kind := classify(ctx, err)
		if try == attempts || kind != troubleConflict && kind != troubleUnique {
			return d.failure(ctx, name, err)
		}
		d.log.LogAttrs(ctx, slog.LevelDebug, "database: another writer came first", slog.String("doing", name), slog.Int("try", try))
		wait := time.Duration(try) * 5 * time.Millisecond
		select {
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // not a secret, only not the same for all
		case <-ctx.Done():
			return d.failure(ctx, name, ctx.Err())
		}
	}
}

func (d *DB) attempt(ctx context.Context, who scope, name string, fn func(ctx context.Context, tx bun.Tx) error) error {
	tx, err := d.pool(who, d.writer).BeginTx(who.in(ctx), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails after a commit, and then there is nothing to take back
	if err := fn(ctx, tx); errors.Is(err, errTakeBack) {
		return nil
	} else if err != nil {
		return err
	}
	hit(name + ".before_commit")
	if err := tx.Commit(); err != nil {
		return err
	}
	d.committed.ring()
	hit(name + ".after_commit")
	return nil
}

func hit(point string) {
	if slices.Contains(failpoint.Points, point) {
		failpoint.Hit(point)
	}
}

// span is that of one transaction, by what it does. Statements have none of their
// own: they would be a dozen for one change, and what they say is in the code.
func (d *DB) span(ctx context.Context, who scope, doing string) (context.Context, func(error)) {
	if !telemetry.Recording(ctx) {
		return ctx, ended
	}
	return telemetry.Start(ctx, "db", "database: "+doing, trace.SpanKindClient, attribute.String("db.system.name", d.engine.name), telemetry.KeyTenant.String(who.tenant))
}

func ended(error) {}

// read runs fn on one state of the database, in a scope.
func (d *DB) read(ctx context.Context, who scope, doing string, fn func(ctx context.Context, q bun.IDB) error) (err error) {
	ctx, end := d.span(ctx, who, doing)
	defer func() { end(err) }()
	tx, err := d.pool(who, d.reader).BeginTx(who.in(ctx), d.engine.snapshot)
	if err != nil {
		return d.failure(ctx, doing, err)
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to keep
	return d.failure(ctx, doing, fn(ctx, tx))
}
