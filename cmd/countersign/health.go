package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

var probes = view[*registryv1.Probe]{
	plural: "probes",
	name:   func(p *registryv1.Probe) string { return when(p.GetWindow()) },
	columns: []column[*registryv1.Probe]{
		{title: "WINDOW", text: func(p *registryv1.Probe) string { return when(p.GetWindow()) }},
		{title: "OUTCOME", text: func(p *registryv1.Probe) string { return word(p.GetOutcome()) }},
		{title: "REASON", text: (*registryv1.Probe).GetReason},
		{title: "ATTEMPTS", text: func(p *registryv1.Probe) string { return strconv.Itoa(int(p.GetAttempts())) }},
		{title: "TOOK", text: func(p *registryv1.Probe) string { return latency(p.GetDuration()) }},
		{title: "MESSAGE", text: (*registryv1.Probe).GetMessage},
		{title: "PROTOCOL", wide: true, text: (*registryv1.Probe).GetProtocolVersion},
		{title: "SAYS ITS VERSION IS", wide: true, text: (*registryv1.Probe).GetServerVersion},
		{title: "TOOLS", wide: true, text: (*registryv1.Probe).GetToolsDigest},
	},
}

// healthReport is how a server is and was.
type healthReport struct {
	Health    json.RawMessage   `json:"health"`
	Uptime    json.RawMessage   `json:"uptime"`
	LastProbe json.RawMessage   `json:"lastProbe,omitempty"`
	Probes    []json.RawMessage `json:"probes"`
}

func healthCommand(c *cli) *cobra.Command {
	var (
		since string
		pages paging
	)
	command := &cobra.Command{
		Use: "health NAME", Short: "Say how a server is, since when and what to do, and how its probes went",
		Long: `Says how a server is, since when, why and what to do next; how much of a period
it was up, how fast it answered, and its last probes, the newest first.

Windows in which our own side was away, or the server asked for patience, say
nothing about it and do not count.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			period, err := parsePeriod(since)
			if err != nil || period <= 0 {
				return usagef("--since %q is no period like 24h or 7d", since)
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			h, err := api.servers.GetMcpServerHealth(ctx, &registryv1.GetMcpServerHealthRequest{ServerId: args[0], Period: durationpb.New(period)})
			if err != nil {
				return err
			}
			last, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[*registryv1.Probe], error) {
				r, err := api.servers.ListProbes(ctx, &registryv1.ListProbesRequest{ServerId: args[0], PageSize: size, PageToken: token})
				return page[*registryv1.Probe]{r.GetProbes(), r.GetNextPageToken(), 0}, err
			})
			if err != nil {
				return err
			}
			return c.showHealth(args[0], period, h, last)
		},
	}
	command.Flags().StringVar(&since, "since", "24h", "how far back the uptime goes, a `PERIOD` like 24h or 7d, 92d at most")
	pages.addFlags(command.Flags())
	command.Flags().Lookup("limit").DefValue, pages.limit = "12", 12 // an hour at the usual interval
	return command
}

func (c *cli) showHealth(name string, period time.Duration, h *registryv1.GetMcpServerHealthResponse, last []*registryv1.Probe) (err error) {
	report := healthReport{Probes: make([]json.RawMessage, len(last))}
	if report.Health, err = encode(h.GetHealth()); err != nil {
		return err
	}
	if report.Uptime, err = encode(h.GetUptime()); err != nil {
		return err
	}
	if h.GetLastProbe() != nil {
		if report.LastProbe, err = encode(h.GetLastProbe()); err != nil {
			return err
		}
	}
	for i, p := range last {
		if report.Probes[i], err = encode(p); err != nil {
			return err
		}
	}
	return c.show(report, []string{name}, func(s *sheet) {
		s.field("Health", some(", ", healthWord(h.GetHealth()), h.GetHealth().GetSummary(), orNothing("since ", when(h.GetHealth().GetSince()))))
		s.field("Probes", probingLine(h.GetHealth().GetProbing()))
		whatNext(s, h.GetHealth())
		s.field("Uptime", uptimeLine(h.GetUptime(), period))
		if u := h.GetUptime(); u.GetGood() > 0 {
			s.field("Answers in", fmt.Sprintf("%s (half of them), %s (9 of 10), %s (99 of 100)",
				latency(u.GetLatencyP50()), latency(u.GetLatencyP90()), latency(u.GetLatencyP99())))
		}
		if len(last) > 0 {
			s.gap()
			writeTable(s, probes.columns, last)
		}
	})
}

// whatNext writes what is to be done about a server's health, and who can.
func whatNext(s *sheet, h *registryv1.Health) {
	s.field("Next step", h.GetNextStep())
	if h.GetNextStep() != "" {
		s.field("Who can act", strings.Join(h.GetWhoCanAct(), ", "))
	}
}

// probingLine is what probes know of a server: its word, and what that means.
func probingLine(p registryv1.Probing) string {
	if p == registryv1.Probing_PROBING_UNSPECIFIED {
		return "" // of an API that does not say it
	}
	return some(": ", word(p), registry.Probing(word(p)).Means())
}

// uptimeLine tells apart: never probed, probed and nothing learnt, and a share.
func uptimeLine(u *registryv1.Uptime, period time.Duration) string {
	over := "of the last " + periodWord(period)
	switch {
	case u.GetProbes() == 0:
		return "unknown: not one probe " + over
	case u.Share == nil:
		return fmt.Sprintf("unknown: none of %d probes %s says anything about it", u.GetProbes(), over)
	}
	line := fmt.Sprintf("%.2f %% %s: %d good, %d failed", 100*u.GetShare(), over, u.GetGood(), u.GetFailed())
	if n := u.GetListFaults(); n > 0 {
		line += fmt.Sprintf(", %d with a list that cannot be read", n)
	}
	if n := u.GetWithheld(); n > 0 {
		line += fmt.Sprintf(", %d that say nothing", n)
	}
	if u.GetFlapping() {
		line += fmt.Sprintf("; it comes and goes: %d changes", u.GetChanges())
	}
	return line
}

// periodWord writes whole days as such.
func periodWord(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return fmt.Sprintf("%.4g hours", d.Hours())
}

func latency(d *durationpb.Duration) string {
	return d.AsDuration().Round(100 * time.Microsecond).String()
}
