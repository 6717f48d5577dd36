package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/db"
)

// newDatabase makes an empty database of an engine with the product's tables.
// drop removes it.
func newDatabase(ctx context.Context, o options, engine string) (at string, drop func(), err error) {
	if engine == sqlite {
		dir, err := os.MkdirTemp("", "countersign-bench")
		if err != nil {
			return "", nil, err
		}
		at, drop = "sqlite:"+filepath.Join(dir, "c.db"), func() { _ = os.RemoveAll(dir) }
	} else if at, drop, err = newPostgres(ctx, o.dsn); err != nil {
		return "", nil, err
	}
	d, err := open(ctx, at)
	if err != nil {
		drop()
		return "", nil, err
	}
	defer d.Close()
	if _, err := d.Up(ctx); err != nil {
		drop()
		return "", nil, err
	}
	return at, drop, nil
}

// The engines.
const (
	sqlite   = "SQLite"
	postgres = "Postgres"
)

// engines are those that there are.
func (o options) engines() []string {
	if o.dsn == "" {
		return []string{sqlite}
	}
	return []string{sqlite, postgres}
}

func newPostgres(ctx context.Context, dsn string) (at string, drop func(), err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", nil, err
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return
		}
		defer conn.Close(ctx)
		_, _ = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // the server goes after the run anyway
	}, nil
}

func open(ctx context.Context, at string) (*db.DB, error) {
	return db.Open(ctx, db.Options{URL: at, Logger: slog.New(slog.DiscardHandler)})
}

// execute runs a statement on Postgres.
func execute(ctx context.Context, at, statement string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}
