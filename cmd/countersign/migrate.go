package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/registry"
	"countersign/worker"
)

// newMigrateCommand brings the database and the Temporal namespace to what
// this binary needs.
func newMigrateCommand() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "migrate", Short: "Bring the database and Temporal to this version"}
	c.PersistentFlags().StringVar(&file, "config", os.Getenv(config.Prefix+"CONFIG"), "configuration file (COUNTERSIGN_CONFIG)")
	c.PersistentFlags().String("database", "", "sqlite:PATH or postgres://…")

	with := func(do func(ctx context.Context, c *cobra.Command, store *db.DB) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, _ []string) error {
			conf, err := config.Load(config.Default(), file, changedFlags(c))
			if err != nil {
				return usagef("%s", err.Error())
			}
			if conf.Database.URL == "" {
				return usagef("no database: give --database, or database.url in the configuration")
			}
			if path, ok := strings.CutPrefix(string(conf.Database.URL), "sqlite:"); ok && c.Name() != "up" {
				if _, err := os.Stat(path); err != nil {
					return failf(registry.ReasonInvalidArgument, "there is no database %s", path).withNext("countersign migrate up makes one")
				}
			}
			store, err := db.Open(c.Context(), conf.Database.Options(app.Logger(conf.Log)))
			if err != nil {
				return err
			}
			defer store.Close()
			return do(c.Context(), c, store)
		}
	}
	var steps int
	var yes bool
	down := &cobra.Command{
		Use: "down", Short: "Take back the last migrations, with the data that they hold", Args: cobra.NoArgs,
		Long: "Take back the last migrations. What their tables hold is lost, for good; so this asks for --yes.",
		RunE: with(func(ctx context.Context, c *cobra.Command, store *db.DB) error {
			if steps < 1 {
				return usagef("--steps must be at least 1, not %d", steps)
			}
			before, err := applied(ctx, store)
			if err != nil {
				return err
			}
			if len(before) == 0 {
				printMigrations(c, "took back", nil)
				return nil
			}
			last := before[max(0, len(before)-steps):]
			if !yes {
				return usagef("this would take back %s and lose all that their tables hold", strings.Join(last, ", ")).
					withNext("make a backup, then repeat with --yes")
			}
			if err := store.Down(ctx, steps); err != nil {
				return err
			}
			slices.Reverse(last)
			printMigrations(c, "took back", last)
			return nil
		}),
	}
	down.Flags().IntVar(&steps, "steps", 1, "how many, at least 1")
	down.Flags().BoolVar(&yes, "yes", false, "lose the data")
	c.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Apply what is missing", Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c *cobra.Command, store *db.DB) error {
				applied, err := store.Up(ctx)
				printMigrations(c, "applied", applied)
				return err
			}),
		},
		down,
		&cobra.Command{
			Use: "status", Short: "Say what is applied", Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c *cobra.Command, store *db.DB) error {
				list, err := store.Status(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 4, 2, ' ', 0)
				for _, m := range list {
					state := "missing"
					if !m.AppliedAt.IsZero() {
						state = "applied"
					}
					if !m.Known {
						state = "applied by a newer version"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\n", m.Name, m.Comment, state)
				}
				if err := w.Flush(); err != nil {
					return err
				}
				return store.Check(ctx)
			}),
		},
		&cobra.Command{
			Use: "temporal", Short: "Make the Temporal namespace and its search attributes", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				conf, err := config.Load(config.Default(), file, nil)
				if err != nil {
					return usagef("%s", err.Error())
				}
				engine, namespace, err := worker.Dial(temporalAddress(conf), app.Quiet(app.Logger(conf.Log)))
				if err != nil {
					return err
				}
				defer engine.Close()
				made, err := worker.EnsureNamespace(c.Context(), engine, namespace)
				if err != nil {
					return err
				}
				if made {
					fmt.Fprintln(c.OutOrStdout(), "made namespace", namespace)
				}
				added, err := worker.EnsureSearchAttributes(c.Context(), engine, namespace)
				printMigrations(c, "registered", added)
				return err
			},
		},
	)
	return c
}

// applied names the migrations that are applied, in order.
func applied(ctx context.Context, store *db.DB) ([]string, error) {
	list, err := store.Status(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

func printMigrations(c *cobra.Command, what string, names []string) {
	if len(names) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "nothing to do")
	}
	for _, name := range names {
		fmt.Fprintln(c.OutOrStdout(), what, name)
	}
}
