package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func getProviderCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Aliases: []string{"describe"}, Short: "Say all about a provider: its servers and contributions, and what is wrong with each",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.providers.GetToolProvider(ctx, &registryv1.GetToolProviderRequest{Name: args[0]})
			if err != nil {
				return err
			}
			p := r.GetProvider()
			return c.show(p, []string{p.GetName()}, func(t *sheet) { describeProvider(t, p) })
		}),
	}
}

func describeProvider(t *sheet, p provider) {
	t.field("Name", p.GetName())
	t.field("Family", word(p.GetFamily()))
	t.field("Enabled", yesNo(p.GetEnabled()))
	t.field("Description", p.GetDescription())
	if a := p.GetAep(); a != nil {
		t.field("Base URL", a.GetBaseUrl())
		t.field("Extension", a.GetExtensionId())
		t.field("Authentication", word(a.GetAuthentication()))
		t.field("Exception", a.GetExceptionReason())
		t.field("Policy", a.GetGovernancePolicyRef())
	} else {
		t.field("Endpoint", p.GetMcp().GetEndpointRef())
		t.field("Authentication", word(p.GetMcp().GetAuthentication()))
		t.field("Policy", p.GetMcp().GetGovernancePolicyRef())
	}
	describeRefresh(t, p.GetRefresh())
	for _, s := range p.GetServers() {
		t.field("Server", some(", ", s.GetServerName(), word(s.GetState()), s.GetEndpointUrl(), some(": ", s.GetReason(), s.GetMessage())))
	}
	for _, v := range p.GetContributions() {
		t.field("Contribution", contributionLine(v))
	}
	t.field("Created", some(" by ", when(p.GetCreateTime()), p.GetCreatedBy()))
	t.field("Etag", p.GetEtag())
}

func contributionLine(v *registryv1.ProviderContribution) string {
	return some(", ", v.GetContributionId(), some("/", v.GetServerName(), v.GetMcpTool()), v.GetToolId(), some(": ", v.GetReason(), v.GetMessage()))
}

func describeRefresh(t *sheet, r *registryv1.ProviderRefresh) {
	t.field("Refresh", some(": ", word(r.GetStatus()), some(": ", r.GetReason(), r.GetMessage())))
	t.field("Extension says", some(" ", r.GetExtension().GetName(), r.GetExtension().GetVersion()))
	t.field("Descriptor", r.GetDescriptorUrl())
	for _, f := range r.GetFaults() {
		t.field("Fault", f.GetPath()+" "+f.GetMessage())
	}
	for _, f := range r.GetWarnings() {
		t.field("Warning", f.GetPath()+" "+f.GetMessage())
	}
	t.field("Tools", refreshCounts(r.GetCounts()))
}

func refreshCounts(n *registryv1.RefreshCounts) string {
	return fmt.Sprintf("%d new, %d changed, %d unchanged, %d unavailable, %d in all",
		n.GetNewTools(), n.GetChangedTools(), n.GetUnchangedTools(), n.GetUnavailableTools(), n.GetTotalTools())
}

func (c *cli) showRefresh(r *registryv1.RefreshToolProviderResponse, mustEnd bool, patience time.Duration) error {
	p, refresh := r.GetProvider(), r.GetProvider().GetRefresh()
	wrong := 0
	err := c.show(r, []string{p.GetName()}, func(t *sheet) {
		t.field("Provider", p.GetName())
		describeRefresh(t, refresh)
		for _, s := range p.GetServers() {
			if s.GetReason() != "" {
				t.field("Server", some(", ", s.GetServerName(), some(": ", s.GetReason(), s.GetMessage())))
			}
		}
		for _, v := range p.GetContributions() {
			if v.GetReason() != "" {
				wrong++
				t.field("Contribution", contributionLine(v))
			}
		}
		t.field("Temporal", r.GetRun().GetTemporalUrl())
	})
	switch {
	case err != nil:
		return err
	case !r.GetDone() && mustEnd:
		return failf(registry.ReasonDeadline, "the refresh of %s is still under way after %s", p.GetName(), patience).
			withNext("countersign provider get %s", p.GetName())
	case !r.GetDone():
		c.notef("the refresh is still under way")
		c.nextf("countersign provider get %s", p.GetName())
	case refresh.GetStatus() == registryv1.ProviderRefreshStatus_PROVIDER_REFRESH_STATUS_FAILED:
		return (&failure{
			Exit: exitFailure, Reason: registry.Reason(refresh.GetReason()),
			Message: "the refresh of " + p.GetName() + " failed, and changed nothing: " + refresh.GetMessage(),
		}).withNext("%s", refresh.GetNextStep())
	case wrong > 0:
		c.notef("%d contributions are no usable tools", wrong)
	}
	return nil
}

func testProviderCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Do all that a refresh does, and change nothing",
		Long: `Fetches the descriptor, and handshakes and lists at each server that it declares, and
changes nothing. The exit code is 1 when a refresh would find something wrong.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeProviders,
		RunE: c.call(waitTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.providers.TestToolProvider(ctx, &registryv1.TestToolProviderRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return c.showProviderTest(args[0], r)
		}),
	}
}

func (c *cli) showProviderTest(name string, r *registryv1.TestToolProviderResponse) error {
	failed := r.GetReason()
	err := c.show(r, []string{name}, func(t *sheet) {
		t.field("Descriptor", some(" ", r.GetDescriptorUrl(), some(": ", r.GetReason(), r.GetMessage())))
		t.field("Extension says", some(" ", r.GetExtension().GetName(), r.GetExtension().GetVersion()))
		for _, f := range r.GetFaults() {
			t.field("Fault", f.GetPath()+" "+f.GetMessage())
		}
		for _, f := range r.GetWarnings() {
			t.field("Warning", f.GetPath()+" "+f.GetMessage())
		}
		for _, s := range r.GetServers() {
			found := fmt.Sprintf("%d tools", s.GetReport().GetTools())
			if !s.GetReport().GetOk() {
				found = some(": ", s.GetReport().GetReason(), s.GetReport().GetMessage())
			}
			t.field("Server", some(", ", s.GetExternalId(), s.GetEndpointUrl(), found))
		}
		for _, v := range r.GetIssues() {
			t.field("Contribution", contributionLine(v))
		}
	})
	if err != nil || r.GetOk() {
		return err
	}
	for _, s := range r.GetServers() {
		if failed == "" {
			failed = s.GetReport().GetReason()
		}
	}
	for _, v := range r.GetIssues() {
		if failed == "" {
			failed = v.GetReason()
		}
	}
	return (&failure{Exit: exitFailure, Reason: registry.Reason(failed), Message: "the test of " + name + " found faults"}).withNext("%s", r.GetNextStep())
}
