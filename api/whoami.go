package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "countersign/proto/countersign/registry/v1"
)

// whoami answers IdentityService.
type whoami struct{ *Handler }

// WhoAmI implements registryv1connect.IdentityServiceHandler.
func (whoami) WhoAmI(ctx context.Context, _ *pb.WhoAmIRequest) (*pb.WhoAmIResponse, error) {
	p, err := principalOf(ctx)
	if err != nil {
		return nil, err
	}
	var permissions []string
	for procedure := range access {
		if permit(p, procedure) == nil {
			permissions = append(permissions, strings.TrimPrefix(procedure, rpcPrefix))
		}
	}
	slices.Sort(permissions)
	answer := &pb.WhoAmIResponse{
		Subject: p.Subject, Tenant: p.Tenant, Roles: wordList(p.Roles), Scopes: wordList(p.Scopes), Issuer: p.Issuer, Permissions: permissions,
	}
	if !p.Expires.IsZero() {
		answer.ExpireTime = timestamppb.New(p.Expires)
	}
	return answer, nil
}

// loginPath says, to whoever asks, where one signs in.
const loginPath = "/.well-known/countersign"

// signIn is how a program of a person gets a token: by the authorization code
// flow with PKCE at the issuer, as this public client.
type signIn struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
}

// login answers with the issuers at which one can sign in. None of it is
// secret.
func (h *Handler) login(w http.ResponseWriter, _ *http.Request) {
	var body struct {
		Issuers []signIn `json:"issuers"`
	}
	body.Issuers = []signIn{}
	for _, i := range h.opts.Auth.issuers {
		if i.LoginClientID != "" {
			body.Issuers = append(body.Issuers, signIn{i.Issuer.Issuer, i.LoginClientID, append([]string{}, i.LoginScopes...)})
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(append(raw, '\n')) // the caller went away
}
