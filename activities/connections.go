package activities

import (
	"context"
	"log/slog"
	"time"

	"countersign/db"
	"countersign/registry"
)

// EditConnection makes the next version of a connection, once.
func (a *Activities) EditConnection(ctx context.Context, in EditConnectionInput) (ConnectionOutput, error) {
	in.Operation.Name = "edit_connection"
	var claim *db.Claim
	if in.Key != "" {
		claim = &db.Claim{Operation: in.Operation.Name, Key: in.Key, BodyHash: in.BodyHash}
	}
	c, replayed, err := a.DB.Tenant(in.Tenant).EditConnection(ctx, in.Name, in.Edit, in.Operation, claim, func(next registry.Connection) error {
		return next.Check(a.Installation)
	})
	if err != nil {
		return ConnectionOutput{}, err
	}
	if !replayed {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "connection edited", slog.String("tenant", in.Tenant), slog.String("connection", c.Ref()),
			slog.String("by", in.Operation.Actor.Subject))
	}
	return ConnectionOutput{Connection: c, Replayed: replayed}, nil
}

// ConnectionUsers lists live servers that have not taken a version yet.
func (a *Activities) ConnectionUsers(ctx context.Context, in ConnectionUsersInput) (ConnectionUsersOutput, error) {
	users, err := a.DB.Tenant(in.Tenant).ConnectionUsers(ctx, in.Name, in.Version, in.After, in.Limit)
	out := ConnectionUsersOutput{}
	for _, u := range users {
		out.Names = append(out.Names, u.Name)
	}
	if len(users) == in.Limit && in.Limit > 0 {
		out.Next = users[len(users)-1].Name
	}
	return out, err
}

// TakeConnection makes a server take the newest version of its connection.
// Another target unbinds everything in this transaction (C10). It is done in the
// name of whoever edited the connection: who asked for an approval may not be
// who gives it.
func (a *Activities) TakeConnection(ctx context.Context, in TakeConnectionInput) (TakeConnectionOutput, error) {
	store := a.DB.Tenant(in.Tenant)
	newest, err := store.Connection(ctx, in.Name, 0)
	if err != nil {
		return TakeConnectionOutput{}, err
	}
	op := registry.Operation{
		ID: "connection/" + newest.Ref(), Name: "take_connection", Actor: registry.Actor{Subject: newest.CreatedBy}, Origin: registry.OriginSystem,
	}
	out, err := a.apply(ctx, in.Tenant, "took a connection", db.Change{
		ServerID: in.ServerID, Operation: op, Connection: in.Name,
		Catalog: func(s *registry.Server) bool { return s.State != registry.StateRetired },
		Apply:   func(r *registry.Record, now time.Time) error { return r.TakeConnection(op, now) },
	}, slog.String("connection", newest.Ref()))
	return TakeConnectionOutput{Server: out.Server, By: newest.CreatedBy}, err
}
