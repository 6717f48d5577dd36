package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// description is all that there is to say about a server.
type description struct {
	Server       json.RawMessage `json:"server"`
	Capabilities json.RawMessage `json:"capabilities"`
}

func describeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Say all about a server: state, health, review, what it offers, what to do next",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			s, err := api.getServer(ctx, args[0])
			if err != nil {
				return err
			}
			offers, err := api.servers.GetMcpCapabilities(ctx, &registryv1.GetMcpCapabilitiesRequest{
				ServerId: s.GetServerId(), View: registryv1.CapabilityView_CAPABILITY_VIEW_BASIC,
			})
			if err != nil {
				return err
			}
			var all description
			if all.Server, err = encode(s); err != nil {
				return err
			}
			if all.Capabilities, err = encode(offers); err != nil {
				return err
			}
			return c.show(all, []string{s.GetName()}, func(t *sheet) { describe(t, s, offers) })
		}),
	}
}

func describe(t *sheet, s server, offers *registryv1.GetMcpCapabilitiesResponse) {
	t.field("Name", s.GetName())
	t.field("ID", s.GetServerId())
	t.field("State", word(s.GetState()))
	h := s.GetHealth()
	t.field("Health", some(", ", healthWord(h), h.GetSummary(), orNothing("since ", when(h.GetSince()))))
	t.field("Causes", strings.Join(s.GetCauses(), ", "))
	whatNext(t, h)
	for _, warning := range s.GetWarnings() {
		t.field("Warning", warning)
	}
	t.gap()
	t.field("Reached", some(", ", word(s.GetDirection()), word(s.GetTransport()), orNothing("protocol ", s.GetProtocolVersion())))
	t.field("URL", s.GetEndpointUrl())
	t.field("Dial address", s.GetDialAddress())
	if s.GetCommand() != nil {
		launchSheet(t, s)
	}
	t.field("Connection", s.GetEndpointRef())
	t.field("Authentication", word(s.GetAuthentication()))
	t.field("Exception", exceptionLine(s))
	t.field("Policy", s.GetGovernancePolicyRef())
	t.field("Release", s.GetReleaseId())
	t.field("Last handshake", when(s.GetLastHandshakeAt()))
	t.field("Says it is", reportedLine(s.GetReported()))
	t.gap()
	t.field("Description", s.GetDescription())
	t.field("Owner", s.GetOwner())
	t.field("Product version", s.GetProductVersion())
	t.field("Labels", labelLine(s.GetLabels()))
	t.field("Registered", some(" ", when(s.GetCreateTime()), orNothing("by ", s.GetCreatedBy())))
	t.field("Updated", when(s.GetUpdateTime()))
	t.field("Retired", when(s.GetRetireTime()))
	t.field("Etag", s.GetEtag())
	t.gap()
	describeReview(t, s.GetReview())
	t.field("Discovery", discoveryLine(s.GetDiscovery()))
	describeOffers(t, offers)
	if next := nextCommand(s); next != "" {
		t.gap()
		if strings.HasSuffix(next, "--empty") && len(offers.GetResources())+len(offers.GetPrompts()) > 0 {
			next += ", or with --resource URI or --prompt NAME=TARGET instead of --empty"
		}
		t.linef("Next: %s", next)
	}
}

func describeReview(t *sheet, r *registryv1.Review) {
	t.field("Review", some(", ", word(r.GetStatus()),
		orNothing("asked by ", r.GetRequestedBy()), orNothing("since ", when(r.GetOpenTime())),
		orNothing("decided by ", r.GetDecidedBy()), orNothing("at ", when(r.GetDecideTime()))))
	for _, vote := range r.GetVotes() {
		t.field("Approved so far", some(", ", vote.GetSubject(), strings.Join(vote.GetRoles(), " "), when(vote.GetTime()), vote.GetComment()))
	}
	t.field("It stands", r.GetStanding())
	if r.GetStatus() == reviewPending {
		t.field("Waits until", when(r.GetExpireTime()))
	}
	t.field("Review digest", r.GetDigest())
}

func describeOffers(t *sheet, offers *registryv1.GetMcpCapabilitiesResponse) {
	t.field("Tolerated", strings.Join(offers.GetQuirks(), ", "))
	if text := offers.GetInstructions(); text != "" {
		t.gap()
		t.linef("Instructions of the server (not to be trusted):")
		t.block("  ", text)
	}
	if tools := offers.GetTools(); len(tools) > 0 {
		t.gap()
		writeTable(t, toolColumns("TOOL", tool.GetName), tools)
	}
	if resources := offers.GetResources(); len(resources) > 0 {
		t.gap()
		writeTable(t, []column[*registryv1.Resource]{
			{title: "RESOURCE", text: (*registryv1.Resource).GetUri},
			{title: "TEMPLATE", text: func(r *registryv1.Resource) string { return yesNo(r.GetTemplate()) }},
			{title: "BOUND", text: func(r *registryv1.Resource) string { return yesNo(r.GetBound()) }},
			{title: "SOURCE", text: (*registryv1.Resource).GetSourceId},
			{title: "CLASSIFICATION", text: (*registryv1.Resource).GetClassification},
			{title: "SCOPE", text: (*registryv1.Resource).GetScope},
			{title: "QUARANTINE", text: (*registryv1.Resource).GetQuarantineReason},
		}, resources)
	}
	if prompts := offers.GetPrompts(); len(prompts) > 0 {
		t.gap()
		writeTable(t, []column[*registryv1.Prompt]{
			{title: "PROMPT", text: (*registryv1.Prompt).GetName},
			{title: "BOUND", text: func(p *registryv1.Prompt) string { return yesNo(p.GetBound()) }},
			{title: "TARGET", text: func(p *registryv1.Prompt) string {
				return some(" ", orNothing("skill:", p.GetSkillId()), orNothing("step:", p.GetWorkflowStepRef()))
			}},
			{title: "QUARANTINE", text: (*registryv1.Prompt).GetQuarantineReason},
		}, prompts)
	}
}

func exceptionLine(s server) string {
	e := s.GetAuthenticationException()
	if e.GetReason() == "" {
		return ""
	}
	until := "not approved"
	if e.GetExpireTime() != nil {
		until = some(", ", "until "+when(e.GetExpireTime()), orNothing("approved by ", e.GetApprovedBy()))
	}
	return until + orNothing(", because: ", e.GetReason())
}

func discoveryLine(d *registryv1.Discovery) string {
	counts := ""
	if d.GetSucceedTime() != nil && d.GetStatus() != discoveryFailed {
		counts = fmt.Sprintf("%d tools (%d new, %d changed, %d unchanged, %d gone)",
			d.GetTotalTools(), d.GetNewTools(), d.GetChangedTools(), d.GetUnchangedTools(), d.GetUnavailableTools())
	}
	number := ""
	if d.GetNumber() > 0 {
		number = fmt.Sprintf("number %d", d.GetNumber())
	}
	return some(", ", word(d.GetStatus()), number, when(d.GetFinishTime()), counts, some(": ", d.GetReason(), d.GetMessage()))
}

func labelLine(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ", ")
}
