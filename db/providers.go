package db

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"countersign/registry"
)

func providerAggregate(name string) string { return "provider/" + name }

// providerOperation is the record of an operation on a provider.
type providerOperation struct {
	bun.BaseModel `bun:"table:applied_operations,alias:o"`
	TenantID      string             `bun:"tenant_id,pk"`
	Object        string             `bun:"server_id,pk"` // provider/NAME
	OperationID   string             `bun:"operation_id,pk"`
	Name          string             `bun:"name"`
	At            time.Time          `bun:"at"`
	Answer        string             `bun:"answer"`
	Result        *registry.Provider `bun:"result,type:text"`
}

// changeProvider makes one change of the live provider of a name, once: decide
// gets it, nil when there is none, and says what of it to note; nothing when all
// stays as it is. The version moves with what is noted. A repeat of the
// operation, or of the claim's key with the same body, is told what the first one
// was. Registrations of the provider's servers wait, and so does this for them.
func (s *Store) changeProvider(ctx context.Context, name string, op registry.Operation, claim *Claim,
	decide func(ctx context.Context, t *tx, row *providerRow) (next *providerRow, note string, err error),
) (out registry.Provider, replayed bool, err error) {
	object := providerAggregate(name)
	err = s.govern(ctx, op, object, AuditEntry{ObjectKind: "provider", ObjectID: name, ObjectName: name}, func(ctx context.Context, t *tx) (*AuditEntry, *registry.Event, error) {
		out, replayed = registry.Provider{}, false
		if op.ID == "" {
			return nil, nil, registry.Errorf(registry.ReasonInternal, "the change has no operation id")
		}
		earlier, err := t.claimed(ctx, claim)
		if err != nil {
			return nil, nil, err
		}
		id := op.ID
		if earlier != nil {
			id = earlier.OperationID
		}
		var done providerOperation
		err = t.NewSelect().Model(&done).Where("tenant_id = ? AND server_id = ? AND operation_id = ?", t.tenant, object, id).Scan(ctx)
		switch {
		case err == nil && done.Result != nil:
			out, replayed = *done.Result, true
			return nil, nil, nil
		case !errors.Is(err, sql.ErrNoRows):
			return nil, nil, errors.Join(err, registry.Errorf(registry.ReasonInternal, "the operation has no result"))
		}
		row, err := t.liveProvider(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		next, note, err := decide(ctx, t, row)
		if err != nil {
			return nil, nil, err
		}
		out = next.Provider
		var entry *AuditEntry
		var event *registry.Event
		if note != "" {
			if entry, event, err = t.saveProvider(ctx, row, next, note); err != nil {
				return nil, nil, err
			}
			out = next.Provider
		}
		if _, err := t.claim(ctx, claim, op, &registry.Server{ServerID: object}); err != nil {
			return nil, nil, err
		}
		_, err = t.NewInsert().Model(&providerOperation{
			TenantID: t.tenant, Object: object, OperationID: op.ID, Name: op.Name, At: t.now, Result: &out,
		}).Exec(ctx)
		return entry, event, err
	})
	return out, replayed, err
}

// saveProvider writes a provider as changed, with the next version, and gives its
// audit row and its event.
func (t *tx) saveProvider(ctx context.Context, before, next *providerRow, note string) (*AuditEntry, *registry.Event, error) {
	entry := &AuditEntry{ObjectKind: "provider", ObjectID: next.Name, ObjectName: next.Name, Note: note}
	next.Version++
	if before == nil {
		next.Version = 1
		if _, err := t.NewInsert().Model(next).Exec(ctx); err != nil {
			return nil, nil, err
		}
	} else {
		entry.VersionBefore = next.Version - 1
		if err := t.updateProvider(ctx, next); err != nil {
			return nil, nil, err
		}
	}
	entry.VersionAfter = next.Version
	change := registry.ProviderUpdated
	switch {
	case before == nil:
		change = registry.ProviderCreated
	case !next.Live:
		change = registry.ProviderDeleted
	case next.Enabled && !before.Enabled:
		change = registry.ProviderEnabled
	case !next.Enabled && before.Enabled:
		change = registry.ProviderDisabled
	}
	return entry, t.providerEvent(next, change), nil
}

func (t *tx) providerEvent(row *providerRow, change registry.ProviderChange) *registry.Event {
	return &registry.Event{
		Type: registry.EventProviderChanged, Payload: registry.ProviderChanged{TenantID: t.tenant, Provider: row.Name, Change: change},
	}
}

func (t *tx) updateProvider(ctx context.Context, row *providerRow) error {
	_, err := t.NewUpdate().Model(row).Where("p.tenant_id = ? AND p.provider_id = ?", t.tenant, row.ProviderID).Exec(ctx)
	return err
}

// liveProvider gives the live provider of a name, nil when there is none.
func (t *tx) liveProvider(ctx context.Context, name string) (*providerRow, error) {
	var row providerRow
	err := t.NewSelect().Model(&row).Where("tenant_id = ? AND name = ? AND live", t.tenant, asText(name)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &row, err
}

// extension gives the live provider of a name, which must be of the family AEP.
func (t *tx) extension(ctx context.Context, name string) (*providerRow, error) {
	row, err := t.liveProvider(ctx, name)
	if err != nil {
		return nil, err
	}
	return row, ofExtension(row)
}

func ofExtension(row *providerRow) error {
	switch {
	case row == nil:
		return registry.ProviderNotFound()
	case row.Family != registry.FamilyAEP:
		return registry.Errorf(registry.ReasonProviderFamily, "provider %s is one server, which has its own configuration", row.Name).
			WithNext("change the server: countersign server update %s", row.Name)
	}
	return nil
}

// providerAdmits says whether a server may be registered under its name, as far as
// providers decide: no extension has the name; and of an extension's server that
// the provider is there and declares it.
func (t *tx) providerAdmits(ctx context.Context, g *registry.Registration) error {
	if g.ProviderID == "" {
		row, err := t.liveProvider(ctx, g.Name)
		if err != nil || row == nil || row.Family != registry.FamilyAEP {
			return err
		}
		return providerExists(row)
	}
	name := ""
	err := t.NewSelect().TableExpr("providers").Column("name").Where("tenant_id = ? AND provider_id = ?", t.tenant, g.ProviderID).Scan(ctx, &name)
	if errors.Is(err, sql.ErrNoRows) {
		return registry.ProviderNotFound()
	}
	if err == nil && t.engine.queue != "" {
		_, err = t.NewRaw(t.engine.queue, t.tenant+"/"+providerAggregate(name)).Exec(ctx)
	}
	if err != nil {
		return err
	}
	declared, err := t.NewSelect().TableExpr("provider_servers AS v").
		Join("JOIN providers AS p ON p.tenant_id = v.tenant_id AND p.provider_id = v.provider_id").
		Where("v.tenant_id = ? AND v.provider_id = ? AND v.server_id = ? AND v.declared AND p.live", t.tenant, g.ProviderID, g.ServerID).Exists(ctx)
	if err == nil && !declared {
		return registry.ProviderNotFound()
	}
	return err
}

func providerExists(row *providerRow) error {
	return registry.Errorf(registry.ReasonProviderExists, "there is a provider named %s", row.Name).
		With("provider", row.Name).With("family", string(row.Family)).WithNext("choose another name, or change or delete that provider")
}

// CreateProvider keeps a new provider of the family AEP. The error is
// provider_already_exists when a live one has the name. The configuration must
// have been checked.
func (s *Store) CreateProvider(ctx context.Context, name string, c registry.ProviderConfig, op registry.Operation, claim *Claim) (registry.Provider, bool, error) {
	return s.changeProvider(ctx, name, op, claim, func(ctx context.Context, t *tx, row *providerRow) (*providerRow, string, error) {
		if row != nil {
			return nil, "", providerExists(row)
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, "", err
		}
		return &providerRow{Live: true, Provider: registry.Provider{
			TenantID: t.tenant, ProviderID: "prv_" + strings.ReplaceAll(id.String(), "-", ""), Name: name, Family: registry.FamilyAEP,
			Enabled: true, CreatedAt: t.now, CreatedBy: op.Actor.Subject, Config: 1, ProviderConfig: c,
			Refresh: registry.ProviderRefresh{Status: registry.RefreshNever},
		}}, "created", nil
	})
}

// EditProvider changes the configuration of a provider of the family AEP. Its
// servers, tools and their enablement stay what they are (R108). check judges
// what it would be.
func (s *Store) EditProvider(ctx context.Context, name string, e registry.ProviderEdit, op registry.Operation, claim *Claim, check func(registry.ProviderConfig) error) (registry.Provider, bool, error) {
	return s.changeProvider(ctx, name, op, claim, func(_ context.Context, _ *tx, row *providerRow) (*providerRow, string, error) {
		if err := ofExtension(row); err != nil {
			return nil, "", err
		}
		if err := row.CheckEtag(e.Etag); err != nil {
			return nil, "", err
		}
		next := *row
		config, fields := row.ProviderConfig.Edit(e)
		if len(fields) == 0 {
			return &next, "", nil
		}
		if err := check(config); err != nil {
			return nil, "", err
		}
		next.ProviderConfig = config
		if len(fields) > 1 || fields[0] != "description" {
			next.Config = row.Version + 1
		}
		return &next, "edited " + strings.Join(fields, ", "), nil
	})
}

// SwitchProvider says whether tools of a provider resolve (R107).
func (s *Store) SwitchProvider(ctx context.Context, name string, enabled bool, etag string, op registry.Operation) (registry.Provider, error) {
	out, _, err := s.changeProvider(ctx, name, op, nil, func(_ context.Context, _ *tx, row *providerRow) (*providerRow, string, error) {
		if row == nil {
			return nil, "", registry.ProviderNotFound()
		}
		if err := row.CheckEtag(etag); err != nil {
			return nil, "", err
		}
		next := *row
		next.Enabled = enabled
		switch {
		case row.Enabled == enabled:
			return &next, "", nil
		case enabled:
			return &next, "enabled", nil
		}
		return &next, "disabled", nil
	})
	return out, err
}

// DeleteProvider ends a provider that has no live server.
func (s *Store) DeleteProvider(ctx context.Context, name, etag string, op registry.Operation) error {
	_, _, err := s.changeProvider(ctx, name, op, nil, func(ctx context.Context, t *tx, row *providerRow) (*providerRow, string, error) {
		if row == nil {
			return nil, "", registry.ProviderNotFound()
		}
		if err := row.CheckEtag(etag); err != nil {
			return nil, "", err
		}
		var live []string
		err := t.NewSelect().TableExpr("mcp_servers AS s").Column("s.name").
			Where("s.tenant_id = ? AND s.provider_id = ? AND s.state <> ?", t.tenant, row.ProviderID, registry.StateRetired).
			OrderExpr("s.name").Limit(namedUsers+1).Scan(ctx, &live)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, "", err
		}
		if len(live) > 0 {
			names := strings.Join(live[:min(len(live), namedUsers)], ", ")
			if len(live) > namedUsers {
				names += ", …"
			}
			return nil, "", registry.Errorf(registry.ReasonProviderInUse, "provider %s has the live servers %s", name, names).
				With("servers", names).WithNext("retire those servers first: countersign server retire %s", live[0])
		}
		for _, table := range []string{"provider_contributions", "provider_servers"} {
			if _, err := t.NewDelete().TableExpr(table).Where("tenant_id = ? AND provider_id = ?", t.tenant, row.ProviderID).Exec(ctx); err != nil {
				return nil, "", err
			}
		}
		next := *row
		next.Live = false
		return &next, "deleted", nil
	})
	return err
}
