package db

import (
	"context"
	"database/sql"
	"errors"

	"countersign/registry"
)

// Register makes a server, with its provider and its connection. The
// transaction decides who gets a name: the loser's error is
// server_already_exists, with the fact server_id. A repeat of the operation, or
// of the claim's key with the same body, is told what the first one was
// (Applied.Replayed). The request must have been checked.
func (s *Store) Register(ctx context.Context, g registry.Registration, op registry.Operation, claim *Claim) (Applied, error) {
	var (
		out     Applied
		refusal error
	)
	err := s.write(ctx, op.Name, func(ctx context.Context, t *tx) error {
		out, refusal = Applied{}, nil
		if g.TenantID != t.tenant || g.ServerID == "" {
			return registry.Errorf(registry.ReasonInternal, "the registration lacks a server id, or is another tenant's")
		}
		if done, err := t.recorded(ctx, g.ServerID, op.ID); err != nil || done != nil {
			if done != nil {
				out, refusal = done.answer()
			}
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		// The key is looked up after the name: whose key this is may have taken
		// the name a moment ago.
		taken := t.nameIsFree(ctx, &g)
		earlier, err := t.claimed(ctx, claim)
		if earlier != nil {
			// The server as it was then: a repeat gets the first answer (I13).
			first, err := t.recorded(ctx, earlier.ServerID, earlier.OperationID)
			if err == nil && first == nil {
				err = registry.Errorf(registry.ReasonInternal, "the key has no operation")
			}
			if err == nil {
				out, refusal = first.answer()
			}
			return err
		}
		if err == nil {
			err = taken
		}
		if err == nil {
			err = t.roomForServer(ctx)
		}
		if err == nil {
			err = t.namedConnection(ctx, &g)
		}
		if e, ok := registry.AsError(err); ok {
			refusal = e
			return t.refuse(ctx, registry.Server{ServerID: g.ServerID, Name: g.Name}, op, e, nil)
		}
		if err != nil {
			return err
		}
		out, err = t.register(ctx, g, op, claim)
		return err
	})
	if err != nil {
		return Applied{}, err
	}
	return out, refusal
}

func (t *tx) nameIsFree(ctx context.Context, g *registry.Registration) error {
	name := g.Name
	if err := t.providerAdmits(ctx, g); err != nil {
		return err
	}
	var id string
	err := t.NewSelect().TableExpr("mcp_servers").Column("server_id").
		Where("tenant_id = ? AND name = ? AND state <> ?", t.tenant, name, registry.StateRetired).Scan(ctx, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return registry.Errorf(registry.ReasonServerExists, "there is a server named %s", name).
		With("server_id", id).With("name", name).WithNext("choose another name, or change or retire that server")
}

func (t *tx) register(ctx context.Context, g registry.Registration, op registry.Operation, claim *Claim) (Applied, error) {
	record, provider := registry.Registered(g, op.Actor, t.now)
	changes := record.Done(t.now)
	row := serverRow{Server: record.Server}
	if err := row.pin(); err != nil {
		return Applied{}, err
	}
	if err := t.emit(ctx, &row, op, changes.Events); err != nil {
		return Applied{}, err
	}
	var models []any
	if g.ProviderID == "" {
		models = append(models, &providerRow{Provider: provider, Live: true})
	}
	if changes.Connection != nil {
		models = append(models, &connectionRow{Connection: *changes.Connection})
	}
	if err := t.saveCommand(ctx, row.TargetDigest, changes.Command); err != nil {
		return Applied{}, err
	}
	for _, model := range append(models, &row) {
		if _, err := t.NewInsert().Model(model).Exec(ctx); err != nil {
			return Applied{}, err
		}
	}
	if err := t.saveTarget(ctx, &row); err != nil {
		return Applied{}, err
	}
	if err := t.recordFacts(ctx, nil, record, changes); err != nil {
		return Applied{}, err
	}
	e := entry(op, &row.Server)
	e.VersionAfter, e.Note = row.Version, changes.Note
	if err := t.audit(ctx, e); err != nil {
		return Applied{}, err
	}
	out := Applied{Server: row.Server}
	var err error
	if out.Answer, err = t.claim(ctx, claim, op, &row.Server); err != nil {
		return Applied{}, err
	}
	return out, t.recordApplied(ctx, row.ServerID, op, out)
}
