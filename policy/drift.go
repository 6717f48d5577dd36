package policy

import (
	"time"

	"countersign/registry"
)

// Drift is what is put to the policy about one bound tool that is not as it was approved.
type Drift struct {
	Server Server
	Item   Item // with Class, as which it is bound, and Drift
	Now    time.Time
}

// Drift says whether a drifted tool may stay bound until somebody has looked at it. A policy that fails, or that says
// nothing, unbinds. No policy can keep what C5 does not let it keep.
func (p *Policy) Drift(in Drift) registry.DriftVerdict {
	v := registry.DriftVerdict{Bundle: p.Digest(), Policy: p.Ref()}
	if p == nil {
		v.Reason, v.Message = registry.ReasonPolicyError, "there is no policy, so nothing stays bound"
		return v
	}
	if !in.Item.Drift.Relaxable() {
		return v
	}
	budget := uint64(reviewBudget)
	f := &facts{server: &in.Server, item: &in.Item, now: in.Now, zone: p.zone}
	for i, rule := range p.drift {
		keep, err := rule.holds(f, &budget)
		if err != nil {
			name := p.bundle.Drift[i].Name
			return registry.DriftVerdict{
				Bundle: v.Bundle, Policy: v.Policy, Rule: name, Reason: registry.ReasonPolicyError,
				Message: "rule " + name + " failed, so the tool does not stay bound: " + err.Error(),
			}
		}
		if keep && !v.Keep {
			v.Keep, v.Rule = true, p.bundle.Drift[i].Name
		}
	}
	return v
}
