package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// reviewTimeout is how long a command may read a review, of ten thousand tools
// if need be.
const reviewTimeout = 2 * time.Minute

// reviewPage is how many items of a review are read at a time.
const reviewPage = 1000

func reviewCommand(c *cli) *cobra.Command {
	var unchanged bool
	command := &cobra.Command{
		Use: "review NAME", Short: "Show what there is to sign about a server, whole, and how to sign it",
		Long: `Shows exactly what an approval of a server would sign: where it is reached, its
instructions, and every item that is new, changed, or no longer bound, the worst
first and nothing of it cut. In a first review all is new; later it is what
changed since the last approval, with the terms on which each item was approved.

Hints and suggested classes are what the program makes of what the server says
of itself. Nobody checked that; classes are declared by people.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: c.call(reviewTimeout, func(ctx context.Context, api *api, args []string) error {
			s, err := api.getServer(ctx, args[0])
			if err != nil {
				return err
			}
			r, err := readReview(ctx, api, s.GetServerId(), unchanged)
			if err != nil {
				return err
			}
			var names []string
			for _, item := range reviewItems(r) {
				names = append(names, item.GetDiff().GetName())
			}
			return c.show(r, names, func(t *sheet) {
				t.marks = true
				writeReview(t, s, r)
			})
		}),
	}
	command.Flags().BoolVar(&unchanged, "all", false, "items too that are as approved, and those that were left out")
	return command
}

// readReview reads a whole review. When the server changes meanwhile, it begins
// again.
func readReview(ctx context.Context, a *api, serverID string, unchanged bool) (*registryv1.GetReviewResponse, error) {
	for tries := 3; ; tries-- {
		r, err := readReviewOnce(ctx, a, serverID, unchanged)
		e, called := errors.AsType[*connect.Error](err)
		if tries > 0 && called && reasonOf(e) == registry.ReasonInvalidPageToken {
			continue
		}
		return r, err
	}
}

func readReviewOnce(ctx context.Context, a *api, serverID string, unchanged bool) (*registryv1.GetReviewResponse, error) {
	var all *registryv1.GetReviewResponse
	request := &registryv1.GetReviewRequest{
		ServerId: serverID, View: registryv1.ReviewView_REVIEW_VIEW_FULL, ShowUnchanged: unchanged, PageSize: reviewPage,
	}
	for {
		page, err := a.servers.GetReview(ctx, request)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = proto.CloneOf(page)
		} else {
			all.Tools = append(all.GetTools(), page.GetTools()...)
			all.Resources = append(all.GetResources(), page.GetResources()...)
			all.Templates = append(all.GetTemplates(), page.GetTemplates()...)
			all.Prompts = append(all.GetPrompts(), page.GetPrompts()...)
		}
		request.PageToken = page.GetNextPageToken()
		if all.NextPageToken = request.GetPageToken(); request.GetPageToken() == "" {
			return all, nil
		}
	}
}

type reviewItem = *registryv1.ReviewItem

// reviewItems lists the items of a review, tools first.
func reviewItems(r *registryv1.GetReviewResponse) []reviewItem {
	return slices.Concat(r.GetTools(), r.GetResources(), r.GetTemplates(), r.GetPrompts())
}

// offered says whether the server offers the item now.
func offered(item reviewItem) bool { return item.GetDiff().GetStatus() != itemRemoved }

// Short names of what became of items.
const (
	itemAdded     = registryv1.DiffStatus_DIFF_STATUS_ADDED
	itemRemoved   = registryv1.DiffStatus_DIFF_STATUS_REMOVED
	itemChanged   = registryv1.DiffStatus_DIFF_STATUS_CHANGED
	itemUnchanged = registryv1.DiffStatus_DIFF_STATUS_UNCHANGED
)

// The differences of the API in the words of the registry, which the text of
// differences is written from.

func changesIn(changes []*registryv1.Change) []registry.Change {
	var out []registry.Change
	for _, c := range changes {
		change := registry.Change{Path: c.GetPath(), Kind: registry.ChangeKind(c.GetKind()), Severity: registry.Severity(word(c.GetSeverity()))}
		if c.GetBeforeJson() != "" {
			change.Before = json.RawMessage(c.GetBeforeJson())
		}
		if c.GetAfterJson() != "" {
			change.After = json.RawMessage(c.GetAfterJson())
		}
		out = append(out, change)
	}
	return out
}

func itemDiffIn(d *registryv1.ItemDiff) registry.ItemDiff {
	return registry.ItemDiff{
		Kind: registry.ItemKind(word(d.GetKind())), Name: d.GetName(), Status: registry.DiffStatus(word(d.GetStatus())),
		Contract: d.GetContract(), Text: d.GetText(), Behaviour: d.GetBehaviour(), Severity: registry.Severity(word(d.GetSeverity())),
		Changes: changesIn(d.GetChanges()),
	}
}

func countsIn(c *registryv1.DiffCounts) registry.DiffCounts {
	return registry.DiffCounts{
		Added: int(c.GetAdded()), Removed: int(c.GetRemoved()), Renamed: int(c.GetRenamed()), Changed: int(c.GetChanged()),
		Unchanged: int(c.GetUnchanged()), Contract: int(c.GetContract()), Text: int(c.GetText()), Behaviour: int(c.GetBehaviour()),
		Cosmetic: int(c.GetCosmetic()),
	}
}

// diffIn puts a difference together of its summary and its items.
func diffIn(d *registryv1.SnapshotDiff, items []*registryv1.ItemDiff) registry.Diff {
	out := registry.Diff{
		From: d.GetFromDigest(), To: d.GetToDigest(), Severity: registry.Severity(word(d.GetSeverity())), Server: changesIn(d.GetServerChanges()),
	}
	out.Tools.Counts, out.Resources.Counts = countsIn(d.GetTools()), countsIn(d.GetResources())
	out.Templates.Counts, out.Prompts.Counts = countsIn(d.GetTemplates()), countsIn(d.GetPrompts())
	for _, item := range items {
		list := &out.Tools
		switch item.GetKind() {
		case registryv1.ItemKind_ITEM_KIND_RESOURCE:
			list = &out.Resources
		case registryv1.ItemKind_ITEM_KIND_TEMPLATE:
			list = &out.Templates
		case registryv1.ItemKind_ITEM_KIND_PROMPT:
			list = &out.Prompts
		default:
		}
		list.Items = append(list.Items, itemDiffIn(item))
		if to := item.GetRenamedTo(); to != "" {
			list.Renamed = append(list.Renamed, registry.Rename{From: item.GetName(), To: to, Score: item.GetLikeness(), Same: item.GetSameContract()})
		}
	}
	return out
}
