package api

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Sizes of pages of items.
const (
	maxItemPage   = 1000
	itemPageBytes = 4 << 20 // after which a page ends, with one item at least
)

// kindOrder is the order of the kinds of items in reviews and diffs.
var kindOrder = []registry.ItemKind{registry.KindTool, registry.KindResource, registry.KindTemplate, registry.KindPrompt}

// GetReview implements McpServerService: what there is to sign, whole (R121).
func (s servers) GetReview(ctx context.Context, req *pb.GetReviewRequest) (*pb.GetReviewResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := d.store.Review(ctx, req.GetServerId())
	if err != nil {
		return nil, notFound(err, "server", req.GetServerId())
	}
	r := newReview(&facts, s.hints.of)
	out := r.out()
	items := r.shown(req.GetShowUnchanged())
	// Whatever moves the order of the items moves one of these.
	l := list{
		tenant: d.principal.Tenant, method: "review?unchanged=" + strconv.FormatBool(req.GetShowUnchanged()),
		filter: strings.Join([]string{facts.Server.ServerID, out.GetDiff().GetFromDigest(), out.GetDiff().GetToDigest(), out.GetEtag()}, " "),
	}
	full := req.GetView() == pb.ReviewView_REVIEW_VIEW_FULL
	out.TotalSize = count(len(items))
	out.NextPageToken, err = l.items(req, len(items), func(i int) proto.Message {
		item := r.itemOut(items[i], full)
		switch items[i].Kind {
		case registry.KindTool:
			out.Tools = append(out.Tools, item)
		case registry.KindResource:
			out.Resources = append(out.Resources, item)
		case registry.KindTemplate:
			out.Templates = append(out.Templates, item)
		case registry.KindPrompt:
			out.Prompts = append(out.Prompts, item)
		}
		return item
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// GetDiff implements McpServerService.
func (s servers) GetDiff(ctx context.Context, req *pb.GetDiffRequest) (*pb.GetDiffResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	from, to := req.GetFromDigest(), req.GetToDigest()
	if from == "" {
		if from = v.ApprovedSnapshot; from == "" {
			return nil, registry.Errorf(registry.ReasonNothingApproved, "nothing of server %s was approved yet", v.Name).
				WithNext("name from_digest, or read the review, which has all of it")
		}
	}
	if to == "" {
		if to = v.SnapshotDigest; to == "" {
			return nil, registry.Errorf(registry.ReasonNothingDiscovered, "nothing is known yet of what server %s offers there", v.Name).
				WithNext("start a discovery and look at what it finds")
		}
	}
	a, b, err := d.store.Snapshots(ctx, from, to)
	if err != nil {
		return nil, err
	}
	diff := registry.Compare(a, b)
	items := slices.Concat(diff.Tools.Items, diff.Resources.Items, diff.Templates.Items, diff.Prompts.Items)
	out := &pb.GetDiffResponse{
		Diff: snapshotDiffOut(&diff), TotalSize: count(len(items)),
		FromReported: &pb.ReportedIdentity{Name: text(a.ServerName), Version: text(a.ServerVersion)},
		ToReported:   &pb.ReportedIdentity{Name: text(b.ServerName), Version: text(b.ServerVersion)},
	}
	renamed := renamesOf(&diff)
	l := list{tenant: d.principal.Tenant, method: "diff", filter: from + " " + to}
	out.NextPageToken, err = l.items(req, len(items), func(i int) proto.Message {
		item := itemDiffOut(items[i], renamed[items[i].Kind])
		out.Items = append(out.Items, item)
		return item
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// pages is what requests for pages have.
type pages interface {
	GetPageSize() int32
	GetPageToken() string
}

// items makes the page of items that a request asks for: add adds one by its
// place and says what it added. The token is that of the next page.
func (l list) items(req pages, total int, add func(i int) proto.Message) (string, error) {
	after, err := l.after(req.GetPageToken())
	if err != nil {
		return "", err
	}
	first, err := strconv.Atoi(after)
	if after != "" && err != nil {
		return "", err
	}
	size := int(req.GetPageSize())
	if size <= 0 {
		size = defaultPage
	}
	bytes := 0
	for i := first; i < total; i++ {
		if i-first >= min(size, maxItemPage) || bytes >= itemPageBytes {
			return l.token(strconv.Itoa(i)), nil
		}
		bytes += proto.Size(add(i))
	}
	return "", nil
}

// ListSnapshots implements McpServerService.
func (s servers) ListSnapshots(ctx context.Context, req *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "snapshots", filter: v.ServerID}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	v, views, next, total, err := d.store.Versions(ctx, v.ServerID, page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListSnapshotsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Versions = append(out.Versions, versionOut(&v.Server, &views[i]))
	}
	return out, nil
}

// maxLinedPage bounds a page of decisions with their lines: each may have ten
// thousand.
const maxLinedPage = 10

// ListDecisions implements McpServerService: for ever (R122).
func (s servers) ListDecisions(ctx context.Context, req *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "decisions", filter: v.ServerID}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if req.GetShowLines() {
		page.Size = min(page.Size, maxLinedPage)
	}
	_, views, next, total, err := d.store.DecisionPage(ctx, v.ServerID, req.GetShowLines(), page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListDecisionsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Decisions = append(out.Decisions, decisionOut(&views[i]))
	}
	return out, nil
}

// review is what there is to sign about a server.
type review struct {
	*db.Review

	kind     registry.ReviewKind
	approved *registry.Snapshot // an empty one when there is none
	tools    map[string]*db.CatalogTool
	diff     registry.Diff
	items    map[registry.ItemKind][]registry.Inspected
}

func newReview(facts *db.Review, hints func(registry.Item) []registry.Hint) *review {
	r := &review{
		Review: facts, kind: facts.Server.ReviewKind(), approved: facts.Approved, tools: make(map[string]*db.CatalogTool, len(facts.Tools)),
	}
	if r.approved == nil {
		r.approved = &registry.Snapshot{}
	}
	for i := range facts.Tools {
		r.tools[facts.Tools[i].ExternalID] = &facts.Tools[i]
	}
	r.diff, r.items = registry.Inspect(r.approved, facts.Snapshot, hints, r.terms())
	return r
}

// terms says on which terms items were approved before.
func (r *review) terms() func(registry.Item) *registry.Terms {
	approvals := make(map[string]db.Approval, len(r.Approvals))
	for _, a := range r.Approvals {
		approvals[a.DecisionID] = a
	}
	resources := make(map[string]*registry.ResourceBinding, len(r.Resources))
	for i := range r.Resources {
		resources[r.Resources[i].ResourceURI] = &r.Resources[i]
	}
	prompts := make(map[string]*registry.PromptBinding, len(r.Prompts))
	for i := range r.Prompts {
		prompts[r.Prompts[i].PromptName] = &r.Prompts[i]
	}
	target := r.Server.TargetDigest
	return func(item registry.Item) *registry.Terms {
		t := &registry.Terms{}
		decision := ""
		switch item.Kind {
		case registry.KindTool:
			tool := r.tools[item.Name]
			if tool == nil || tool.Binding == nil {
				return nil
			}
			b := tool.Binding
			t.Tool, t.Unbound, t.Same, decision = b, b.UnboundBy, b.Holds(item.Digests, target), b.DecisionID
			t.Bound = b.Bound && t.Same
		case registry.KindResource, registry.KindTemplate:
			b := resources[item.Name]
			if b == nil {
				return nil
			}
			t.Resource, t.Bound, t.Unbound, decision = b, b.Bound, b.UnboundBy, b.DecisionID
			t.Same = b.Contract == item.Digests.Contract && b.Text == item.Digests.Text
		case registry.KindPrompt:
			b := prompts[item.Name]
			if b == nil {
				return nil
			}
			t.Prompt, t.Bound, t.Unbound, decision = b, b.Bound, b.UnboundBy, b.DecisionID
			t.Same = b.Contract == item.Digests.Contract && b.Text == item.Digests.Text
		}
		t.By, t.At = approvals[decision].By, approvals[decision].At
		return t
	}
}

// gaps says what of all that the server offers nobody can check.
func (r *review) gaps() []registry.Gap {
	var items []registry.Item
	for _, kind := range kindOrder {
		for _, inspected := range r.items[kind] {
			if inspected.Now == nil {
				continue
			}
			item := *inspected.Now
			said := &registry.Stated{Annotations: item.Annotations()} // its hints are known already
			for _, hint := range inspected.Hints {
				said.Hints = append(said.Hints, string(hint.Code))
			}
			item.Stated = said
			items = append(items, item)
		}
	}
	return r.Server.GapsOf(items)
}

// shown lists the items of all kinds, in order: those that need a look, or all.
func (r *review) shown(all bool) []*registry.Inspected {
	var out []*registry.Inspected
	for _, kind := range kindOrder {
		for i := range r.items[kind] {
			if item := &r.items[kind][i]; all || item.NeedsLook() {
				out = append(out, item)
			}
		}
	}
	return out
}

// equal is the last approval of exactly what the server is at, unless it is the
// one that counts: the server went back to what somebody approved (C6).
func (r *review) equal() *db.Approval {
	var out *db.Approval
	for i, a := range r.Approvals {
		if a.Snapshot == r.Server.SnapshotDigest && (a.Snapshot != r.Server.ApprovedSnapshot || a.Target != r.Server.ApprovedTarget) {
			out = &r.Approvals[i]
		}
	}
	return out
}

// last is the approval that counts.
func (r *review) last() *db.Approval {
	if len(r.Approvals) == 0 {
		return nil
	}
	return &r.Approvals[len(r.Approvals)-1]
}

// hintMemo remembers the hints of items by their definitions: to look for them
// costs more than all else of a review. The zero value is ready.
type hintMemo struct {
	mu         sync.Mutex
	young, old map[string][]registry.Hint
}

// maxHinted bounds how many items are remembered; most have no hint and take
// some 150 bytes.
const maxHinted = 50_000

func (m *hintMemo) of(item registry.Item) []registry.Hint {
	key := string(item.Kind) + " " + string(item.Verdict) + " " + item.Definition()
	m.mu.Lock()
	hints, known := m.young[key]
	if !known {
		if hints, known = m.old[key]; known {
			m.young[key] = hints
		}
	}
	m.mu.Unlock()
	if known {
		return hints
	}
	hints = registry.Hints(item)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxHinted/2 {
		m.young, m.old = make(map[string][]registry.Hint), m.young
	}
	m.young[key] = hints
	return hints
}
