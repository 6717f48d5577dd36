package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"countersign/activities"
	"countersign/registry"
)

// InboundStore is where received events wait.
type InboundStore interface {
	ClaimInbound(ctx context.Context, limit int, lease time.Duration) ([]registry.InboundEvent, error)
	SettleInbound(ctx context.Context, e registry.InboundEvent, again time.Duration) error
}

// Releases is what a tenant knows of releases.
type Releases interface {
	Revoked(ctx context.Context, releaseID string) (bool, error)
	ReleaseServers(ctx context.Context, releaseID string) ([]registry.Server, error)
}

// InboundChanges are the changes that received events lead to; workflows.Client
// makes them.
type InboundChanges interface {
	Register(ctx context.Context, in activities.RegisterInput) (activities.RegisterOutput, error)
	Retire(ctx context.Context, name string, in activities.RetireInput) (registry.Server, error)
}

// Inbound does what received events ask for (R164): a published release is
// registered, and verified by the first discovery, which follows; a revoked one is
// retired. They wait in the database, so nothing is lost while Temporal or the
// server is away, and each is done once however often it is tried.
type Inbound struct {
	Store        InboundStore
	Tenant       func(tenant string) Releases
	Changes      InboundChanges
	Installation registry.Installation
	Log          *slog.Logger

	// Zero values mean the defaults named with each field.
	Interval time.Duration // between two looks; default 1 s
	First    time.Duration // wait after a first failure, which doubles; default 5 s
	GiveUp   time.Duration // since it was received; default 24 h
}

const (
	inboundStep    = 10
	inboundTimeout = 30 * time.Second // of one event
	inboundLease   = inboundStep*inboundTimeout + time.Minute
	inboundMost    = time.Hour // between two tries
)

// Run works until the context is over.
func (in Inbound) Run(ctx context.Context) {
	in.Interval, in.First, in.GiveUp = cmp.Or(in.Interval, time.Second), cmp.Or(in.First, 5*time.Second), cmp.Or(in.GiveUp, 24*time.Hour)
	failing := false
	for ctx.Err() == nil {
		n, err := in.round(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			in.Log.LogAttrs(ctx, slog.LevelWarn, "received events cannot be read", slog.Any("error", err))
		}
		if failing = err != nil; n == inboundStep {
			continue
		}
		select {
		case <-time.After(in.Interval):
		case <-ctx.Done():
		}
	}
}

func (in Inbound) round(ctx context.Context) (int, error) {
	list, err := in.Store.ClaimInbound(ctx, inboundStep, inboundLease)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		again := in.handle(ctx, &e)
		if err := ctx.Err(); err != nil {
			return 0, err // it is due again when the lease is over
		}
		if err := in.Store.SettleInbound(ctx, e, again); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

// handle does what an event asks for and says in it what came of that; again is
// when to try what stays queued.
func (in Inbound) handle(ctx context.Context, e *registry.InboundEvent) (again time.Duration) {
	timed, cancel := context.WithTimeout(ctx, inboundTimeout)
	defer cancel()
	err := in.do(timed, e)
	if err == nil {
		e.State, e.Problem = registry.InboundDone, ""
		return 0
	}
	known, ok := registry.AsError(err)
	e.Problem = "internal error"
	if ok {
		e.Problem = string(known.Reason) + ": " + known.Message
	}
	passing := !ok || known.Code.Retryable() || known.Reason == registry.ReasonServerClosing
	level := slog.LevelWarn
	if passing && time.Since(e.ReceivedAt) < in.GiveUp {
		e.State, again = registry.InboundQueued, min(in.First<<min(e.Attempts, 10), inboundMost)
		level = slog.LevelInfo
	} else {
		e.State = registry.InboundFailed
	}
	in.Log.LogAttrs(ctx, level, "a received event is not done", slog.String("tenant", e.TenantID), slog.String("subscription", e.SubscriptionID),
		slog.String("event", e.EventID), slog.String("state", string(e.State)), slog.Any("error", err))
	return again
}

func (in Inbound) do(ctx context.Context, e *registry.InboundEvent) error {
	switch e.Type {
	case registry.EventAssetReleasePublished:
		var p registry.AssetReleasePublished
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return registry.Errorf(registry.ReasonInvalidArgument, "the payload cannot be read")
		}
		return in.publish(ctx, e, p)
	case registry.EventAssetReleaseRevoked:
		var p registry.AssetReleaseRevoked
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return registry.Errorf(registry.ReasonInvalidArgument, "the payload cannot be read")
		}
		return in.revoke(ctx, e, p.ReleaseID, p.Reason)
	default:
		return registry.Errorf(registry.ReasonInvalidArgument, "nothing is done about events of this type")
	}
}

// publish registers the server of a release. A release that was revoked stays
// away, in whatever order the two were told.
func (in Inbound) publish(ctx context.Context, e *registry.InboundEvent, p registry.AssetReleasePublished) error {
	tenant := in.Tenant(e.TenantID)
	if p.ReleaseID == "" {
		return registry.Errorf(registry.ReasonInvalidArgument, "the release has no id")
	}
	revoked, err := tenant.Revoked(ctx, p.ReleaseID)
	if err != nil || revoked {
		return err
	}
	key := "event/" + e.SubscriptionID + "/" + hashed(e.EventID)
	asked := registry.Registration{
		TenantID: e.TenantID, ServerID: registry.ServerID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(e.TenantID+"/"+key)).String()), Name: p.Name,
		Direction: cmp.Or(p.Direction, registry.DirectionConsumed), Transport: cmp.Or(p.Transport, registry.TransportStreamableHTTP),
		URL: p.URL, ConnectionName: p.ConnectionName, CommandRef: p.CommandRef, Authentication: p.Authentication, ExceptionReason: p.ExceptionReason,
		GovernancePolicyRef: cmp.Or(p.GovernancePolicyRef, registry.PolicyDefault), ProtocolVersion: newestProtocol, ReleaseID: p.ReleaseID,
		Description: p.Description, Owner: p.Owner, ProductVersion: p.ProductVersion,
	}
	if err := asked.Check(in.Installation); err != nil {
		return err
	}
	_, err = in.Changes.Register(ctx, activities.RegisterInput{
		Registration: asked, Operation: operation(e, "register"), Key: key, BodyHash: hashed(string(e.Data)),
	})
	if registry.ReasonOf(err) == registry.ReasonServerExists {
		there, listed := tenant.ReleaseServers(ctx, p.ReleaseID)
		for _, s := range there {
			if s.Name == p.Name {
				return nil // another event told the same
			}
		}
		if listed != nil {
			return listed
		}
	}
	if err != nil {
		return err
	}
	if revoked, err = tenant.Revoked(ctx, p.ReleaseID); err != nil || !revoked {
		return err
	}
	return in.revoke(ctx, e, p.ReleaseID, "revoked while it was registered")
}

// newestProtocol is the protocol version that is asked for first; the server
// decides.
const newestProtocol = "2026-07-28"

// revoke retires the servers of a release, whatever their state (C7).
func (in Inbound) revoke(ctx context.Context, e *registry.InboundEvent, releaseID, reason string) error {
	if releaseID == "" {
		return registry.Errorf(registry.ReasonInvalidArgument, "the release has no id")
	}
	list, err := in.Tenant(e.TenantID).ReleaseServers(ctx, releaseID)
	if err != nil {
		return err
	}
	comment := "release " + releaseID + " was revoked"
	if reason != "" {
		comment += ": " + reason
	}
	for _, s := range list {
		_, err := in.Changes.Retire(ctx, s.Name, activities.RetireInput{
			Tenant: e.TenantID, ServerID: s.ServerID, Operation: operation(e, "retire"), Comment: comment[:min(len(comment), registry.MaxReasonLength)],
		})
		if err != nil && registry.ReasonOf(err) != registry.ReasonServerRetired {
			return err
		}
	}
	return nil
}

// operation is the same for each try.
func operation(e *registry.InboundEvent, name string) registry.Operation {
	return registry.Operation{
		ID: hashed(name + "\n" + e.TenantID + "\n" + e.SubscriptionID + "\n" + e.EventID)[:32], Name: name,
		Actor: registry.System("releases"), Origin: registry.OriginSystem,
	}
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
