package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/db"
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
			store, err := db.Open(c.Context(), db.Options{URL: conf.Database.URL, Logger: app.Logger(conf.Log)})
			if err != nil {
				return err
			}
			defer store.Close()
			return do(c.Context(), c, store)
		}
	}
	steps := 1
	down := &cobra.Command{
		Use: "down", Short: "Take back the last migrations", Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, c *cobra.Command, store *db.DB) error {
			return store.Down(ctx, steps)
		}),
	}
	down.Flags().IntVar(&steps, "steps", 1, "how many")
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
				engine, namespace, err := worker.Dial(c.Context(), temporalAddress(conf), app.Quiet(app.Logger(conf.Log)))
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

func printMigrations(c *cobra.Command, what string, names []string) {
	if len(names) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "nothing to do")
	}
	for _, name := range names {
		fmt.Fprintln(c.OutOrStdout(), what, name)
	}
}
