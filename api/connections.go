package api

import (
	"context"
	"net/http"
	"strings"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// connections implements ConnectionService.
type connections struct{ *Handler }

var authKinds = map[registry.AuthKind]pb.ConnectionAuthKind{
	registry.AuthKindNone:              pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_NONE,
	registry.AuthKindHeaders:           pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS,
	registry.AuthKindClientCredentials: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS,
	registry.AuthKindPrivateKeyJWT:     pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_PRIVATE_KEY_JWT,
	registry.AuthKindTokenExchange:     pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_TOKEN_EXCHANGE,
	registry.AuthKindWorkloadIdentity:  pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_WORKLOAD_IDENTITY,
}

// keyed gives the operation of a change that may come with an idempotency key,
// and the claim on the key; nil when there is none.
func (d desk) keyed(ctx context.Context, name, hash string) (registry.Operation, *db.Claim, error) {
	if len(requestHeader(ctx, "Idempotency-Key")) == 0 {
		return d.operation(name, "", ""), nil, nil
	}
	key, err := idempotencyKey(ctx)
	if err != nil {
		return registry.Operation{}, nil, err
	}
	return d.operation(name, key, hash), &db.Claim{Operation: name, Key: key, BodyHash: hash}, nil
}

// CreateConnection implements ConnectionService.
func (c connections) CreateConnection(ctx context.Context, req *pb.CreateConnectionRequest) (*pb.CreateConnectionResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return nil, err
	}
	op, claim, err := d.keyed(ctx, "create_connection", hash)
	if err != nil {
		return nil, err
	}
	asked := connectionIn(req.GetName(), req.GetSpec())
	if err := asked.Check(c.opts.Installation); err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	made, replayed, err := d.store.CreateConnection(ctx, asked, op, claim)
	if err != nil {
		return nil, err
	}
	if replayed {
		setHeader(ctx, "Idempotent-Replayed", "true")
	}
	call := callOf(ctx)
	call.status, call.location = http.StatusCreated, "/factory/connections/"+made.Name
	return &pb.CreateConnectionResponse{Connection: connectionOut(&db.ConnectionView{Connection: made, Newest: true})}, nil
}

// GetConnection implements ConnectionService.
func (c connections) GetConnection(ctx context.Context, req *pb.GetConnectionRequest) (*pb.GetConnectionResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.store.ConnectionView(ctx, req.GetName(), int(req.GetVersion()))
	if err != nil {
		return nil, notFound(err, "connection", req.GetName())
	}
	return &pb.GetConnectionResponse{Connection: connectionOut(&v)}, nil
}

// ListConnections implements ConnectionService.
func (c connections) ListConnections(ctx context.Context, req *pb.ListConnectionsRequest) (*pb.ListConnectionsResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "connections"}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	views, next, total, err := d.store.Connections(ctx, page)
	if err != nil {
		return nil, err
	}
	out := &pb.ListConnectionsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Connections = append(out.Connections, connectionOut(&views[i]))
	}
	return out, nil
}

// ListConnectionVersions implements ConnectionService.
func (c connections) ListConnectionVersions(ctx context.Context, req *pb.ListConnectionVersionsRequest) (*pb.ListConnectionVersionsResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	l := list{tenant: d.principal.Tenant, method: "connection versions", filter: req.GetName()}
	page, err := l.page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	views, next, total, err := d.store.ConnectionVersions(ctx, req.GetName(), page)
	if err != nil {
		return nil, notFound(err, "connection", req.GetName())
	}
	out := &pb.ListConnectionVersionsResponse{NextPageToken: l.token(next), TotalSize: count(total)}
	for i := range views {
		out.Versions = append(out.Versions, connectionOut(&views[i]))
	}
	return out, nil
}

// UpdateConnection implements ConnectionService. The connection's workflow writes,
// so that whoever uses the connection hears of it however this process ends.
func (c connections) UpdateConnection(ctx context.Context, req *pb.UpdateConnectionRequest) (*pb.UpdateConnectionResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	edit, err := connectionEditIn(req)
	if err != nil {
		return nil, err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return nil, err
	}
	op, claim, err := d.keyed(ctx, "edit_connection", hash)
	if err != nil {
		return nil, err
	}
	v, err := d.store.ConnectionView(ctx, req.GetName(), 0)
	if err != nil {
		return nil, notFound(err, "connection", req.GetName())
	}
	// What is wrong whatever the connection becomes meanwhile needs no workflow.
	if next, _ := v.Edit(edit); !v.Owned() {
		if err := next.Check(c.opts.Installation); err != nil {
			return nil, err
		}
	}
	in := workflows.EditConnectionInput{Tenant: d.principal.Tenant, Name: v.Name, Operation: op, Edit: edit}
	if claim != nil {
		in.Key, in.BodyHash = claim.Key, claim.BodyHash
	}
	callOf(ctx).sent = true
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	out, err := c.opts.Workflows.EditConnection(ctx, in)
	if err != nil {
		return nil, err
	}
	if out.Replayed {
		setHeader(ctx, "Idempotent-Replayed", "true")
	}
	if v, err = d.store.ConnectionView(ctx, out.Connection.Name, out.Connection.Version); err != nil {
		return nil, err
	}
	return &pb.UpdateConnectionResponse{Connection: connectionOut(&v)}, nil
}

// DeleteConnection implements ConnectionService.
func (c connections) DeleteConnection(ctx context.Context, req *pb.DeleteConnectionRequest) (*pb.DeleteConnectionResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	callOf(ctx).sent = true
	was, err := d.store.ConnectionView(ctx, req.GetName(), 0)
	if err == nil {
		err = d.deletions(req.GetDryRun()).DeleteConnection(ctx, req.GetName(), req.GetEtag(), d.operation("delete_connection", "", ""))
	}
	if err != nil {
		return nil, notFound(err, "connection", req.GetName())
	}
	return &pb.DeleteConnectionResponse{Connection: connectionOut(&was), DryRun: req.GetDryRun()}, nil
}

// TestConnection implements ConnectionService.
func (c connections) TestConnection(ctx context.Context, req *pb.TestConnectionRequest) (*pb.TestConnectionResponse, error) {
	d, err := c.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.store.ConnectionView(ctx, req.GetName(), 0)
	if err != nil {
		return nil, notFound(err, "connection", req.GetName())
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	report, err := c.opts.Workflows.Test(ctx, workflows.TestInput{Tenant: v.TenantID, Connection: v.Name})
	if err != nil {
		return nil, err
	}
	return &pb.TestConnectionResponse{Report: testOut(&report)}, nil
}

// connectionIn is what a request says of a connection.
func connectionIn(name string, s *pb.ConnectionSpec) registry.Connection {
	return registry.Connection{
		Name: name, Description: s.GetDescription(), URL: s.GetBaseUrl(), DialAddress: s.GetDialAddress(), AllowedNetworks: s.GetAllowedNetworks(),
		CABundle: s.GetCaBundle(), AuthKind: word(authKinds, s.GetAuthKind()), Issuer: s.GetIssuer(), ClientID: s.GetClientId(),
		SecretRef: s.GetSecretRef(), Scopes: s.GetScopes(), Headers: s.GetHeaders(), ClientCertificateRef: s.GetClientCertificateRef(),
		ClientKeyRef: s.GetClientKeyRef(), TokenEndpoint: s.GetTokenEndpoint(), StepUpScopes: s.GetStepUpScopes(),
	}.Normal()
}

// connectionFields are the fields of a connection that a mask can name.
var connectionFields = map[string]func(e *registry.ConnectionEdit, s *pb.ConnectionSpec){
	"description":  func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.Description = new(s.GetDescription()) },
	"base_url":     func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.URL = new(s.GetBaseUrl()) },
	"dial_address": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.DialAddress = new(s.GetDialAddress()) },
	"allowed_networks": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) {
		e.AllowedNetworks = new(s.GetAllowedNetworks())
	},
	"ca_bundle": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.CABundle = new(s.GetCaBundle()) },
	"auth_kind": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) {
		e.AuthKind = new(word(authKinds, s.GetAuthKind()))
	},
	"issuer":     func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.Issuer = new(s.GetIssuer()) },
	"client_id":  func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.ClientID = new(s.GetClientId()) },
	"secret_ref": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.SecretRef = new(s.GetSecretRef()) },
	"scopes":     func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.Scopes = new(s.GetScopes()) },
	"token_endpoint": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) {
		e.TokenEndpoint = new(s.GetTokenEndpoint())
	},
	"step_up_scopes": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) {
		e.StepUpScopes = new(s.GetStepUpScopes())
	},
	"headers": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.Headers = new(s.GetHeaders()) },
	"client_certificate_ref": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) {
		e.ClientCertificateRef = new(s.GetClientCertificateRef())
	},
	"client_key_ref": func(e *registry.ConnectionEdit, s *pb.ConnectionSpec) { e.ClientKeyRef = new(s.GetClientKeyRef()) },
}

func connectionEditIn(req *pb.UpdateConnectionRequest) (registry.ConnectionEdit, error) {
	e := registry.ConnectionEdit{Etag: req.GetEtag()}
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the update is not valid")
	for _, path := range req.GetUpdateMask().GetPaths() {
		take, known := connectionFields[path]
		if !known {
			bad.WithField("update_mask", "%q is not a field that can be changed; there are %s", path, changeable(req.GetSpec()))
			continue
		}
		take(&e, req.GetSpec())
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		bad.WithField("update_mask", "names no field; there are %s", changeable(req.GetSpec()))
	}
	if len(bad.Fields) > 0 {
		return registry.ConnectionEdit{}, bad
	}
	return e, nil
}

// connectionOut is a connection as everybody sees it: of secrets the references.
func connectionOut(v *db.ConnectionView) *pb.Connection {
	out := &pb.Connection{
		TenantId: v.TenantID, Name: v.Name, Version: count(v.Version), Ref: v.Ref(), Etag: v.Etag(), Newest: v.Newest, Deleted: v.Deleted,
		Servers: count(v.Servers), Users: count(v.Users), CreateTime: moment(v.CreatedAt), CreatedBy: v.CreatedBy,
		Spec: &pb.ConnectionSpec{
			BaseUrl: v.URL, DialAddress: v.DialAddress, AuthKind: authKinds[v.AuthKind], Issuer: v.Issuer, ClientId: v.ClientID,
			SecretRef: v.SecretRef, Scopes: v.Scopes, AllowedNetworks: v.AllowedNetworks, Headers: v.Headers, CaBundle: v.CABundle,
			ClientCertificateRef: v.ClientCertificateRef, ClientKeyRef: v.ClientKeyRef, Description: v.Description,
			TokenEndpoint: v.TokenEndpoint, StepUpScopes: v.StepUpScopes,
		},
	}
	if v.Owned() {
		out.ServerId = v.Name
	}
	if registry.LooksLikeKey(v.URL) {
		out.Warnings = append(out.Warnings, "a part of the URL's path looks like a key: everybody who reads this connection sees it; "+
			"give credentials by reference instead")
	}
	if v.AuthKind != registry.AuthKindNone && strings.HasPrefix(v.URL, "http://") {
		out.Warnings = append(out.Warnings, "secrets go to this server in plain HTTP: whoever is on the way can read them")
	}
	if strings.HasPrefix(v.Issuer, "http://") || strings.HasPrefix(v.TokenEndpoint, "http://") {
		out.Warnings = append(out.Warnings, "secrets go to this issuer in plain HTTP: whoever is on the way can read them")
	}
	return out
}
