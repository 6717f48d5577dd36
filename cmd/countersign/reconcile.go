package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/reconcile"
	"countersign/worker"
	"countersign/workflows"
)

var differences = view[reconcile.Difference]{
	plural: "differences", name: func(d reconcile.Difference) string { return d.Name },
	columns: []column[reconcile.Difference]{
		{title: "KIND", text: func(d reconcile.Difference) string { return string(d.Kind) }},
		{title: "TENANT", text: func(d reconcile.Difference) string { return d.Tenant }},
		{title: "NAME", text: func(d reconcile.Difference) string { return d.Name }},
		{title: "FOUND", wide: true, text: func(d reconcile.Difference) string { return d.Found }},
		{title: "REPAIR", text: func(d reconcile.Difference) string {
			switch {
			case d.Repaired:
				return "done: " + d.Repair
			case d.Fault != "":
				return "failed: " + d.Fault
			}
			return d.Repair
		}},
	},
}

func newReconcileCommand(c *cli) *cobra.Command {
	var (
		file      string
		fix, deep bool
		settle    time.Duration
	)
	command := &cobra.Command{
		Use: "reconcile", Short: "Compare the tables with the workflows and the schedule, and repair", Args: cobra.NoArgs,
		Long: `Compares the tables with the open workflows and the schedules: after one of the two
was restored from a backup or lost, they do not fit. It runs from the configuration of
the servers, beside them. A difference has to last for --settle, so that what is just
being changed is none. With --fix the workflows are made to fit the tables, which
decide; no row is changed. The exit code is 7 when something is left that differs.`,
		Example: "  countersign reconcile --deep\n  countersign reconcile --deep --fix",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if settle < 0 {
				return usagef("--settle %s is negative", settle)
			}
			conf, err := config.Load(config.Default(), file, changedFlags(cmd))
			if err != nil {
				return usagef("%s", err.Error())
			}
			ctx, log := cmd.Context(), app.Logger(conf.Log)
			store, err := openDatabase(ctx, conf, log)
			if err != nil {
				return err
			}
			defer store.Close()
			if err := store.System().Check(ctx); err != nil {
				return err
			}
			codec, err := app.Codec(ctx, conf)
			if err != nil {
				return err
			}
			address := temporalAddress(conf)
			address.Codec = codec
			engine, namespace, err := worker.Dial(address, app.Quiet(log))
			if err != nil {
				return err
			}
			defer engine.Close()
			r := reconcile.Reconciler{
				DB: store, Workflows: workflows.NewClient(engine, namespace, ""), Temporal: engine, Codec: codec,
				Interval: conf.Probe.Interval, Settle: settle, Deep: deep,
			}
			all, err := r.Look(ctx)
			if err != nil {
				return err
			}
			if fix {
				r.Repair(ctx, all)
			}
			left := 0
			for _, d := range all {
				if !d.Repaired {
					left++
				}
			}
			if err := showList(c, differences, all); err != nil {
				return err
			}
			if left > 0 {
				return &failure{Exit: exitFindings, silent: true, Message: fmt.Sprintf("%d things differ", left)}
			}
			return nil
		},
	}
	f := command.Flags()
	f.StringVar(&file, "config", os.Getenv(config.Prefix+"CONFIG"), "configuration file (COUNTERSIGN_CONFIG)")
	f.String("database", "", "sqlite:PATH or postgres://…")
	f.BoolVar(&fix, "fix", false, "make the workflows and the schedule fit the tables")
	f.BoolVar(&deep, "deep", false, "ask each workflow for its copy, which needs a worker; after a restore")
	f.DurationVar(&settle, "settle", 5*time.Second, "how long a difference has to last")
	c.addOutputFlag(f)
	completeWords(command, "output", formats())
	return command
}
