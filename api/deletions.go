package api

import (
	"context"

	"countersign/registry"
)

// deletions are what can be tried before it is done: a dry run is given the errors
// of the deletion itself, and leaves nothing.
type deletions interface {
	DeleteConnection(ctx context.Context, name, etag string, op registry.Operation) error
	DeleteProvider(ctx context.Context, name, etag string, op registry.Operation) error
	DeleteSubscription(ctx context.Context, id, etag string, op registry.Operation) error
}

func (d desk) deletions(dryRun bool) deletions {
	if dryRun {
		return d.store.DryRun()
	}
	return d.store
}
