package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"countersign/db"
	"countersign/registry"
)

// filler brings servers into a database as the workflows would have, without
// them: registered, discovered, approved.
type filler struct {
	store *db.Store
	n     int
}

func (f *filler) operation(name string) registry.Operation {
	f.n++
	return registry.Operation{
		ID: fmt.Sprintf("%s-%s-%d", f.store.Tenant(), name, f.n), Name: name, Origin: registry.OriginAPI,
		Actor: registry.Actor{Subject: "bench", Roles: []registry.Role{registry.RolePlatformAdmin}},
	}
}

// offer is a list of tools with nothing else.
func offer(tools int) registry.Surface {
	s := registry.Surface{ProtocolVersion: "2026-07-28", Name: "bench", Version: "1", Kinds: []string{"tools"}}
	for i := range tools {
		s.Tools = append(s.Tools, fmt.Appendf(nil,
			`{"name":"tool_%05d","description":"Looks up what the caller wants to know, number %d.","inputSchema":{"type":"object","properties":{"query":{"type":"string"}}}}`, i, i))
	}
	return s
}

// active makes an approved server that offers what the surface says.
func (f *filler) active(ctx context.Context, name, url string, surface registry.Surface) (registry.Server, error) {
	server, snap, err := f.verified(ctx, name, url, surface)
	if err != nil {
		return registry.Server{}, err
	}
	approval := registry.Approval{Digest: server.Review.Digest}
	for i := range snap.Items {
		approval.Tools = append(approval.Tools, registry.ToolLine{Tool: snap.Items[i].Name, Class: registry.ClassRead, Enable: true})
	}
	a, err := f.change(ctx, server.ServerID, "approve", func(r *registry.Record, now time.Time, op registry.Operation) error {
		return r.Decide(registry.Ruling{Verb: registry.VerbApprove, Approval: &approval}, op, now)
	})
	return a.Server, err
}

// verified makes one that waits for its approval.
func (f *filler) verified(ctx context.Context, name, url string, surface registry.Surface) (registry.Server, *registry.Snapshot, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return registry.Server{}, nil, err
	}
	snap, err := registry.NewSnapshot(surface, registry.DefaultLimits(), time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return registry.Server{}, nil, err
	}
	a, err := f.store.Register(ctx, registry.Registration{
		TenantID: f.store.Tenant(), ServerID: registry.ServerID(id.String()), Name: name, Direction: registry.DirectionConsumed,
		Transport: registry.TransportStreamableHTTP, URL: url, Authentication: registry.AuthWorkloadIdentity,
		GovernancePolicyRef: registry.PolicyDefault, ProtocolVersion: "2026-07-28", Description: "of a measurement",
	}, f.operation("register"), nil)
	if err != nil {
		return registry.Server{}, nil, err
	}
	if err := f.store.SaveSnapshot(ctx, &snap); err != nil {
		return registry.Server{}, nil, err
	}
	look := registry.Look{Number: 1, TargetDigest: a.Server.TargetDigest, RequestedBy: "bench"}
	a, err = f.change(ctx, a.Server.ServerID, "discovered", func(r *registry.Record, now time.Time, _ registry.Operation) error {
		look.At = now
		return r.Discovered(&snap, look)
	})
	return a.Server, &snap, err
}

func (f *filler) change(ctx context.Context, serverID, name string, apply func(*registry.Record, time.Time, registry.Operation) error) (db.Applied, error) {
	op := f.operation(name)
	return f.store.Apply(ctx, db.Change{
		ServerID: serverID, Operation: op, Catalog: func(*registry.Server) bool { return true },
		Apply: func(r *registry.Record, now time.Time) error {
			r.Governance = registry.Governance{Approve: func(r *registry.Record, a registry.Approval, _ []registry.Vote, now time.Time) registry.ApprovalVerdict {
				return registry.ApprovalVerdict{
					Needed: 1, Bundle: "sha256:bench", Policy: "bench@1", EvaluatedAt: now,
					Review: a.Digest, Content: a.ContentDigest(), Requester: r.Server.Review.RequestedBy,
				}
			}}
			return apply(r, now, op)
		},
	})
}
