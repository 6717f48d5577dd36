package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func newApprovalsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{Use: "approvals", Aliases: []string{"approval"}, Short: "What waits for approvers, and what became of it"}
	group(command)
	command.AddCommand(listApprovalsCommand(c), showApprovalCommand(c), withdrawCommand(c))
	return command
}

type asked = *registryv1.Approval

var requests = view[asked]{plural: "approvals to give", name: asked.GetServerName, columns: []column[asked]{
	{title: "ENDS", text: func(a asked) string { return when(a.GetReview().GetExpireTime()) }},
	{title: "SERVER", text: asked.GetServerName},
	{title: "KIND", text: func(a asked) string { return word(a.GetKind()) }},
	{title: "WORST", text: func(a asked) string { return word(a.GetCounts().GetSeverity()) }},
	{title: "WHAT", text: func(a asked) string { return countsLine(a.GetCounts()) }},
	{title: "YOU", text: myPart},
	{title: "IT STANDS", text: func(a asked) string { return a.GetDemand().GetStanding() }},
	{title: "SINCE", wide: true, text: func(a asked) string { return when(a.GetReview().GetOpenTime()) }},
	{title: "ASKED BY", wide: true, text: func(a asked) string { return a.GetReview().GetRequestedBy() }},
	{title: "APPROVED BY", wide: true, text: func(a asked) string { return strings.Join(a.GetDemand().GetDecidedBy(), ",") }},
	{title: "OWNER", wide: true, text: asked.GetOwner},
	{title: "POLICY", wide: true, text: func(a asked) string { return a.GetDemand().GetPolicy() }},
	{title: "DIGEST", wide: true, text: func(a asked) string { return a.GetReview().GetDigest() }},
}}

// myPart says what whoever asks can do about a request.
func myPart(a asked) string {
	switch {
	case a.GetDecided():
		return "approved"
	case a.GetCanDecide():
		return "can approve"
	case a.GetBlockedReason() != "":
		return "no: " + a.GetBlockedReason()
	}
	return ""
}

// countsLine says how much there is to sign, the worst first.
func countsLine(c *registryv1.ApprovalCounts) string {
	var out []string
	for _, n := range []struct {
		count int32
		what  string
	}{
		{c.GetEscalating(), "escalating"},
		{c.GetBreaking(), "breaking"},
		{c.GetNarrowing(), "narrowing"},
		{c.GetWidening(), "widening"},
		{c.GetText(), "text"},
		{c.GetCosmetic(), "cosmetic"},
		{c.GetAdded(), "new"},
		{c.GetQuarantined(), "quarantined"},
		{c.GetHinted(), "with hints"},
		{c.GetUnbound(), "unbound"},
	} {
		if n.count > 0 {
			out = append(out, strconv.Itoa(int(n.count))+" "+n.what)
		}
	}
	if c.GetInstructionsChanged() {
		out = append(out, "instructions")
	}
	if c.GetTargetChanged() {
		out = append(out, "target")
	}
	return strings.Join(out, ", ")
}

func listApprovalsCommand(c *cli) *cobra.Command {
	var (
		pages                             paging
		filter, order, within, env, kinds string
		mine                              bool
	)
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls", "inbox"}, Short: "List what waits for an approval, by when it ends", Args: cobra.NoArgs,
		Long: `Lists the reviews that are open: what is to be signed, what the governance policy
still wants, who approved so far, and whether you can. While nobody approved
anything, what the policy wants is a forecast: of everything as the class that it
was approved as before, or else as the class that is suggested.`,
		Example: `  countersign approvals list --mine
  countersign approvals list --environment prod --kind drift --within 24h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := &registryv1.ListApprovalsRequest{OrderBy: order, Decidable: mine}
			terms := []string{}
			if filter != "" {
				terms = append(terms, filter)
			}
			if env != "" {
				terms = append(terms, "labels.environment = "+quoted(env))
			}
			if kinds != "" {
				if _, err := parseWord[registryv1.ReviewKind]("--kind", kinds); err != nil {
					return err
				}
				terms = append(terms, "kind = "+kinds)
			}
			request.Filter = strings.Join(terms, " AND ")
			if within != "" {
				period, err := parsePeriod(within)
				if err != nil || period <= 0 {
					return usagef("--within %q: a time is needed, such as 24h or 3d", within)
				}
				request.Within = durationpb.New(period)
			}
			ctx, cancel := c.within(cmd.Context(), reviewTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[asked], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.approvals.ListApprovals(ctx, request)
				return page[asked]{r.GetApprovals(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, requests, all)
		},
	}
	flags := command.Flags()
	flags.StringVar(&filter, "filter", "", "`EXPRESSION` of server, kind, owner, requested_by, policy and labels.KEY, compared by =, != and : (contains), joined by AND")
	flags.StringVar(&order, "order-by", "", "`FIELD`: expire_time, open_time or server, with \" desc\" behind it for the reverse")
	flags.StringVar(&within, "within", "", "only what ends within this `TIME`, such as 24h or 3d")
	flags.StringVar(&env, "environment", "", "only servers whose label environment is `NAME`")
	flags.StringVar(&kinds, "kind", "", "only `first`, drift or again")
	flags.BoolVar(&mine, "mine", false, "only what you can approve and did not yet")
	completeWords(command, "kind", words[registryv1.ReviewKind]())
	pages.addFlags(flags)
	return command
}

func showApprovalCommand(c *cli) *cobra.Command {
	var digest string
	command := &cobra.Command{
		Use: "show NAME", Short: "Show one request for approval: what it takes, who decided, what became of it",
		Long: `Shows the last request for the approval of a server, or the one of --digest,
whatever became of it, and all that was decided about it. What there is to sign,
item by item, is in "countersign server review".`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(reviewTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.approvals.GetApproval(ctx, &registryv1.GetApprovalRequest{ServerId: args[0], Digest: digest})
			if err != nil {
				return err
			}
			return c.show(r, []string{r.GetApproval().GetServerName()}, func(t *sheet) { writeApproval(t, r) })
		}),
	}
	command.Flags().StringVar(&digest, "digest", "", "`DIGEST` of the review, when it is not the last one")
	return command
}

func writeApproval(t *sheet, r *registryv1.GetApprovalResponse) {
	a := r.GetApproval()
	v, d := a.GetReview(), a.GetDemand()
	t.field("Server", some(", ", a.GetServerName(), word(a.GetState()), orNothing("owner ", a.GetOwner()), labelLine(a.GetLabels())))
	t.field("Kind", word(a.GetKind()))
	t.field("Request", some(", ", word(v.GetStatus()), orNothing("asked by ", v.GetRequestedBy()), orNothing("since ", when(v.GetOpenTime())),
		orNothing("decided by ", v.GetDecidedBy()), orNothing("at ", when(v.GetDecideTime()))))
	if v.GetStatus() == reviewPending && a.GetSupersededBy() == "" {
		t.field("Waits until", when(v.GetExpireTime()))
	}
	t.field("Review digest", v.GetDigest())
	t.field("Snapshot", v.GetSnapshotDigest())
	t.field("Target", v.GetTargetDigest())
	t.field("Approved before", a.GetApprovedSnapshotDigest())
	t.field("Superseded by", a.GetSupersededBy())
	if c := a.GetCounts(); c != nil {
		t.field("What", some(": ", word(c.GetSeverity()), countsLine(c)))
	}
	if d != nil {
		t.gap()
		basis := "by the last approval"
		if d.GetBasis() == registryv1.DemandBasis_DEMAND_BASIS_FORECAST {
			basis = "a forecast, nobody approved yet"
		}
		t.field("Policy", some(", ", d.GetPolicy(), basis))
		t.field("It takes", some(", ", fmt.Sprintf("%d people", d.GetPeople()), roleCounts(d.GetRoles()), orNothing("not ", d.GetNotBy()),
			orNothing("", map[bool]string{true: "each says why"}[d.GetCommentRequired()])))
		t.field("Counted", strings.Join(d.GetDecidedBy(), ", "))
		for _, x := range d.GetIgnored() {
			t.field("Does not count", some(": ", x.GetSubject(), x.GetReason()))
		}
		t.field("It stands", d.GetStanding())
	}
	t.field("Withdrawn by", strings.Join(v.GetWithdrawnBy(), ", "))
	t.field("You", some(": ", myPart(a), a.GetBlockedDetail()))
	if len(r.GetDecisions()) > 0 {
		t.gap()
		writeTable(t, decisions.columns, r.GetDecisions())
	}
	if a.GetCanDecide() {
		t.gap()
		t.linef("Next: countersign server review %s", a.GetServerName())
	}
}

// roleCounts says how many of which roles, in the order of the roles.
func roleCounts(roles map[string]int32) string {
	var out []string
	for _, role := range registry.Roles() {
		if n := roles[string(role)]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, role))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}
