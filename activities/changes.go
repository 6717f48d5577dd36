package activities

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"countersign/db"
	"countersign/registry"
)

// Register records a server (R5, R170). A repeat is told the first answer; the
// server as it is now comes with it, so that the workflow knows whether it is
// its own.
func (a *Activities) Register(ctx context.Context, in RegisterInput) (RegisterOutput, error) {
	store := a.DB.Tenant(in.Registration.TenantID)
	if err := a.policyExists(ctx, in.Registration.TenantID, in.Registration.GovernancePolicyRef); err != nil {
		return RegisterOutput{}, err
	}
	if ref := in.Registration.CommandRef; ref != "" && in.Registration.Transport == registry.TransportStdio {
		command, err := a.command(in.Registration.TenantID, ref)
		if err != nil {
			return RegisterOutput{}, err
		}
		in.Registration.Command = &command
	}
	applied, err := store.Register(ctx, in.Registration, in.Operation, &db.Claim{Operation: "register", Key: in.Key, BodyHash: in.BodyHash})
	if err != nil {
		return RegisterOutput{}, err
	}
	now, err := store.Server(ctx, applied.Server.ServerID)
	if err != nil {
		return RegisterOutput{}, err
	}
	if !applied.Replayed {
		a.log(ctx, "registered", &now.Server, slog.String("url", now.Connection.URL), slog.String("by", in.Operation.Actor.Subject))
	}
	return RegisterOutput{
		Server: applied.Server, Current: now.Server, Live: now.State != registry.StateRetired, Replayed: applied.Replayed,
	}, nil
}

// Decide applies a decision of an authenticated person. What the policy demands
// of an approval, and who approved so far, is in the answer; of one that is taken
// back, what that leaves.
func (a *Activities) Decide(ctx context.Context, in DecideInput) (ServerOutput, error) {
	var descriptors []string
	approves := in.Ruling.Verb == registry.VerbApprove && in.Ruling.Approval != nil
	change := db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Catalog: func(*registry.Server) bool { return in.Ruling.Verb == registry.VerbApprove },
	}
	if approves {
		for _, line := range in.Ruling.Approval.Tools {
			if line.DescriptorID != "" {
				descriptors = append(descriptors, line.DescriptorID)
			}
		}
		change.Descriptors = descriptors
		change.Stated = func(r *registry.Record) []string { return in.Ruling.Approval.Definitions(r.Snapshot) }
	}
	withdraws := in.Ruling.Verb == registry.VerbWithdrawApproval
	if withdraws {
		change.Catalog, change.Decisions = func(*registry.Server) bool { return true }, true
		change.Stated = (*registry.Record).VotedDefinitions
	}
	var evidence *registry.Evidence
	change.Apply = func(r *registry.Record, now time.Time) error {
		a.govern(ctx, r)
		err := r.Decide(in.Ruling, in.Operation, now)
		evidence = r.Evidence()
		return err
	}
	out, err := a.apply(ctx, in.Tenant, "decided: "+in.Operation.Name, change)
	if err != nil || !approves && !withdraws {
		return out, err
	}
	if evidence == nil { // a repeat is told what the first one was
		d, err := a.DB.Tenant(in.Tenant).Decision(ctx, in.ServerID, in.Ruling.Decision(&out.Server, in.Operation, time.Time{}).DecisionID)
		if err != nil {
			return ServerOutput{}, err
		}
		if d != nil {
			evidence = d.Evidence
		}
	}
	out.Evidence = evidence
	return out, nil
}

// DecideBySignal applies a decision that came as a signal: with a decision token
// in the name of whom the token was given to, once. Without one it counts only
// where the installation accepts such; everywhere else it is recorded as refused
// (R186).
func (a *Activities) DecideBySignal(ctx context.Context, in DecideInput) (ServerOutput, error) {
	switch {
	case in.Token != "":
		return a.decideByToken(ctx, in)
	case a.AcceptUnsigned:
		return a.Decide(ctx, in)
	}
	return a.RefuseDecision(ctx, RefuseInput{
		Tenant: in.Tenant, ServerID: in.ServerID, Operation: in.Operation, Ruling: in.Ruling, Reason: registry.ReasonUnsignedSignal,
	})
}

func (a *Activities) decideByToken(ctx context.Context, in DecideInput) (ServerOutput, error) {
	token, err := a.DB.Tenant(in.Tenant).ClaimToken(ctx, in.Token, in.Operation.ID, func(k registry.DecisionToken) error {
		return k.Covers(in.ServerID, in.Ruling)
	})
	in.Token = ""
	in.Operation.Origin = registry.OriginSignal
	if token.Subject != "" {
		in.Operation.Actor = registry.Actor{Subject: token.Subject, Roles: token.Roles}
	}
	refusal, refused := registry.AsError(err)
	switch {
	case refused && !refusal.Code.Retryable():
		return a.RefuseDecision(ctx, RefuseInput{
			Tenant: in.Tenant, ServerID: in.ServerID, Operation: in.Operation, Ruling: in.Ruling, Reason: refusal.Reason,
		})
	case err != nil:
		return ServerOutput{}, err
	}
	in.Operation.ID = token.TokenID
	return a.Decide(ctx, in)
}

// RefuseDecision records a decision that does not count.
func (a *Activities) RefuseDecision(ctx context.Context, in RefuseInput) (ServerOutput, error) {
	store := a.DB.Tenant(in.Tenant)
	view, err := store.Server(ctx, in.ServerID)
	if err != nil {
		return ServerOutput{}, err
	}
	decision := in.Ruling.Decision(&view.Server, in.Operation, time.Time{})
	decision.Reason = in.Reason
	if err := store.RefuseDecision(ctx, in.ServerID, *decision, in.Operation); err != nil {
		return ServerOutput{}, err
	}
	a.log(ctx, "refused: "+string(in.Ruling.Verb), &view.Server, slog.String("reason", string(in.Reason)), slog.String("by", in.Operation.Actor.Subject))
	return ServerOutput{Server: view.Server}, nil
}

// Edit applies an edit; another target unbinds (C10).
func (a *Activities) Edit(ctx context.Context, in EditInput) (ServerOutput, error) {
	in.Operation.Name = "edit"
	if in.Edit.CommandRef != nil {
		command, err := a.command(in.Tenant, *in.Edit.CommandRef)
		if err != nil {
			return ServerOutput{}, err
		}
		in.Edit.Command = &command
	}
	change := db.Change{
		ServerID: in.ServerID, Operation: in.Operation, Connection: named(in.Edit),
		Catalog: func(*registry.Server) bool { return in.Edit.Retargets() || in.Edit.GovernancePolicyRef != nil },
		Apply:   func(r *registry.Record, now time.Time) error { return r.Edit(in.Edit, in.Operation, now) },
	}
	if in.Edit.GovernancePolicyRef != nil {
		change = a.governedBy(ctx, change, *in.Edit.GovernancePolicyRef)
	}
	return a.apply(ctx, in.Tenant, "edited", change)
}

func named(e registry.Edit) string {
	if e.ConnectionName == nil {
		return ""
	}
	return *e.ConnectionName
}

// SetEnabled sets an administrator's switch (R62).
func (a *Activities) SetEnabled(ctx context.Context, in SetEnabledInput) (ServerOutput, error) {
	in.Operation.Name = "set_enabled"
	if len(in.Tools) == 0 {
		in.Tools = []string{in.Tool}
	}
	return a.apply(ctx, in.Tenant, "switched "+toolsOf(in.Tools)+" "+onOff(in.Enabled), db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Catalog: func(*registry.Server) bool { return true },
		Apply:   func(r *registry.Record, _ time.Time) error { return r.SetAllEnabled(in.Tools, in.Enabled) },
	})
}

// RequireApproval says whether each call of tools needs a person's approval
// first (R66).
func (a *Activities) RequireApproval(ctx context.Context, in RequireApprovalInput) (ServerOutput, error) {
	in.Operation.Name = "set_requires_approval"
	return a.apply(ctx, in.Tenant, "approval of each call of "+toolsOf(in.Tools)+" "+onOff(in.Required), db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Catalog: func(*registry.Server) bool { return true },
		Apply:   func(r *registry.Record, _ time.Time) error { return r.RequireApproval(in.Tools, in.Required) },
	})
}

func toolsOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strconv.Itoa(len(names)) + " tools"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Retire ends a server; a repeat changes nothing (R171).
func (a *Activities) Retire(ctx context.Context, in RetireInput) (ServerOutput, error) {
	in.Operation.Name = "retire"
	return a.apply(ctx, in.Tenant, "retired", db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Apply: func(r *registry.Record, now time.Time) error {
			if r.Server.State == registry.StateRetired {
				return nil
			}
			if err := registry.CheckEtag(in.Etag, r.Server.Version); err != nil {
				return err
			}
			return r.Retire(in.Operation, in.Comment, now)
		},
	})
}

// Expire does what a timer of the server's workflow asks for. The timer has
// decided; the database's clock is not asked.
func (a *Activities) Expire(ctx context.Context, in ExpireInput) (ServerOutput, error) {
	id := "expire/review/" + in.Digest
	switch {
	case !in.Term.IsZero():
		id = "expire/term/" + in.Term.UTC().Format(time.RFC3339Nano)
	case !in.Exception.IsZero():
		id = "expire/exception/" + in.Exception.UTC().Format(time.RFC3339Nano)
	}
	view, err := a.DB.Tenant(in.Tenant).Server(ctx, in.ServerID)
	if err != nil {
		return ServerOutput{}, err
	}
	if in.Digest != "" {
		// The same digest can be asked for again, so each request has its own.
		id += "/" + strconv.FormatInt(view.Review.OpenedAt.UnixMicro(), 10)
	}
	return a.apply(ctx, in.Tenant, "expired", db.Change{
		ServerID:  in.ServerID,
		Operation: registry.Operation{ID: id, Name: "expire", Actor: registry.System("expiry"), Origin: registry.OriginSystem},
		Catalog:   func(*registry.Server) bool { return !in.Term.IsZero() },
		Apply: func(r *registry.Record, now time.Time) error {
			a.govern(ctx, r)
			switch {
			case !in.Term.IsZero():
				return r.PassTerms(in.Term, now)
			case in.Digest != "":
				return r.ExpireReview(in.Digest, now)
			}
			return r.ExpireException(in.Exception, now)
		},
	})
}

// BeginDiscovery gives a discovery its number, or the number of the one that
// runs (R54), and ties it to the idempotency key (R170).
func (a *Activities) BeginDiscovery(ctx context.Context, in BeginDiscoveryInput) (BeginDiscoveryOutput, error) {
	change := db.Change{
		ServerID: in.ServerID, Operation: in.Operation,
		Apply: func(r *registry.Record, _ time.Time) error { return r.BeginDiscovery(in.Running, in.Operation.Actor) },
	}
	if in.Key != "" {
		change.Claim = &db.Claim{
			Operation: "discover", Key: in.Key, BodyHash: in.BodyHash,
			Answer: func(s *registry.Server) string { return strconv.FormatInt(s.Discovery.Number, 10) },
		}
	}
	applied, err := a.DB.Tenant(in.Tenant).Apply(ctx, change)
	if err != nil {
		return BeginDiscoveryOutput{}, err
	}
	out := BeginDiscoveryOutput{Server: applied.Server, Number: applied.Server.Discovery.Number, Replayed: applied.Replayed}
	if applied.Answer != "" {
		if out.Number, err = strconv.ParseInt(applied.Answer, 10, 64); err != nil {
			return out, fmt.Errorf("answer of key %q: %w", in.Key, err)
		}
	}
	return out, nil
}

// ApplyProbe brings a changed outcome to its server (R142, R145).
func (a *Activities) ApplyProbe(ctx context.Context, in ApplyProbeInput) (ServerOutput, error) {
	p := in.Probe
	if p.Outcome == registry.OutcomeOK {
		var err error
		if p.Differing, err = a.DB.Tenant(p.TenantID).Differing(ctx, p.ServerID, p.Window); err != nil {
			return ServerOutput{}, err
		}
	}
	return a.apply(ctx, p.TenantID, "probed", db.Change{
		ServerID: p.ServerID,
		Operation: registry.Operation{
			ID: "probe/" + p.Window.UTC().Format(time.RFC3339Nano), Name: "probe", Actor: registry.System("probe"), Origin: registry.OriginSystem,
		},
		Catalog: func(*registry.Server) bool { return len(p.Differing) > 0 },
		Apply:   func(r *registry.Record, _ time.Time) error { return r.Probed(p) },
	}, slog.String("outcome", string(p.Outcome)), slog.String("reason", string(p.Reason)))
}

func (a *Activities) apply(ctx context.Context, tenant, what string, change db.Change, attrs ...slog.Attr) (ServerOutput, error) {
	applied, err := a.DB.Tenant(tenant).Apply(ctx, change)
	if err != nil {
		return ServerOutput{}, err
	}
	if !applied.Replayed {
		a.log(ctx, what, &applied.Server, append(attrs, slog.String("by", change.Operation.Actor.Subject))...)
	}
	return ServerOutput{Server: applied.Server}, nil
}
