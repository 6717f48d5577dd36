package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"countersign/policy"
	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func newPolicyCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "policy", Aliases: []string{"policies"},
		Short: "Governance policies: who approves what, which drift unbinds, which calls are refused",
		Long: `Governance policies: who must approve what, which drift unbinds, and which calls
are refused. A policy is a bundle of rules, written in a file and published under
a name in versions that never change. Every tenant has the built-in one, default.

  countersign policy show default >payments.yaml   # begin with the built-in one
  countersign policy test payments.yaml
  countersign policy impact payments.yaml
  countersign policy publish payments.yaml
  countersign server update demo --policy payments`,
	}
	group(command)
	command.AddCommand(checkPolicyCommand(c), testPolicyCommand(c), publishPolicyCommand(c), listPoliciesCommand(c), showPolicyCommand(c), policyImpactCommand(c))
	return command
}

// readDocument reads a file, or standard input for "-".
func (c *cli) readDocument(name string) ([]byte, error) {
	var (
		raw []byte
		err error
	)
	if name == "-" {
		raw, err = io.ReadAll(io.LimitReader(c.stdin, policy.MaxDocument+1))
	} else {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usagef("%s cannot be read: %s", name, err)
	}
	return raw, nil
}

// loadPolicy compiles a file. Its faults are the result.
func (c *cli) loadPolicy(name string) (*policy.Policy, error) {
	document, err := c.readDocument(name)
	if err != nil {
		return nil, err
	}
	bundle, problems := policy.Parse(document)
	var p *policy.Policy
	if len(problems) == 0 {
		p, problems = policy.Compile(bundle)
	}
	if len(problems) == 0 && bundle.Name == registry.PolicyDefault {
		c.notef("note: the built-in policy has this name; give it another one to publish it")
	}
	if len(problems) == 0 {
		return p, nil
	}
	paths := make([]string, len(problems))
	for i, problem := range problems {
		paths[i] = problem.Path
	}
	if err := c.show(problems, paths, func(s *sheet) {
		for _, problem := range problems {
			s.linef("%s:%s", name, problem)
		}
	}); err != nil {
		return nil, err
	}
	return nil, &failure{Exit: exitFindings, Reason: registry.ReasonInvalidPolicy, silent: true, Message: "the policy bundle has faults"}
}

func checkPolicyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say what is wrong with a bundle; asks nobody", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := c.loadPolicy(args[0])
			if err != nil {
				return err
			}
			b := p.Bundle()
			return c.show(struct {
				Policy string `json:"policy"`
				Digest string `json:"digest"`
			}{p.Ref(), p.Digest()}, []string{p.Ref()}, func(s *sheet) {
				s.linef("%s is well: %d rules, %d tests", p.Ref(), len(b.Approval)+len(b.Drift)+len(b.Calls), len(b.Tests))
				s.linef("%s", p.Digest())
			})
		},
	}
}

func testPolicyCommand(c *cli) *cobra.Command {
	var tests []string
	command := &cobra.Command{
		Use: "test FILE", Short: "Run the tests of a bundle; asks nobody", Args: cobra.ExactArgs(1),
		Long: `Runs the tests that a bundle carries, and those of --tests: files with nothing but
the field tests. Ends with 7 when a test fails or the bundle has faults.`,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := c.loadPolicy(args[0])
			if err != nil {
				return err
			}
			cases := p.Bundle().Tests
			for _, name := range tests {
				document, err := c.readDocument(name)
				if err != nil {
					return err
				}
				more, problems := policy.ParseCases(document)
				if err := policy.Refusal(problems); err != nil {
					return err
				}
				cases = append(slices.Clip(cases), more...)
			}
			results := policy.Test(p, cases)
			failed := 0
			var names []string
			for _, r := range results {
				if !r.Passed() {
					failed++
					names = append(names, r.Case)
				}
			}
			err = c.show(results, names, func(s *sheet) {
				for _, r := range results {
					if r.Passed() {
						s.linef("ok      %s", r.Case)
						continue
					}
					s.linef("FAILED  %s", r.Case)
					for _, diff := range r.Diffs {
						s.linef("        %s", diff)
					}
				}
				s.linef("%d tests, %d failed", len(results), failed)
			})
			if err != nil || failed == 0 {
				return err
			}
			return &failure{Exit: exitFindings, Reason: registry.ReasonPolicyTests, silent: true, Message: strconv.Itoa(failed) + " tests failed"}
		},
	}
	command.Flags().StringArrayVar(&tests, "tests", nil, "`FILE` of more tests; may be repeated")
	return command
}

type policyVersion = *registryv1.Policy

func policyName(p policyVersion) string { return p.GetName() + "@" + strconv.Itoa(int(p.GetVersion())) }

var policies = view[policyVersion]{plural: "policies", name: policyName, columns: []column[policyVersion]{
	{title: "POLICY", text: policyName},
	{title: "NEWEST", text: func(p policyVersion) string { return yesNo(p.GetNewest()) }},
	{title: "SERVERS", text: func(p policyVersion) string { return strconv.Itoa(int(p.GetServers())) }},
	{title: "PUBLISHED", text: func(p policyVersion) string {
		if p.GetBuiltIn() {
			return "built in"
		}
		return when(p.GetPublishTime())
	}},
	{title: "DESCRIPTION", text: func(p policyVersion) string { return cut(p.GetDescription(), 60) }},
	{title: "PUBLISHED BY", wide: true, text: policyVersion.GetPublishedBy},
	{title: "DIGEST", wide: true, text: policyVersion.GetDigest},
}}

func listPoliciesCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "list [NAME]", Short: "List versions of policies, the newest of each first", Args: cobra.MaximumNArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			request := &registryv1.ListPoliciesRequest{}
			if len(args) > 0 {
				request.Name = args[0]
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[policyVersion], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.policies.ListPolicies(ctx, request)
				return page[policyVersion]{r.GetPolicies(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, policies, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}

func showPolicyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION]", Aliases: []string{"get"}, Short: "Print a policy as it was published, by default the newest version", Args: cobra.ExactArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.policies.GetPolicy(ctx, &registryv1.GetPolicyRequest{Name: args[0]})
			if err != nil {
				return err
			}
			p := r.GetPolicy()
			switch c.output {
			case formatTable, formatWide:
				text, err := asYAML(p.GetDocument())
				if err != nil {
					return err
				}
				return c.emit(text)
			}
			return showRow(c, policies, p)
		}),
	}
}

// asYAML gives a document to be read and edited: a bundle is kept as JSON, and
// the built-in one as its author wrote it.
func asYAML(document string) ([]byte, error) {
	if len(document) > 0 && document[0] == '{' {
		return toYAML([]byte(document))
	}
	return []byte(document), nil
}

type unfit = *registryv1.Unfit

var unfitColumns = []column[unfit]{
	{title: "SERVER", text: unfit.GetServerName},
	{title: "KIND", text: unfit.GetKind},
	{title: "NAME", text: unfit.GetName},
	{title: "CLASS", text: func(u unfit) string { return word(u.GetDeclaredClass()) }},
	{title: "BECAUSE", text: unfit.GetDetail},
	{title: "TOOL ID", wide: true, text: unfit.GetToolId},
	{title: "DECISION", wide: true, text: unfit.GetDecisionId},
}

func (c *cli) showUnbound(message any, list []unfit, none string) error {
	document, err := encode(message)
	if err != nil {
		return err
	}
	names := make([]string, len(list))
	for i, u := range list {
		names[i] = u.GetServerName() + ": " + u.GetName()
	}
	return c.show(document, names, func(s *sheet) {
		if len(list) == 0 {
			s.linef("%s", none)
			return
		}
		writeTable(s, unfitColumns, list)
	})
}

func policyImpactCommand(c *cli) *cobra.Command {
	var server string
	command := &cobra.Command{
		Use: "impact FILE | impact --of SERVER NAME[@VERSION]", Short: "Say what a policy would unbind, before it does", Args: cobra.ExactArgs(1),
		Long: `Says what of all servers would be unbound if a bundle were published, or what of
one server if it were put under another policy. Approvals that were given are put
to the policy again, line by line. Nothing is written.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &registryv1.PreviewPolicyRequest{ServerId: server, Policy: args[0]}
			if server == "" {
				document, err := c.readDocument(args[0])
				if err != nil {
					return err
				}
				request.Policy, request.Document = "", string(document)
			}
			ctx, cancel := c.within(cmd.Context(), waitTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.policies.PreviewPolicy(ctx, request)
			if err != nil {
				return err
			}
			return c.showUnbound(r, r.GetUnbound(), fmt.Sprintf("Nothing of %d servers would be unbound.", r.GetServers()))
		},
	}
	command.Flags().StringVar(&server, "of", "", "`SERVER` that would be put under the policy of that name")
	return command
}

func publishPolicyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "publish FILE", Short: "Publish a version of a policy, which never changes again", Args: cobra.ExactArgs(1),
		Long: `Publishes a version of a policy, which never changes again. The tests that it
carries must pass. It says what would be unbound by it, and asks; needs the role
of a platform administrator.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.loadPolicy(args[0])
			if err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), waitTimeout)
			defer cancel()
			document := string(p.Bundle().Canonical())
			preview, err := api.policies.PreviewPolicy(ctx, &registryv1.PreviewPolicyRequest{Document: document})
			if err != nil {
				return err
			}
			if n := len(preview.GetUnbound()); n > 0 {
				s := &sheet{}
				writeTable(s, unfitColumns, preview.GetUnbound())
				if _, err := c.stderr.Write(s.bytes()); err != nil {
					return err
				}
				if err := c.confirm(cmd.Context(), fmt.Sprintf("Publish %s, which unbinds %d of what is bound?", p.Ref(), n)); err != nil {
					return err
				}
			}
			ctx, cancel = c.within(cmd.Context(), waitTimeout)
			defer cancel()
			r, err := api.policies.PublishPolicy(ctx, &registryv1.PublishPolicyRequest{Document: document, AllowUnbinding: len(preview.GetUnbound()) > 0})
			if err != nil {
				return err
			}
			if err := showRow(c, policies, r.GetPolicy()); err != nil {
				return err
			}
			if n := len(r.GetUnbound()); n > 0 {
				c.notef("%d are unbound by it and wait for approvals", n)
			}
			c.nextf("countersign server update NAME --policy %s", r.GetPolicy().GetName())
			return nil
		},
	}
}
