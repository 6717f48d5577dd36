package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func reportCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "report NAME", Short: "Say what a server can do by its versions and its tools, and what keeps it from the rest",
		Long: `Says what a server can do by the capability table and by the last look at the
server, and what keeps it from doing the rest. A tool that belongs to something
that the server cannot do is not callable: this is what resolve goes by.

With -o name the keys of what it can do, one a line.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			answer, err := api.servers.GetCapabilityReport(ctx, &registryv1.GetCapabilityReportRequest{ServerId: args[0]})
			if err != nil {
				return err
			}
			r := answer.GetReport()
			var can []string
			for _, s := range r.GetCapabilities() {
				if s.GetAvailable() {
					can = append(can, s.GetKey())
				}
			}
			return c.show(r, can, func(s *sheet) { report(s, r) })
		}),
	}
}

// report says first what the server is, then what it can and cannot do, then
// what all that rests on.
func report(s *sheet, r *registryv1.CapabilityReport) {
	s.field("Name", r.GetServerName())
	s.field("ID", r.GetServerId())
	s.field("Says it is", reportedLine(r.GetReported()))
	s.field("Protocol", r.GetProtocolVersion())
	for _, k := range r.GetKnownServers() {
		s.field("Known as", k.GetTitle()+" ("+k.GetId()+")")
	}
	s.field("Product version", productLine(r))
	if len(r.GetKnownServers()) == 0 {
		s.gap()
		s.linef("The capability table knows nothing of this server, so it switches nothing off.")
	}
	for _, part := range []struct {
		title string
		mark  string
		can   bool
		text  func(*registryv1.CapabilityState) string
	}{
		{"AVAILABLE", "✓", true, (*registryv1.CapabilityState).GetNote},
		{"NOT AVAILABLE", "✗", false, func(c *registryv1.CapabilityState) string { return cmp.Or(c.GetBlockerText(), c.GetNote()) }},
	} {
		var rows []*registryv1.CapabilityState
		for _, c := range r.GetCapabilities() {
			if c.GetAvailable() == part.can {
				rows = append(rows, c)
			}
		}
		if len(rows) == 0 {
			continue
		}
		s.gap()
		writeTable(s, []column[*registryv1.CapabilityState]{
			{title: part.title, text: func(c *registryv1.CapabilityState) string { return part.mark + " " + c.GetKey() }},
			{title: "WHAT IT IS", text: (*registryv1.CapabilityState).GetFeature},
			{title: "SWITCHES", text: func(c *registryv1.CapabilityState) string { return strings.Join(c.GetGatedTools(), ", ") }},
			{title: "SINCE", wide: true, text: sinceLine},
			{title: map[bool]string{true: "NOTE", false: "WHY NOT"}[part.can], text: part.text},
		}, rows)
	}
	s.gap()
	reportTools(s, "Tools", r.GetTools())
	reportTools(s, "Foreign tools", r.GetForeignTools())
	reportTools(s, "Quarantined tools", r.GetQuarantinedTools())
	s.gap()
	switch at := when(r.GetLookTime()); {
	case r.GetDoubt() != "" && at != "":
		s.linef("Nothing is known to be available: %s. The last look that succeeded was at %s.", r.GetDoubt(), at)
	case r.GetDoubt() != "":
		s.linef("Nothing is known to be available: %s.", r.GetDoubt())
	default:
		s.linef("Valid for the look at the server at %s.", at)
	}
}

// reportTools lists tools, one a line; the first kind also when there are none.
func reportTools(s *sheet, title string, tools []*registryv1.ReportedTool) {
	if len(tools) == 0 && title != "Tools" {
		return
	}
	s.linef("%s: %d", title, len(tools))
	for _, t := range tools {
		s.linef("  %s", some(": ", t.GetName(), t.GetQuarantineReason()))
	}
}

func productLine(r *registryv1.CapabilityReport) string {
	if v := r.GetProductVersion(); v != "" {
		return v + ", declared"
	}
	var read []string
	for _, k := range r.GetKnownServers() {
		if v := k.GetProductVersion(); v != "" {
			read = append(read, v+", read out of the server's version")
		}
	}
	return strings.Join(read, "; ")
}

func sinceLine(c *registryv1.CapabilityState) string {
	if c.GetSinceVersion() == "" {
		return ""
	}
	return fmt.Sprintf("%s %s", word(c.GetSinceAxis()), c.GetSinceVersion())
}
