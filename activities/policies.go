package activities

import (
	"context"
	"log/slog"
	"time"

	"countersign/db"
	"countersign/policy"
	"countersign/registry"
)

// policies keeps compiled bundles by their digests, which never mean others.
var policies = policy.NewCache(1024)

// govern gives a record the policy of its server. One that cannot be had refuses
// everything.
func (a *Activities) govern(ctx context.Context, r *registry.Record) {
	a.governAs(ctx, r, r.Server.GovernancePolicyRef)
}

func (a *Activities) governAs(ctx context.Context, r *registry.Record, ref string) {
	p, err := policies.ByRef(ref, r.Bundle)
	if err != nil {
		a.log(ctx, "the policy cannot be used", &r.Server, slog.String("policy", ref), slog.Any("error", err))
	}
	r.Governance = p.Governance()
}

// governedBy makes a change that puts a server under another policy: what is
// bound is what that one admits.
func (a *Activities) governedBy(ctx context.Context, change db.Change, ref string) db.Change {
	apply := change.Apply
	change.PolicyRef, change.Decisions, change.Stated = ref, true, (*registry.Record).BoundDefinitions
	change.Apply = func(r *registry.Record, now time.Time) error {
		if policy.Builtin(ref) == nil && r.Bundle == nil {
			return unknownPolicy(ref)
		}
		before := r.Server.GovernancePolicyRef
		if err := apply(r, now); err != nil || r.Server.GovernancePolicyRef == before {
			return err
		}
		a.governAs(ctx, r, ref)
		_, err := r.Reevaluate(now)
		return err
	}
	return change
}

// policyExists refuses a reference to a bundle that the tenant does not have.
// Bundles stay for ever, so it needs no lock.
func (a *Activities) policyExists(ctx context.Context, tenant, asked string) error {
	ref, err := registry.ParsePolicyRef(asked)
	if err != nil || policy.Builtin(asked) != nil {
		return err
	}
	if ref.Name == registry.PolicyDefault {
		return unknownPolicy(asked)
	}
	if _, err = a.DB.Tenant(tenant).Policy(ctx, ref); registry.ReasonOf(err) == registry.ReasonPolicyNotFound {
		return unknownPolicy(asked)
	}
	return err
}

func unknownPolicy(ref string) error {
	return registry.Errorf(registry.ReasonUnknownPolicy, "there is no governance policy %s", ref).
		WithField("governance_policy_ref", "no such policy bundle").WithNext("list the policies, or publish it first")
}

// Reevaluate brings what a server has bound to what the policy admits that is in
// force now: it takes away, and never gives.
func (a *Activities) Reevaluate(ctx context.Context, in ReevaluateInput) (ServerOutput, error) {
	return a.apply(ctx, in.Tenant, "held against its policy", db.Change{
		ServerID: in.ServerID,
		Operation: registry.Operation{
			ID: "policy/" + in.Digest, Name: "reevaluate", Actor: registry.System("policy"), Origin: registry.OriginSystem,
		},
		Catalog:   func(s *registry.Server) bool { return s.State != registry.StateRetired },
		Decisions: true, Stated: (*registry.Record).BoundDefinitions,
		Apply: func(r *registry.Record, now time.Time) error {
			a.govern(ctx, r)
			_, err := r.Reevaluate(now)
			return err
		},
	}, slog.String("bundle", in.Digest))
}

// PolicyUsers lists live servers that a published version governs.
func (a *Activities) PolicyUsers(ctx context.Context, in PolicyUsersInput) (PolicyUsersOutput, error) {
	store := a.DB.Tenant(in.Tenant)
	latest, err := store.Policy(ctx, registry.PolicyRef{Name: in.Name})
	if err != nil {
		return PolicyUsersOutput{}, err
	}
	users, err := store.PolicyUsers(ctx, registry.PolicyRef{Name: in.Name, Version: in.Version}, latest.Version == in.Version, in.After, in.Limit)
	out := PolicyUsersOutput{}
	for _, u := range users {
		out.Names = append(out.Names, u.Name)
	}
	if len(users) == in.Limit && in.Limit > 0 {
		out.Next = users[len(users)-1].Name
	}
	return out, err
}
