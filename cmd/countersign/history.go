package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

type serverVersion = *registryv1.ServerVersion

var versions = view[serverVersion]{
	plural: "versions",
	name:   serverVersion.GetSnapshotDigest,
	columns: []column[serverVersion]{
		{title: "VERSION", text: func(v serverVersion) string { return strconv.FormatInt(v.GetNumber(), 10) }},
		{title: "FIRST SEEN", text: func(v serverVersion) string { return when(v.GetFirstSeenTime()) }},
		{title: "TOOLS", text: func(v serverVersion) string { return strconv.Itoa(int(v.GetTools())) }},
		{title: "RESOURCES", text: func(v serverVersion) string { return strconv.Itoa(int(v.GetResources() + v.GetTemplates())) }},
		{title: "PROMPTS", text: func(v serverVersion) string { return strconv.Itoa(int(v.GetPrompts())) }},
		{title: "FAULTY", text: func(v serverVersion) string { return strconv.Itoa(int(v.GetQuarantinedItems())) }},
		{title: "IS", text: versionStanding},
		{title: "APPROVED BY", text: func(v serverVersion) string { return v.GetApproval().GetApprovedBy() }},
		{title: "APPROVED AT", text: func(v serverVersion) string { return when(v.GetApproval().GetApproveTime()) }},
		{title: "SNAPSHOT", text: serverVersion.GetSnapshotDigest},
		{title: "TARGET", wide: true, text: serverVersion.GetTargetDigest},
		{title: "REVIEW", wide: true, text: serverVersion.GetReviewDigest},
		{title: "PROTOCOL", wide: true, text: serverVersion.GetProtocolVersion},
		{title: "SAYS IT IS", wide: true, text: func(v serverVersion) string {
			return some(" ", v.GetReported().GetName(), v.GetReported().GetVersion())
		}},
	},
}

// versionStanding says what a version is to its server now.
func versionStanding(v serverVersion) string {
	is := func(yes bool, what string) string {
		if yes {
			return what
		}
		return ""
	}
	return some(", ", is(v.GetCurrent(), "current"), is(v.GetApproved(), "approved"), is(!v.GetKept(), "not kept"))
}

func versionsCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "versions NAME", Short: "List what a server was at, newest first", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			all, err := c.readVersions(ctx, api, args[0], &pages)
			if err != nil {
				return err
			}
			return showList(c, versions, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}

func (c *cli) readVersions(ctx context.Context, a *api, name string, pages *paging) ([]serverVersion, error) {
	return collect(ctx, c, pages, func(ctx context.Context, size int32, token string) (page[serverVersion], error) {
		r, err := a.servers.ListSnapshots(ctx, &registryv1.ListSnapshotsRequest{ServerId: name, PageSize: size, PageToken: token})
		return page[serverVersion]{r.GetVersions(), r.GetNextPageToken(), r.GetTotalSize()}, err
	})
}

type decided = *registryv1.Decision

var decisions = view[decided]{
	plural: "decisions",
	name:   decided.GetDecisionId,
	columns: []column[decided]{
		{title: "TIME", text: func(d decided) string { return when(d.GetDecideTime()) }},
		{title: "DECISION", text: decided.GetVerb},
		{title: "BY", text: decided.GetDecidedBy},
		{title: "COUNTED", text: func(d decided) string {
			switch {
			case !d.GetApplied():
				return "no: " + d.GetReason()
			case d.GetVerb() == string(registry.VerbApprove) && !d.GetSufficed():
				return some(": ", "not enough", d.GetStanding())
			}
			return "yes"
		}},
		{title: "TOOLS", text: func(d decided) string { return strconv.Itoa(int(d.GetTools())) }},
		{title: "OTHERS", text: func(d decided) string { return strconv.Itoa(int(d.GetResources() + d.GetPrompts())) }},
		{title: "COMMENT", text: decided.GetComment},
		{title: "ROLES", wide: true, text: func(d decided) string { return strings.Join(d.GetRoles(), ",") }},
		{title: "ORIGIN", wide: true, text: decided.GetOrigin},
		{title: "DIGEST", wide: true, text: decided.GetDigest},
		{title: "ID", wide: true, text: decided.GetDecisionId},
	},
}

func decisionsCommand(c *cli) *cobra.Command {
	var pages paging
	var lines bool
	command := &cobra.Command{
		Use: "decisions NAME", Short: "List all that was ever decided about a server, newest first", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[decided], error) {
				r, err := api.servers.ListDecisions(ctx, &registryv1.ListDecisionsRequest{ServerId: args[0], ShowLines: lines, PageSize: size, PageToken: token})
				return page[decided]{r.GetDecisions(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, decisions, all)
		}),
	}
	command.Flags().BoolVar(&lines, "lines", false, "with the lines of approvals, in -o json, jsonl and yaml")
	pages.addFlags(command.Flags())
	return command
}

func serverDiffCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME [FROM [TO]]", Short: "Compare two versions of a server, by default the approved one and the last",
		Long: `Compares two versions of a server and says what changed in meaning, as
"countersign diff" does with files. FROM and TO are the number of a version, its
snapshot's digest or the beginning of that; "countersign server versions" lists
them. By default FROM is what is approved, and TO what the server is now.

The exit code is 7 when something is breaking or escalating.`,
		Example: `  countersign server diff search
  countersign server diff search 3 5`,
		Args: cobra.RangeArgs(1, 3), ValidArgsFunction: c.completeServers,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			return c.serverDiff(ctx, api, args[0], args[1:])
		}),
	}
}

func (c *cli) serverDiff(ctx context.Context, a *api, name string, between []string) error {
	digests, err := c.snapshotDigests(ctx, a, name, between)
	if err != nil {
		return err
	}
	request := &registryv1.GetDiffRequest{ServerId: name, PageSize: reviewPage}
	if len(digests) > 0 {
		request.FromDigest = digests[0]
	}
	if len(digests) > 1 {
		request.ToDigest = digests[1]
	}
	var first *registryv1.GetDiffResponse
	var items []*registryv1.ItemDiff
	for {
		page, err := a.servers.GetDiff(ctx, request)
		if err != nil {
			return err
		}
		if first == nil {
			// The server may change between two pages; the address does not.
			first, request.FromDigest, request.ToDigest = page, page.GetDiff().GetFromDigest(), page.GetDiff().GetToDigest()
		}
		items = append(items, page.GetItems()...)
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			break
		}
	}
	d := diffIn(first.GetDiff(), items)
	names := [2]string{labelOf(name, d.From), labelOf(name, d.To)}
	if err := c.show(diffDocument(d), changedNames(d), func(s *sheet) { writeDiff(s, names, d) }); err != nil {
		return err
	}
	c.notef("always the same: countersign server diff %s %s %s", name, d.From, d.To)
	if d.Severity.AtLeast(registry.SeverityBreaking) {
		return &failure{Exit: exitFindings, silent: true, Message: "something is " + string(d.Severity)}
	}
	return nil
}

// labelOf names a snapshot of a server so that it reads well.
func labelOf(name, digest string) string {
	const shown = len("sha256:") + 12
	return name + "@" + digest[:min(len(digest), shown)]
}

// digestLength is that of a whole digest.
const digestLength = len("sha256:") + 64

// snapshotDigests finds the digests of what numbers, digests or beginnings of
// digests name.
func (c *cli) snapshotDigests(ctx context.Context, a *api, name string, wanted []string) ([]string, error) {
	out := make([]string, len(wanted))
	var all []serverVersion
	for i, text := range wanted {
		if len(text) == digestLength && strings.HasPrefix(text, "sha256:") {
			out[i] = text
			continue
		}
		if all == nil {
			var err error
			if all, err = c.readVersions(ctx, a, name, &paging{all: true, limit: 1}); err != nil {
				return nil, err
			}
		}
		var err error
		if out[i], err = findVersion(all, name, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func findVersion(all []serverVersion, name, text string) (string, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	numeric := err == nil
	found := map[string]bool{}
	for _, v := range all {
		if numeric && v.GetNumber() == number {
			return v.GetSnapshotDigest(), nil
		}
		if len(text) >= 4 && (strings.HasPrefix(v.GetSnapshotDigest(), text) || strings.HasPrefix(strings.TrimPrefix(v.GetSnapshotDigest(), "sha256:"), text)) {
			found[v.GetSnapshotDigest()] = true
		}
	}
	if len(found) == 1 {
		for digest := range found {
			return digest, nil
		}
	}
	what := "no version"
	if len(found) > 1 {
		what = fmt.Sprintf("%d versions", len(found))
	}
	return "", failf(registry.ReasonSnapshotNotFound, "server %s has %s %q", name, what, text).withNext("countersign server versions %s", name)
}
