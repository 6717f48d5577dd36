package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

var testSteps = []column[*registryv1.TestStep]{
	{title: "STEP", text: (*registryv1.TestStep).GetName},
	{title: "RESULT", text: func(s *registryv1.TestStep) string {
		if s.GetOk() {
			return "ok"
		}
		return "failed"
	}},
	{title: "TIME", text: func(s *registryv1.TestStep) string {
		return latency(s.GetDuration())
	}},
	{title: "DETAIL", text: (*registryv1.TestStep).GetDetail},
}

func testServerCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Try a handshake and the lists, step by step; changes nothing",
		Long: `Tries a handshake and the lists, step by step, and changes nothing. The exit code
is 1 when a step fails.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(waitTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.servers.TestMcpServer(ctx, &registryv1.TestMcpServerRequest{ServerId: args[0]})
			if err != nil {
				return err
			}
			return c.showTest(args[0], r)
		}),
	}
}

func (c *cli) showTest(name string, r *registryv1.TestMcpServerResponse) error {
	err := c.show(r, []string{name}, func(s *sheet) {
		if len(r.GetSteps()) > 0 {
			writeTable(s, testSteps, r.GetSteps())
			s.gap()
		}
		s.field("Protocol", r.GetProtocolVersion())
		s.field("Says it is", reportedLine(r.GetReported()))
		s.field("Offers", strings.Join(r.GetCapabilities(), ", "))
		if r.GetOk() {
			s.field("Listed", fmt.Sprintf("%d tools, %d resources, %d templates, %d prompts", r.GetTools(), r.GetResources(), r.GetTemplates(), r.GetPrompts()))
		}
		if h := r.GetHealth(); h != nil {
			s.field("So it is", some(", ", healthWord(h), h.GetSummary()))
			s.field("Who can act", strings.Join(h.GetWhoCanAct(), ", "))
		}
		s.field("Tolerated", strings.Join(r.GetQuirks(), ", "))
	})
	if err != nil || r.GetOk() {
		return err
	}
	return (&failure{
		Exit: exitFailure, Reason: registry.Reason(r.GetReason()),
		Message: "the test of " + name + " failed" + orNothing(": ", r.GetMessage()),
	}).withNext("%s", r.GetNextStep())
}

// orNothing gives a text with something before it, if there is a text.
func orNothing(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// reportedLine is what a server says of itself, marked as such.
func reportedLine(r *registryv1.ReportedIdentity) string {
	said := some(" ", r.GetName(), r.GetVersion())
	if said == "" {
		return ""
	}
	// What is escaped is left to the sheet; a quote of its own must not end ours.
	return `"` + strings.ReplaceAll(said, `"`, `\"`) + `" (not to be trusted)`
}
