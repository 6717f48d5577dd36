package db

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"countersign/registry"
)

// A command is kept under the digest of the target that it makes, for ever: so
// a decision, which names that digest, tells what was approved.

func commandOf(ctx context.Context, q bun.IDB, tenant, target string) (*registry.Command, error) {
	var row commandRow
	err := q.NewSelect().Model(&row).Where("k.tenant_id = ? AND k.target_digest = ?", tenant, target).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row.Command, err
}

// saveCommand keeps a command that a server takes; another server may have it
// already.
func (t *tx) saveCommand(ctx context.Context, target string, command *registry.Command) error {
	if command == nil {
		return nil
	}
	row := commandRow{TenantID: t.tenant, Target: target, Command: *command, CreatedAt: t.now}
	_, err := t.NewInsert().Model(&row).On("CONFLICT (tenant_id, target_digest) DO NOTHING").Exec(ctx)
	return err
}

// Command gives the command behind the digest of a target; nil when the target
// is reached over the network.
func (s *Store) Command(ctx context.Context, target string) (*registry.Command, error) {
	var command *registry.Command
	err := s.read(ctx, "read a command", func(ctx context.Context, q bun.IDB) (err error) {
		command, err = commandOf(ctx, q, s.tenant, target)
		return err
	})
	return command, err
}
