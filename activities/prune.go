package activities

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
)

// One round of retention removes at most so many snapshots, in small steps: the
// next round goes on.
const (
	pruneStep  = 20
	pruneRound = 1000
)

// Prune removes the snapshots that nothing needs any longer. Twice, it finds
// nothing more to do.
func (a *Activities) Prune(ctx context.Context, _ PruneInput) (PruneOutput, error) {
	var out PruneOutput
	if a.KeepSnapshots <= 0 {
		return out, nil
	}
	defer beating(ctx)()
	for out.Snapshots < pruneRound {
		pruned, err := a.DB.System().PruneSnapshots(ctx, a.KeepSnapshots, pruneStep)
		out.Snapshots, out.Definitions = out.Snapshots+pruned.Snapshots, out.Definitions+pruned.Definitions
		if err != nil {
			return out, err
		}
		if !pruned.More {
			break
		}
		activity.RecordHeartbeat(ctx, out.Snapshots)
	}
	if out.Snapshots > 0 {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "pruned", slog.Int("snapshots", out.Snapshots), slog.Int("definitions", out.Definitions))
	}
	return out, nil
}
