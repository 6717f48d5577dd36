package api

import (
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/sync/errgroup"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// Bounds of a change of many tools.
const (
	maxSwitched   = 20_000  // tools that one call chooses
	maxServers    = 8       // that are changed at once
	maxNamesBytes = 700_000 // of tools in one change of a server: its workflow takes 1.5 MB, and hostile names are long
)

// serverTools are the tools of one server that a call chose.
type serverTools struct {
	id, name  string
	ids       []string // of those to be switched
	names     []string // of the same, at the server
	unchanged int
}

// SetToolsEnabled implements ToolCatalogService. Each server changes by itself,
// so that one that fails keeps no other from its change; what became of each is
// the answer.
func (t tools) SetToolsEnabled(ctx context.Context, req *pb.SetToolsEnabledRequest) (*pb.SetToolsEnabledResponse, error) {
	d, err := t.desk(ctx)
	if err != nil {
		return nil, err
	}
	chosen, unknown, err := d.choose(ctx, req)
	if err != nil {
		return nil, err
	}
	out := &pb.SetToolsEnabledResponse{DryRun: req.GetDryRun(), UnknownToolIds: unknown}
	results := make([]*pb.ServerToolsEnabled, len(chosen))
	var group errgroup.Group
	group.SetLimit(maxServers)
	for i, s := range chosen {
		results[i] = &pb.ServerToolsEnabled{ServerId: s.id, ServerName: s.name, ToolIds: strs(s.ids), UnchangedTools: count(s.unchanged)}
		if !req.GetDryRun() && len(s.ids) > 0 {
			group.Go(func() error {
				t.switchTools(ctx, d, s, req.GetEnabled(), results[i])
				return nil
			})
		}
	}
	_ = group.Wait() // what failed is in the results
	for _, r := range results {
		out.UnchangedTools += r.GetUnchangedTools()
		if n := count(len(r.GetToolIds())); r.GetReason() != "" {
			out.FailedTools += n
		} else {
			out.ChangedTools += n
		}
	}
	out.Servers = results
	return out, nil
}

// choose reads which tools a call is about, by server.
func (d desk) choose(ctx context.Context, req *pb.SetToolsEnabledRequest) (chosen []*serverTools, unknown []string, err error) {
	if req.GetFilter() == "" && req.GetSearch() == "" && len(req.GetToolIds()) == 0 {
		return nil, nil, registry.Errorf(registry.ReasonInvalidArgument, "the request chooses no tools").
			WithField("filter", "or search or tool_ids is required").WithNext("tool_id:* chooses all tools")
	}
	query, err := toolQuery(req)
	if err != nil {
		return nil, nil, err
	}
	if len(req.GetToolIds()) > 0 {
		query.IDs = req.GetToolIds()
	}
	refs, more, err := d.store.ToolRefs(ctx, query, maxSwitched)
	if err != nil {
		return nil, nil, err
	}
	if more {
		return nil, nil, registry.Errorf(registry.ReasonInvalidArgument, "the request chooses more than %d tools", maxSwitched).
			WithField("filter", "chooses too many tools").WithNext("choose them server by server")
	}
	found := make(map[string]bool, len(refs))
	for _, ref := range refs {
		found[ref.ToolID] = true
		if n := len(chosen); n == 0 || chosen[n-1].id != ref.ServerID {
			chosen = append(chosen, &serverTools{id: ref.ServerID, name: ref.ServerName})
		}
		chosen[len(chosen)-1].add(ref, req.GetEnabled())
	}
	if req.GetFilter() == "" && req.GetSearch() == "" {
		unknown = slices.DeleteFunc(slices.Clone(req.GetToolIds()), func(id string) bool { return found[id] })
	}
	return chosen, unknown, nil
}

func (s *serverTools) add(ref db.ToolRef, enabled bool) {
	if ref.Enabled == enabled {
		s.unchanged++
		return
	}
	s.ids, s.names = append(s.ids, ref.ToolID), append(s.names, ref.ExternalID)
}

// switchTools brings the change to one server: in one update, or in several
// when the names are too long for one. On a failure the result names what was
// not switched.
func (t tools) switchTools(ctx context.Context, d desk, s *serverTools, enabled bool, result *pb.ServerToolsEnabled) {
	name := "enable_tools"
	if !enabled {
		name = "disable_tools"
	}
	done := 0
	for done < len(s.names) {
		n := fitting(s.names[done:])
		changing, cancel := context.WithTimeout(ctx, changeTimeout)
		_, err := t.opts.Workflows.SetEnabled(changing, s.name, workflows.SetEnabledInput{
			Tenant: d.principal.Tenant, ServerID: s.id, Operation: d.operation(name, "", ""), Tools: s.names[done : done+n], Enabled: enabled,
		})
		cancel()
		if err != nil {
			e := presentable(ctx, err, callOf(ctx).id)
			result.ToolIds, result.Reason, result.Message = strs(s.ids[done:]), string(e.Reason), e.Message
			return
		}
		done += n
	}
}

// fitting is how many of the names one change takes, at least one.
func fitting(names []string) int {
	size := 0
	for i, name := range names {
		quoted, err := json.Marshal(name)
		if size += len(quoted) + 1; i > 0 && (err != nil || size > maxNamesBytes) {
			return i
		}
	}
	return len(names)
}
