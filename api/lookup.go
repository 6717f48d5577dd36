package api

import (
	"context"
	"errors"

	"countersign/db"
	"countersign/registry"
)

// server gives a server of the tenant by its id or name. Whether it does not
// exist or is another tenant's, the answer is the same to the byte (H24).
func (d desk) server(ctx context.Context, ref string) (db.ServerView, error) {
	v, err := d.store.Server(ctx, ref)
	return v, notFound(err, "server", ref)
}

// tool gives a tool of the tenant by its id.
func (d desk) tool(ctx context.Context, id string) (db.ToolView, error) {
	v, err := d.store.Tool(ctx, id)
	return v, notFound(err, "tool", id)
}

// notFound names in an error what was asked for and is not there: of several
// names in one script, the caller sees which one. The name is the caller's own
// and is quoted, so that it cannot pass for text of ours.
func notFound(err error, kind, asked string) error {
	e, known := errors.AsType[*registry.Error](err)
	if !known || e.Code != registry.CodeNotFound {
		return err
	}
	return registry.Errorf(e.Reason, "there is no %s %q", kind, asked).WithNext("%s", e.Next)
}
