package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Bounded answers are given from memory.

// mirror is what a process knows of servers and tools.
type mirror = db.Mirror[*knownServer, *knownTool]

// knownServer is what answers about the tools of a server have in common.
// Messages are never changed.
type knownServer struct {
	health *pb.Health
	ref    string // of its policy
	bundle string // digest of the published one; empty: a built-in one, or none
	facts  policy.Server
	to     *pb.Routing
}

// knownTool is a tool, judged. Its strings are shared with nothing, so there
// are few: this is what the memory goes for.
type knownTool struct {
	name     string // its external id
	call     string // its name at the server; mostly the same string
	denial   *registry.Denial
	until    time.Time // from when later holds; zero: always
	later    *registry.Denial
	class    registry.Class
	binding  *knownBinding // nil: never approved
	asksEach bool
}

type knownBinding struct{ schema, descriptor, version, target string }

func newMirror(d *db.DB) *mirror {
	return db.NewMirror(d, knowServer, knowTool)
}

func knowServer(v *db.ToolView) *knownServer {
	return &knownServer{
		health: healthOut(registry.HealthOf(&v.Server, v.LastProbe)), ref: v.Server.GovernancePolicyRef, bundle: v.PolicyDigest,
		facts: policy.ServerOf(&v.Server), to: routingOf(v),
	}
}

func knowTool(v *db.ToolView) *knownTool {
	k := &knownTool{name: v.Tool.ExternalID, call: v.Tool.CallName(), denial: v.Denial, asksEach: v.Tool.RequiresApproval}
	if b := v.Binding; b != nil {
		k.class, k.binding = b.DeclaredClass, &knownBinding{b.SchemaHash, b.ToolID, b.ToolVersion, b.Target}
	}
	k.until, k.later = v.Later()
	return k
}

// early is how much earlier than by the database's clock what ends is over in a
// bounded answer (C8): the clocks of two processes are never the same.
const early = 2 * time.Second

// defaultMaxAge is how old a bounded answer may be when nobody says.
const defaultMaxAge = 5 * time.Second

// bounded says whether the request is to be answered from memory, and how old
// that may be.
func bounded(req askedConsistently) (time.Duration, bool) {
	if req.GetConsistency() != pb.Consistency_CONSISTENCY_BOUNDED {
		return 0, false
	}
	if d := req.GetMaxAge(); d != nil {
		return d.AsDuration(), true
	}
	return defaultMaxAge, true
}

// remembered are answers from memory.
type remembered struct {
	each     []*pb.ResolveToolResponse
	callable bool      // all of them
	until    time.Time // when one of them ends by the clock alone, by ours; zero: not known to
}

// remembered answers as resolve does.
func (r resolver) remembered(ctx context.Context, d desk, ids []string, by named, maxAge time.Duration) (remembered, error) {
	out := remembered{each: make([]*pb.ResolveToolResponse, len(ids)), callable: true}
	now, failed := r.mirror.Now(), error(nil)
	err := r.mirror.Get(ctx, d.principal.Tenant, ids, callerOf(by), maxAge, func(i int, k *db.Known[*knownServer, *knownTool], assigned bool) {
		if k == nil {
			out.each[i], out.callable = denied(ids[i], &registry.Denial{Reason: registry.ReasonToolNotFound}, ""), false
			return
		}
		answer, err := r.remember(ctx, d, ids[i], k.Server(), k.Tool, by, assigned, now)
		if err != nil {
			failed = err
			return
		}
		out.each[i], out.callable = answer, out.callable && answer.GetCallable()
		if ends := k.Tool.until.Add(-early); ends.After(now) && (out.until.IsZero() || ends.Before(out.until)) {
			out.until = ends
		}
	})
	if !out.until.IsZero() {
		out.until = time.Now().Add(out.until.Sub(now))
	}
	return out, errors.Join(err, failed)
}

// remember makes the answer about one tool.
func (r resolver) remember(ctx context.Context, d desk, id string, s *knownServer, k *knownTool, by named, assigned bool, now time.Time) (*pb.ResolveToolResponse, error) {
	p, err := r.policyBy(ctx, d, s.ref, s.bundle)
	if err != nil {
		return nil, err
	}
	denial := k.denial
	if !k.until.IsZero() && !now.Add(early).Before(k.until) {
		denial = k.later
	}
	if denial == nil && by.GetAgent() != "" && !assigned {
		denial = &registry.Denial{Reason: registry.ReasonNotAssigned}
	}
	if denial == nil {
		denial = p.Call(policy.Call{
			Server: &s.facts, ToolID: id, Tool: k.name, Class: k.class, Agent: by.GetAgent(), Workspace: by.GetWorkspace(), Now: now,
		}).Denial()
	}
	out := denied(id, denial, p.Digest())
	out.Health, out.RequiresApproval = s.health, k.asksEach
	if k.binding == nil || withheld(denial) {
		return out, nil
	}
	out.Routing = proto.CloneOf(s.to)
	complete(out.GetRouting(), text(k.call), k.class, k.binding, p.Digest())
	return out, nil
}
