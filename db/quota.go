package db

import (
	"context"
	"strconv"
	"sync"
	"time"

	"countersign/registry"
)

// SetQuotas bounds what each tenant may have, from now on. Without it nothing
// is bounded.
func (d *DB) SetQuotas(q registry.Quotas) { d.quotas.Store(&q) }

func (d *DB) quota() registry.Quotas {
	if q := d.quotas.Load(); q != nil {
		return *q
	}
	return registry.Quotas{}
}

// alone keeps other transactions of the tenant that grow the same thing off
// until this one ends, so that two cannot both take the last place. Whoever
// waits here has the locks of its server already, and nobody takes those after
// this one.
func (t *tx) alone(ctx context.Context, what string) error {
	if t.engine.queue == "" {
		return nil
	}
	_, err := t.NewRaw(t.engine.queue, "quota/"+what+"/"+t.tenant).Exec(ctx)
	return err
}

// roomForServer refuses one more server than the tenant may have.
func (t *tx) roomForServer(ctx context.Context) error {
	limit := t.quotas.Servers
	if limit == 0 {
		return nil
	}
	if err := t.alone(ctx, "servers"); err != nil {
		return err
	}
	var there int64
	err := t.NewSelect().TableExpr("mcp_servers").ColumnExpr("count(*)").
		Where("tenant_id = ? AND state <> ?", t.tenant, registry.StateRetired).Scan(ctx, &there)
	if err != nil || there < limit {
		return err
	}
	return overQuota("servers", limit, "the tenant has %d servers, and may have %d", there, limit)
}

// roomForTools refuses, after they were written, more tools than the tenant may
// have. What only changes tools that were there is let through.
func (t *tx) roomForTools(ctx context.Context, saved []toolRow) error {
	limit, grown := t.quotas.Tools, int64(0)
	for i := range saved {
		if _, known := t.loaded[saved[i].ExternalID]; !known {
			grown++
		}
	}
	if limit == 0 || grown == 0 || t.measures.far("tools", t.tenant, grown, limit) {
		return nil
	}
	if err := t.alone(ctx, "tools"); err != nil {
		return err
	}
	var there int64
	err := t.NewSelect().TableExpr("tools").ColumnExpr("count(*)").Where("tenant_id = ? AND live", t.tenant).Scan(ctx, &there)
	if err != nil {
		return err
	}
	if t.measures.note("tools", t.tenant, there); there <= limit {
		return nil
	}
	return overQuota("tools", limit, "with this list the tenant would have %d tools, and may have %d", there, limit)
}

// roomForDefinitions refuses, after they were written, more bytes of
// definitions than the tenant may have.
func (t *tx) roomForDefinitions(ctx context.Context) error {
	limit := t.quotas.DefinitionBytes
	if limit == 0 || t.added == 0 || t.measures.far("definitions", t.tenant, int64(t.added), limit) {
		return nil
	}
	if err := t.alone(ctx, "definitions"); err != nil {
		return err
	}
	var there int64
	err := t.NewSelect().TableExpr("definitions").ColumnExpr("coalesce(sum(octet_length(raw)), 0)").
		Where("tenant_id = ?", t.tenant).Scan(ctx, &there)
	if err != nil {
		return err
	}
	if t.measures.note("definitions", t.tenant, there); there <= limit {
		return nil
	}
	return overQuota("definition_bytes", limit, "with this list the tenant would have %d bytes of definitions, and may have %d", there, limit)
}

func overQuota(what string, limit int64, format string, args ...any) error {
	return registry.Errorf(registry.ReasonQuotaExceeded, format, args...).
		With("quota", what).With("limit", strconv.FormatInt(limit, 10)).
		WithNext("retire servers that nobody needs, or have the operator raise quotas.%s", what)
}

// measures are what tenants had when it was last counted, which takes long
// where there is much. Far from the quota it is not counted anew each time: what
// other processes add meanwhile is then not much beside the room that is left.
type measures struct {
	mu sync.Mutex
	of map[[2]string]measure
}

type measure struct {
	there int64
	at    time.Time
}

// measuredFor is how long a count is good for.
const measuredFor = time.Minute

// far says whether a tenant is sure to have room for some more: a tenth of the
// quota is left after it.
func (m *measures) far(what, tenant string, more, limit int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{what, tenant}
	last, known := m.of[key]
	if !known || time.Since(last.at) > measuredFor || last.there+more > limit-limit/10 {
		return false
	}
	last.there += more
	m.of[key] = last
	return true
}

func (m *measures) note(what, tenant string, there int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[[2]string]measure{}
	}
	m.of[[2]string{what, tenant}] = measure{there, time.Now()}
}
