package app

import (
	"context"
	"log/slog"
	"os"

	"countersign/mcpclient"
	"countersign/registry"
	"countersign/secrets"
)

// keeper keeps the processes that the worker starts, and has removed what those of
// dead workers left. It says what bounds all processes of a server together.
func (a App) keeper(ctx context.Context) (*mcpclient.Keeper, error) {
	keeper, err := mcpclient.OpenKeeper(ctx, mcpclient.KeeperOptions{
		StateDir: a.Config.Worker.StateDir, Cgroup: a.Config.Worker.Cgroup, Environ: os.Environ(), Log: a.Log,
	})
	if err != nil && len(a.Config.Commands) == 0 && a.Config.Worker.StateDir == "" && a.Config.Worker.Cgroup == "" {
		// It starts no processes, and nobody said that it should have either.
		a.Log.LogAttrs(ctx, slog.LevelWarn, "servers' processes would not be kept: commands that are added later need a restart with a state directory", slog.Any("error", err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if held, how := keeper.Bounds(); held {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the kernel holds the limits of servers' processes", slog.String("by", how))
	} else {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "limits of servers' processes are looked at every 50 ms: in between a server can use more memory and tasks, and the processor's time is bounded for each process only",
			slog.String("reason", how))
	}
	return keeper, nil
}

// launcher gives the MCP client the command of a target, with what its
// references stand for: they are resolved for this one start (R27, R28).
func (a App) launcher(resolver secrets.Resolver) func(context.Context, registry.Target) (mcpclient.Command, error) {
	return func(ctx context.Context, target registry.Target) (mcpclient.Command, error) {
		k := target.Command
		if k == nil {
			return mcpclient.Command{}, registry.Errorf(registry.ReasonInternal, "the target names no command")
		}
		env, mask, err := resolver.Environment(ctx, k.Env)
		if err != nil {
			e, _ := registry.AsError(err)
			a.Log.LogAttrs(ctx, slog.LevelWarn, "a command is not started", slog.String("command", k.Ref), slog.Any("error", err), slog.Any("cause", e.Err))
			return mcpclient.Command{}, err
		}
		return mcpclient.Command{
			Argv: k.Argv, Dir: k.Dir, Env: env, Mask: mask,
			Sandbox: k.Sandbox, Image: k.Image, Mounts: k.Mounts, Network: k.Network, Start: k.Start, Limits: k.Limits,
		}, nil
	}
}
