package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/worker"
)

func newRolloutCommand() *cobra.Command {
	var file, deployment, build string
	command := &cobra.Command{
		Use: "rollout", Short: "Give workflows to the workers of another build", Args: cobra.NoArgs,
		Long: `Makes a build the current one of the worker deployment. New workflows begin there,
servers move there with their next task, and short workflows end on the build that
began them. Workers of the build have to run. Going back is the same with --build.`,
		Example: "  countersign rollout --build 2026.12.1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := config.Load(config.Default(), file, nil)
			if err != nil {
				return usagef("%s", err.Error())
			}
			deployment, build = cmp.Or(deployment, conf.Worker.Deployment), cmp.Or(build, conf.Worker.Build)
			if deployment == "" || build == "" {
				return usagef("which build of which deployment?").withNext("set worker.deployment and worker.build, or give --deployment and --build")
			}
			engine, _, err := worker.Dial(temporalAddress(conf), app.Quiet(app.Logger(conf.Log)))
			if err != nil {
				return err
			}
			defer engine.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			before, err := worker.Rollout(ctx, engine, deployment, build)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "current is build %s, before it was %s\n", build, cmp.Or(before, "none"))
			return nil
		},
	}
	f := command.Flags()
	f.StringVar(&file, "config", os.Getenv(config.Prefix+"CONFIG"), "configuration file (COUNTERSIGN_CONFIG)")
	f.StringVar(&deployment, "deployment", "", "`NAME` of the deployment, instead of worker.deployment")
	f.StringVar(&build, "build", "", "`ID` of the build, instead of worker.build")
	return command
}
