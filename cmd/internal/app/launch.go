package app

import (
	"context"
	"log/slog"

	"countersign/mcpclient"
	"countersign/registry"
	"countersign/secrets"
)

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
