package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"countersign/registry"
)

// Receive verifies and reads an event that was sent to a subscription.
type Receive func(ctx context.Context, u registry.Subscription, header http.Header, body []byte) (registry.InboundEvent, error)

// receiving bounds events that are received at once, and how long each may take:
// whoever sends them has shown nothing yet.
const (
	receiving      = 16
	receiveTimeout = 10 * time.Second
)

// receiveEvent takes in an event that others tell a tenant (R164). What makes it
// one of the tenant's is the signature by a secret of the subscription that the
// path names; without one, nothing can be told from a subscription that does not
// exist. An event that is kept is answered with 202, one that was here already with
// 200.
func (h *Handler) receiveEvent(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), receiveTimeout)
	defer cancel()
	select {
	case h.receiving <- struct{}{}:
		defer func() { <-h.receiving }()
	default:
		w.Header().Set("Retry-After", "1")
		tellReceived(w, http.StatusTooManyRequests, "too_many_requests", "too many events are received just now")
		return
	}
	fresh, err := h.takeIn(ctx, w, r)
	switch {
	case err == nil && fresh:
		tellReceived(w, http.StatusAccepted, "", "")
	case err == nil:
		tellReceived(w, http.StatusOK, "", "")
	default:
		e := presentable(ctx, err, callOf(r.Context()).id)
		if e.Code == registry.CodePrecondition { // a secret of ours that is not there
			h.log.LogAttrs(ctx, slog.LevelWarn, "an event cannot be verified", slog.String("path", r.URL.Path), slog.Any("error", err))
			e = registry.Errorf(registry.ReasonDependency, "the event cannot be verified now")
		}
		tellReceived(w, travelOf(e).http, string(e.Reason), e.Message)
	}
}

func (h *Handler) takeIn(ctx context.Context, w http.ResponseWriter, r *http.Request) (bool, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, registry.MaxInboundEvent))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return false, registry.Errorf(registry.ReasonBodyTooLarge, "the event has more than %d bytes", registry.MaxInboundEvent)
	}
	if err != nil {
		return false, registry.Errorf(registry.ReasonInvalidArgument, "the body cannot be read")
	}
	unknown := registry.Errorf(registry.ReasonUnauthenticated, "the signature is not one of the subscription's secrets, or too old")
	tenant, id, found := strings.Cut(strings.TrimPrefix(r.URL.Path, ReceivePath), "/")
	if !found || !registry.ValidTenant(tenant) || !registry.ValidName(id) {
		return false, unknown
	}
	store := h.opts.DB.Tenant(tenant)
	u, err := store.Subscription(ctx, id)
	switch {
	case registry.ReasonOf(err) == registry.ReasonSubscriptionNotFound:
		return false, unknown
	case err != nil:
		return false, err
	case !u.Receives():
		return false, unknown
	}
	e, err := h.opts.Receive(ctx, u, r.Header, body)
	if registry.ReasonOf(err) == registry.ReasonUnauthenticated {
		return false, unknown
	}
	if err != nil {
		return false, err
	}
	return store.TakeIn(ctx, e)
}

func tellReceived(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { //nolint:errchkjson // texts marshal
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	}{reason, message}) // the caller went away
}
