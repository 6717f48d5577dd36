package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/cmd/internal/config"
	"countersign/cmd/internal/doctor"
)

var findings = view[doctor.Finding]{plural: "checks", name: func(f doctor.Finding) string { return f.Check }, columns: []column[doctor.Finding]{
	{title: "STATUS", text: func(f doctor.Finding) string { return string(f.Status) }},
	{title: "CHECK", text: func(f doctor.Finding) string { return f.Check }},
	{title: "FOUND", text: func(f doctor.Finding) string {
		if f.Fix == "" {
			return f.Found
		}
		return f.Found + "; fix: " + f.Fix
	}},
	{title: "REASON", wide: true, text: func(f doctor.Finding) string { return string(f.Reason) }},
}}

func newDoctorCommand(c *cli) *cobra.Command {
	var role, file string
	command := &cobra.Command{
		Use: "doctor", Short: "Check what the servers need, from their own configuration", Args: cobra.NoArgs,
		Long: `Checks what "countersign serve" with the same configuration needs: the database,
its schema, roles and row security, Temporal with its namespace, search attributes
and schedule, the workers, issuers, keys, the sandbox, the clocks, and where servers
may be. Each line is ok, warn or fail, with what was found and how to mend it.
Nothing is changed. The exit code is 7 when something fails.`,
		Example: "  countersign doctor --config /etc/countersign/config.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "all" && role != "api" && role != "worker" {
				return usagef("--role must be all, api or worker, not %q", role)
			}
			conf, err := config.Load(config.Default(), file, changedFlags(cmd))
			if err != nil {
				return usagef("%s", err.Error())
			}
			all := doctor.Examine(cmd.Context(), conf, role, app.Logger(conf.Log))
			if err := showList(c, findings, all); err != nil {
				return err
			}
			failed := 0
			for _, f := range all {
				if f.Status == doctor.Fail {
					failed++
				}
			}
			if failed > 0 {
				return &failure{Exit: exitFindings, silent: true, Message: fmt.Sprintf("%d checks failed", failed)}
			}
			return nil
		},
	}
	f := command.Flags()
	f.StringVar(&role, "role", "all", "as which process: all, api or worker")
	f.StringVar(&file, "config", os.Getenv(config.Prefix+"CONFIG"), "configuration file (COUNTERSIGN_CONFIG)")
	f.String("database", "", "sqlite:PATH or postgres://…")
	c.addOutputFlag(f)
	completeWords(command, "output", formats())
	return command
}
