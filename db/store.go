package db

import (
	"context"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// Store is the database as one tenant sees it.
type Store struct {
	db           *DB
	tenant       string
	capabilities *registry.CapabilityTable
	takesBack    bool // governed changes leave nothing: it is a [DryRun]'s
}

// Tenant gives the rows of one tenant. With a name that no tenant can have,
// every method fails.
func (d *DB) Tenant(tenant string) *Store {
	return &Store{db: d, tenant: tenant, capabilities: d.capabilities.Load()}
}

// Tenant is whose rows these are.
func (s *Store) Tenant() string { return s.tenant }

func (s *Store) check() error {
	if !registry.ValidTenant(s.tenant) {
		return registry.Errorf(registry.ReasonInvalidArgument, "not a tenant's name")
	}
	return nil
}

// read is the only way by which methods of Store read.
func (s *Store) read(ctx context.Context, doing string, fn func(ctx context.Context, q bun.IDB) error) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.db.read(ctx, ofTenant(s.tenant), doing, fn)
}

// write is the only way by which methods of Store write.
func (s *Store) write(ctx context.Context, doing string, fn func(ctx context.Context, tx *tx) error) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.db.write(ctx, ofTenant(s.tenant), doing, func(ctx context.Context, t bun.Tx) error {
		return fn(ctx, &tx{Tx: t, engine: s.db.engine, tenant: s.tenant, quotas: s.db.quota(), measures: &s.db.measures})
	})
}

// serverNotFound is what one is told of a server that does not exist, or is
// another tenant's.
func serverNotFound() error {
	return registry.Errorf(registry.ReasonServerNotFound, "there is no such server").
		WithNext("list the servers; names and ids are those of the tenant")
}
