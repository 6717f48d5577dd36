package db

import (
	"context"
	"errors"

	"countersign/registry"
)

// DryRun tries changes of one tenant: each does all that the change of the same
// name of [Store] does, with its checks and their errors, and takes it back. Nothing
// of it is kept: no row, no event, no refusal (AIP-163).
type DryRun struct{ store Store }

// errTakeBack ends a transaction that is to leave nothing and has not failed.
var errTakeBack = errors.New("taken back")

// DryRun gives what can be tried.
func (s *Store) DryRun() DryRun {
	tried := *s
	tried.takesBack = true
	return DryRun{tried}
}

// DeleteConnection tries [Store.DeleteConnection].
func (d DryRun) DeleteConnection(ctx context.Context, name, etag string, op registry.Operation) error {
	return d.store.DeleteConnection(ctx, name, etag, op)
}

// DeleteProvider tries [Store.DeleteProvider].
func (d DryRun) DeleteProvider(ctx context.Context, name, etag string, op registry.Operation) error {
	return d.store.DeleteProvider(ctx, name, etag, op)
}

// DeleteSubscription tries [Store.DeleteSubscription].
func (d DryRun) DeleteSubscription(ctx context.Context, id, etag string, op registry.Operation) error {
	return d.store.DeleteSubscription(ctx, id, etag, op)
}
