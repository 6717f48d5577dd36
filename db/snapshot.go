package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"countersign/registry"
)

type snapshotRow struct {
	bun.BaseModel   `bun:"table:snapshots,alias:n"`
	TenantID        string    `bun:"tenant_id,pk"`
	Digest          string    `bun:"digest,pk"`
	ProtocolVersion string    `bun:"protocol_version"`
	ServerName      string    `bun:"server_name"`
	ServerVersion   string    `bun:"server_version"`
	Instructions    string    `bun:"instructions"`
	TextDigest      string    `bun:"text_digest"`
	Kinds           []string  `bun:"kinds,type:text"`
	Quirks          []string  `bun:"quirks,type:text"`
	CreatedAt       time.Time `bun:"created_at"`
	SeenAt          time.Time `bun:"seen_at"` // by the database's clock, to the day
}

type itemRow struct {
	bun.BaseModel  `bun:"table:snapshot_items,alias:i"`
	TenantID       string            `bun:"tenant_id,pk"`
	SnapshotDigest string            `bun:"snapshot_digest,pk"`
	Kind           registry.ItemKind `bun:"kind,pk"`
	ItemKey        string            `bun:"item_key,pk"`
	Name           string            `bun:"name"`
	Definition     string            `bun:"definition_digest"`
	registry.Digests
	Verdict registry.Reason `bun:"verdict"`
	Detail  string          `bun:"detail"`
	Title   string          `bun:"title"`
	Body    string          `bun:"body"`
}

type definitionRow struct {
	bun.BaseModel `bun:"table:definitions,alias:d"`
	TenantID      string `bun:"tenant_id,pk"`
	Digest        string `bun:"digest,pk"`
	Raw           []byte `bun:"raw"`
	Args          string `bun:"args"`   // of a tool, as a JSON array
	Stated        string `bun:"stated"` // registry.Stated
}

// bulkBytes bounds the definitions of one statement, in bytes before quoting.
const bulkBytes = 1 << 20

// seenWithin is how old the time may get at which a snapshot was last seen:
// noting it each time would be a write for nothing.
const seenWithin = 24 * time.Hour

// SaveSnapshot keeps a snapshot and the bytes of its items. Both are addressed
// by their content, so saving again changes nothing but, once a day, when it
// was last seen; of two looks of the same digest the first one stays, and snap
// takes over the definitions of that.
func (s *Store) SaveSnapshot(ctx context.Context, snap *registry.Snapshot) error {
	snap.SetAddresses()
	stated, err := s.stateNew(ctx, snap.Items)
	if err != nil {
		return err
	}
	return s.write(ctx, "save a snapshot", func(ctx context.Context, t *tx) error {
		if err := t.snapshotsStay(ctx); err != nil {
			return err
		}
		if err := t.setNow(ctx); err != nil {
			return err
		}
		row := snapshotRow{
			TenantID: s.tenant, Digest: snap.Digest, ProtocolVersion: snap.ProtocolVersion, ServerName: snap.ServerName,
			ServerVersion: snap.ServerVersion, Instructions: snap.Instructions, TextDigest: snap.TextDigest,
			Kinds: snap.Kinds, Quirks: snap.Quirks, CreatedAt: snap.CreatedAt, SeenAt: t.now,
		}
		result, err := t.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if n == 0 {
			return t.seenAgain(ctx, snap, stated)
		}
		if err := t.saveDefinitions(ctx, snap.Items, stated); err != nil {
			return err
		}
		if err := t.roomForDefinitions(ctx); err != nil {
			return err
		}
		rows := make([]itemRow, len(snap.Items))
		for i, item := range snap.Items {
			rows[i] = itemRow{
				TenantID: s.tenant, SnapshotDigest: snap.Digest, Kind: item.Kind, ItemKey: key(item.Name), Name: item.Name,
				Definition: item.Definition(), Digests: item.Digests, Verdict: item.Verdict, Detail: item.Detail,
				Title: item.Title, Body: item.Text,
			}
		}
		return insert(ctx, t, rows, "")
	})
}

// SeeSnapshot notes that a snapshot that is kept was seen again.
func (s *Store) SeeSnapshot(ctx context.Context, digest string) error {
	return s.write(ctx, "see a snapshot", func(ctx context.Context, t *tx) error {
		if err := t.setNow(ctx); err != nil {
			return err
		}
		return t.see(ctx, digest)
	})
}

func (t *tx) see(ctx context.Context, digest string) error {
	_, err := t.NewUpdate().TableExpr("snapshots").Set("seen_at = ?", t.now).
		Where("tenant_id = ? AND digest = ? AND seen_at < ?", t.tenant, digest, t.now.Add(-seenWithin)).Exec(ctx)
	return err
}

// seenAgain is what a snapshot that is there needs.
func (t *tx) seenAgain(ctx context.Context, snap *registry.Snapshot, stated statements) error {
	if err := t.see(ctx, snap.Digest); err != nil {
		return err
	}
	// The same tool can be sent in other bytes each time. The first ones stay.
	digests := make([]string, len(snap.Items))
	for i := range snap.Items {
		digests[i] = snap.Items[i].Definition()
	}
	slices.Sort(digests)
	digests = slices.Compact(digests)
	there, whole := 0, 0
	for chunk := range slices.Chunk(digests, bulkRows) {
		var counted struct{ There, Whole int }
		err := t.NewSelect().TableExpr("definitions").ColumnExpr("count(*) AS there, count(CASE WHEN args IS NOT NULL AND stated IS NOT NULL THEN 1 END) AS whole").
			Where("tenant_id = ? AND digest IN (?)", t.tenant, bun.List(chunk)).Scan(ctx, &counted)
		if err != nil {
			return err
		}
		there, whole = there+counted.There, whole+counted.Whole
	}
	if there < len(digests) {
		kept, err := snapshotOf(ctx, t, t.tenant, snap.Digest)
		if err != nil {
			return err
		}
		for i := range snap.Items {
			if item, found := kept.Find(snap.Items[i].Kind, snap.Items[i].Name); found {
				snap.Items[i].Address = item.Definition()
			}
		}
	}
	if whole < there {
		return t.saveDefinitions(ctx, snap.Items, stated)
	}
	return nil
}

// stateNew reads from the bytes of the definitions that are not there whole what
// rules see of them. That takes long for long texts, so it is done before others
// have to wait for it.
func (s *Store) stateNew(ctx context.Context, items []registry.Item) (statements, error) {
	digests := make([]string, len(items))
	for i := range items {
		digests[i] = items[i].Definition()
	}
	known := map[string]bool{}
	err := s.read(ctx, "read definitions", func(ctx context.Context, q bun.IDB) error {
		for chunk := range slices.Chunk(digests, bulkRows) {
			var there []string
			err := q.NewSelect().TableExpr("definitions").Column("digest").
				Where("tenant_id = ? AND digest IN (?) AND stated IS NOT NULL", s.tenant, bun.List(chunk)).Scan(ctx, &there)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			for _, digest := range there {
				known[digest] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := statements{}
	for i := range items {
		if known[items[i].Definition()] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out.add(items[i])
	}
	return out, nil
}

// statements are what definitions state, by digest. The same bytes can come as
// items of several kinds.
type statements map[string]map[registry.ItemKind]registry.Stated

func (s statements) add(item registry.Item) {
	if _, done := s[item.Definition()][item.Kind]; done {
		return
	}
	if s[item.Definition()] == nil {
		s[item.Definition()] = map[registry.ItemKind]registry.Stated{}
	}
	s[item.Definition()][item.Kind] = registry.StatedBy(item)
}

// saveDefinitions adds those that are not there whole. Sorted, so that two who save
// the same do not wait for each other in a circle.
func (t *tx) saveDefinitions(ctx context.Context, items []registry.Item, stated statements) error {
	raw := make(map[string][]byte, len(items))
	of := make(map[string][]registry.Item, len(items))
	for _, item := range items {
		raw[item.Definition()] = item.Raw
		of[item.Definition()] = append(of[item.Definition()], item)
	}
	digests := make([]string, 0, len(raw))
	for digest := range raw {
		digests = append(digests, digest)
	}
	slices.Sort(digests)
	for chunk := range slices.Chunk(digests, bulkRows) {
		var known []string
		err := t.NewSelect().TableExpr("definitions").Column("digest").
			Where("tenant_id = ? AND digest IN (?) AND args IS NOT NULL AND stated IS NOT NULL", t.tenant, bun.List(chunk)).Scan(ctx, &known)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		there := make(map[string]bool, len(known))
		for _, digest := range known {
			there[digest] = true
		}
		var rows []definitionRow
		size := 0
		for _, digest := range chunk {
			if there[digest] {
				continue
			}
			args, err := json.Marshal(registry.ToolArgs(raw[digest]))
			if err != nil {
				return err
			}
			for _, item := range of[digest] {
				stated.add(item) // nothing to do, unless it was there a moment ago
			}
			said, err := json.Marshal(stated[digest])
			if err != nil {
				return err
			}
			rows = append(rows, definitionRow{TenantID: t.tenant, Digest: digest, Raw: raw[digest], Args: string(args), Stated: string(said)})
			t.added += len(raw[digest])
			if size += len(raw[digest]); size < bulkBytes {
				continue
			}
			if err := insert(ctx, t, rows, definitionsKept); err != nil {
				return err
			}
			rows, size = nil, 0
		}
		if err := insert(ctx, t, rows, definitionsKept); err != nil {
			return err
		}
	}
	return nil
}

// definitionsKept leaves the bytes of definitions that are there, and adds the
// arguments, and what they state, to those that were saved before anybody looked
// for them.
const definitionsKept = "CONFLICT (tenant_id, digest) DO UPDATE SET args = EXCLUDED.args, stated = EXCLUDED.stated"

// Snapshot gives a snapshot by its digest, without the bytes of its items,
// which [Store.Definitions] has. The error is nothing_discovered when the
// tenant has none of this digest.
func (s *Store) Snapshot(ctx context.Context, digest string) (*registry.Snapshot, error) {
	var snap *registry.Snapshot
	err := s.read(ctx, "read a snapshot", func(ctx context.Context, q bun.IDB) (err error) {
		snap, err = snapshotOf(ctx, q, s.tenant, digest)
		return err
	})
	return snap, err
}

func snapshotOf(ctx context.Context, q bun.IDB, tenant, digest string) (*registry.Snapshot, error) {
	var row snapshotRow
	err := q.NewSelect().Model(&row).Where("tenant_id = ? AND digest = ?", tenant, digest).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, registry.Errorf(registry.ReasonNothingDiscovered, "there is no such snapshot")
	}
	if err != nil {
		return nil, err
	}
	var rows []itemRow
	err = q.NewSelect().Model(&rows).Where("tenant_id = ? AND snapshot_digest = ?", tenant, digest).Scan(ctx)
	if err != nil {
		return nil, err
	}
	snap := &registry.Snapshot{
		Digest: row.Digest, ProtocolVersion: row.ProtocolVersion, ServerName: row.ServerName, ServerVersion: row.ServerVersion,
		Instructions: row.Instructions, TextDigest: row.TextDigest, Kinds: row.Kinds, Quirks: row.Quirks, CreatedAt: row.CreatedAt,
		Items: make([]registry.Item, len(rows)),
	}
	for i, r := range rows {
		snap.Items[i] = registry.Item{
			Kind: r.Kind, Name: r.Name, Address: r.Definition, Digests: r.Digests, Verdict: r.Verdict, Detail: r.Detail,
			Title: r.Title, Text: r.Body,
		}
	}
	slices.SortFunc(snap.Items, func(a, b registry.Item) int {
		if a.Kind != b.Kind {
			return strings.Compare(string(a.Kind), string(b.Kind))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return snap, nil
}

// Definitions gives the bytes that servers sent, by their digests. Unknown
// digests are left out.
func (s *Store) Definitions(ctx context.Context, digests []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(digests))
	err := s.read(ctx, "read definitions", func(ctx context.Context, q bun.IDB) error {
		return definitionsOf(ctx, q, s.tenant, digests, out)
	})
	return out, err
}

func definitionsOf(ctx context.Context, q bun.IDB, tenant string, digests []string, out map[string][]byte) error {
	for chunk := range slices.Chunk(digests, bulkRows) {
		var rows []definitionRow
		if err := q.NewSelect().Model(&rows).Where("tenant_id = ? AND digest IN (?)", tenant, bun.List(chunk)).Scan(ctx); err != nil {
			return err
		}
		for _, row := range rows {
			out[row.Digest] = row.Raw
		}
	}
	return nil
}
