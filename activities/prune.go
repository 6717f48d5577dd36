package activities

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
)

// One round of retention removes at most so much, in small steps: the next round
// goes on.
const (
	pruneStep     = 20 // snapshots
	pruneRound    = 1000
	pruneRows     = 5000      // probes, idempotency keys or records of operations
	pruneRowRound = 1_000_000 // more than the windows of 10,000 servers in an hour at half a minute each
)

// Prune removes what nothing needs any longer (R172). Twice, it finds nothing
// more to do.
func (a *Activities) Prune(ctx context.Context, _ PruneInput) (PruneOutput, error) {
	defer beating(ctx)()
	var out PruneOutput
	if err := a.pruneSnapshots(ctx, &out); err != nil {
		return out, err
	}
	if err := a.pruneProbes(ctx, &out); err != nil {
		return out, err
	}
	if err := a.pruneOperations(ctx, &out); err != nil {
		return out, err
	}
	if out != (PruneOutput{}) {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "pruned", slog.Int("snapshots", out.Snapshots), slog.Int("definitions", out.Definitions),
			slog.Int("probes", out.Probes), slog.Int("keys", out.Keys), slog.Int("operations", out.Operations))
	}
	return out, nil
}

func (a *Activities) pruneSnapshots(ctx context.Context, out *PruneOutput) error {
	for a.KeepSnapshots > 0 && out.Snapshots < pruneRound {
		pruned, err := a.DB.System().PruneSnapshots(ctx, a.KeepSnapshots, pruneStep)
		out.Snapshots, out.Definitions = out.Snapshots+pruned.Snapshots, out.Definitions+pruned.Definitions
		if err != nil || !pruned.More {
			return err
		}
		activity.RecordHeartbeat(ctx, out.Snapshots)
	}
	return nil
}

func (a *Activities) pruneProbes(ctx context.Context, out *PruneOutput) error {
	for a.KeepProbes > 0 && out.Probes < pruneRowRound {
		n, err := a.DB.System().PruneProbes(ctx, a.KeepProbes, pruneRows)
		out.Probes += n
		if err != nil || n < pruneRows {
			return err
		}
		activity.RecordHeartbeat(ctx, out.Probes)
	}
	return nil
}

func (a *Activities) pruneOperations(ctx context.Context, out *PruneOutput) error {
	for a.KeepKeys > 0 && out.Keys+out.Operations < pruneRowRound {
		pruned, err := a.DB.System().PruneOperations(ctx, a.KeepKeys, a.KeepOperations, pruneRows)
		out.Keys, out.Operations = out.Keys+pruned.Keys, out.Operations+pruned.Operations
		if err != nil || !pruned.More {
			return err
		}
		activity.RecordHeartbeat(ctx, out.Keys+out.Operations)
	}
	return nil
}
