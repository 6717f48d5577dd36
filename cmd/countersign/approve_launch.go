package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

const launchPending = registryv1.LaunchStatus_LAUNCH_STATUS_PENDING

func approveLaunchCommand(c *cli) *cobra.Command {
	var (
		digest, comment string
		wait            waiting
	)
	command := &cobra.Command{
		Use: "approve-launch NAME", Short: "Let the command of a stdio server be started, exactly as shown",
		Long: `Shows the command of a server whole, and lets exactly it be started. The server
is then discovered; what it offers still waits for an approval of its own. A
command that the operator changes waits for an approval of its launch again.

Needs the role of a platform administrator.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wait.check(); err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			looking, done := c.within(cmd.Context(), callTimeout)
			defer done()
			s, err := api.getServer(looking, args[0])
			if err != nil {
				return err
			}
			if s.GetCommand() == nil {
				return failf(registry.ReasonNoLaunch, "server %s is reached over the network; there is nothing to launch", s.GetName())
			}
			if digest == "" {
				if !c.quiet || !c.yes {
					shown := &sheet{}
					launchSheet(shown, s)
					fmt.Fprintf(c.stderr, "%s", shown.bytes())
				}
				if s.GetLaunch().GetStatus() == launchPending {
					if err := c.confirm(cmd.Context(), "Start this command?"); err != nil {
						return err
					}
				}
				digest = s.GetTargetDigest()
			}
			ctx, cancel := c.within(cmd.Context(), wait.usual())
			defer cancel()
			response, err := api.servers.ApproveLaunch(ctx, &registryv1.ApproveLaunchRequest{
				ServerId: s.GetServerId(), Digest: digest, Comment: comment,
			})
			if err != nil {
				return err
			}
			return c.showAwaited(ctx, api, response.GetServer(), wait)
		},
	}
	flags := command.Flags()
	flags.StringVar(&digest, "digest", "", "approve only if the target still has this `DIGEST`, without showing the command or asking")
	flags.StringVar(&comment, "comment", "", "`TEXT`: why")
	wait.addFlag(command)
	return command
}

// launchSheet shows a command whole: every argument on a line of its own, as
// the program will get it.
func launchSheet(t *sheet, s server) {
	k := s.GetCommand()
	t.field("Command", k.GetRef())
	for i, arg := range k.GetArgv() {
		t.field(fmt.Sprintf("  argument %d", i), strconv.Quote(arg))
	}
	t.field("Directory", k.GetWorkingDirectory())
	t.field("Image", k.GetImage())
	for _, mount := range k.GetMounts() {
		t.field("  may read", mount)
	}
	for _, name := range slices.Sorted(maps.Keys(k.GetEnv())) {
		source := k.GetEnv()[name]
		if plain, ok := strings.CutPrefix(source, "plain:"); ok {
			t.field("  variable", name+" = "+strconv.Quote(plain))
			continue
		}
		t.field("  variable", name+" from "+source)
	}
	t.field("Sandbox", sandboxLine(k))
	t.field("Bounds", boundsLine(k))
	t.field("Launch", launchLine(s.GetLaunch()))
	t.field("Target digest", s.GetTargetDigest())
}

func sandboxLine(k *registryv1.Command) string {
	if k.GetSandbox() == string(registry.SandboxNone) {
		return "NONE: it can read and do what the worker can"
	}
	if slices.Contains(registry.Containers, registry.Sandbox(k.GetSandbox())) {
		if k.GetNetwork() {
			return "container of " + k.GetSandbox() + ", with its network"
		}
		return "container of " + k.GetSandbox() + ", without network"
	}
	if k.GetNetwork() {
		return k.GetSandbox() + ", with the machine's network"
	}
	return k.GetSandbox() + ", without network"
}

// boundsLine says who bounds what all its processes use together. Which it was is
// known when it was started.
func boundsLine(k *registryv1.Command) string {
	if slices.Contains(registry.Containers, registry.Sandbox(k.GetSandbox())) {
		return "held by " + k.GetSandbox()
	}
	return "held by the kernel where the worker has a cgroup; elsewhere memory and tasks are looked at every 50 ms, and processors are not bounded"
}

func launchLine(l *registryv1.Launch) string {
	return some(", ", word(l.GetStatus()), orNothing("by ", l.GetApprovedBy()), when(l.GetApproveTime()))
}
