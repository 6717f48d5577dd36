package db

import (
	"context"

	"github.com/uptrace/bun"
)

// scope is for whom a transaction runs. On Postgres it decides as which role,
// and the role decides which rows there are (R180): a query that forgets its
// tenant finds nothing. SQLite has no such second wall.
type scope struct {
	kind   scopeKind
	tenant string // of tenantScope
}

type scopeKind int

const (
	noScope        scopeKind = iota
	tenantScope              // the rows of one tenant, as the role of the application
	systemScope              // what SystemStore needs of all tenants, as a role of its own
	migrationScope           // the schema and all rows, as its owner
)

func ofTenant(tenant string) scope { return scope{tenantScope, tenant} }

var (
	ofSystem    = scope{kind: systemScope}
	ofMigration = scope{kind: migrationScope}
)

type scopeKey struct{}

// in makes transactions that begin with the context those of the scope.
func (s scope) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

// pool is where transactions of a scope run; otherwise says where all the same
// unless the scope has a login of its own.
func (d *DB) pool(who scope, otherwise *bun.DB) *bun.DB {
	switch {
	case who.kind == systemScope && d.system != nil:
		return d.system
	case who.kind == migrationScope && d.owner != nil:
		return d.owner
	}
	return otherwise
}
