package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// newestConnection gives the newest version of a connection.
func (f *fakeAPI) newestConnection(name string) (*registryv1.Connection, error) {
	for _, c := range slices.Backward(f.connections) {
		if c.GetName() == name && c.GetNewest() && !c.GetDeleted() {
			return f.counted(c), nil
		}
	}
	return nil, refusal(connect.CodeNotFound, registry.ReasonConnectionNotFound, "list the connections; names are those of the tenant", nil, "there is no connection %q", name)
}

// counted gives a connection with the servers that name it.
func (f *fakeAPI) counted(c *registryv1.Connection) *registryv1.Connection {
	out := proto.CloneOf(c)
	for _, s := range f.servers {
		if name, _, _ := strings.Cut(s.GetEndpointRef(), "@"); name == c.GetName() {
			out.Users++
			if s.GetEndpointRef() == c.GetRef() {
				out.Servers++
			}
		}
	}
	return out
}

// keep adds a version of a connection.
func (f *fakeAPI) keep(name string, version int32, spec *registryv1.ConnectionSpec) *registryv1.Connection {
	if k := spec.GetAuthKind(); k <= registryv1.ConnectionAuthKind_CONNECTION_AUTH_KIND_NONE {
		spec.AuthKind = registryv1.ConnectionAuthKind_CONNECTION_AUTH_KIND_NONE
		if len(spec.GetHeaders()) > 0 {
			spec.AuthKind = registryv1.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS
		}
	}
	c := &registryv1.Connection{
		TenantId: "default", Name: name, Version: version, Ref: fmt.Sprintf("%s@%d", name, version), Etag: fmt.Sprintf(`"%d"`, version),
		Spec: spec, Newest: true, CreateTime: day(int(version)), CreatedBy: "ada",
	}
	if strings.HasPrefix(spec.GetBaseUrl(), "http://") {
		c.Warnings = []string{"secrets go to this server in plain HTTP"}
	}
	f.connections = append(f.connections, c)
	return c
}

func (f *fakeAPI) CreateConnection(_ context.Context, r *registryv1.CreateConnectionRequest) (*registryv1.CreateConnectionResponse, error) {
	if _, err := f.newestConnection(r.GetName()); err == nil {
		return nil, refusal(connect.CodeAlreadyExists, registry.ReasonConnectionExists, "choose another name, or change that connection", nil, "there is a connection named %s", r.GetName())
	}
	return &registryv1.CreateConnectionResponse{Connection: f.keep(r.GetName(), 1, r.GetSpec())}, nil
}

func (f *fakeAPI) GetConnection(_ context.Context, r *registryv1.GetConnectionRequest) (*registryv1.GetConnectionResponse, error) {
	if i := slices.IndexFunc(f.connections, func(c *registryv1.Connection) bool {
		return c.GetName() == r.GetName() && c.GetVersion() == r.GetVersion()
	}); i >= 0 {
		return &registryv1.GetConnectionResponse{Connection: f.counted(f.connections[i])}, nil
	}
	c, err := f.newestConnection(r.GetName())
	return &registryv1.GetConnectionResponse{Connection: c}, err
}

func (f *fakeAPI) ListConnections(context.Context, *registryv1.ListConnectionsRequest) (*registryv1.ListConnectionsResponse, error) {
	out := &registryv1.ListConnectionsResponse{}
	for _, c := range f.connections {
		if c.GetNewest() && !c.GetDeleted() {
			out.Connections = append(out.Connections, f.counted(c))
		}
	}
	return out, nil
}

func (f *fakeAPI) ListConnectionVersions(_ context.Context, r *registryv1.ListConnectionVersionsRequest) (*registryv1.ListConnectionVersionsResponse, error) {
	out := &registryv1.ListConnectionVersionsResponse{}
	for _, c := range slices.Backward(f.connections) {
		if c.GetName() == r.GetName() {
			out.Versions = append(out.Versions, f.counted(c))
		}
	}
	return out, nil
}

func (f *fakeAPI) UpdateConnection(_ context.Context, r *registryv1.UpdateConnectionRequest) (*registryv1.UpdateConnectionResponse, error) {
	now, err := f.newestConnection(r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetSpec().GetDescription() == "lost" {
		return nil, refusal(connect.CodeUnavailable, registry.ReasonDependency, "", nil, "nobody knows what became of it")
	}
	if r.GetEtag() != "" && r.GetEtag() != now.GetEtag() {
		return nil, refusal(connect.CodeAborted, registry.ReasonStaleEtag, "", nil, "the connection is at etag %s, not %s", now.GetEtag(), r.GetEtag())
	}
	next := proto.CloneOf(now.GetSpec())
	for _, path := range r.GetUpdateMask().GetPaths() {
		field := next.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(path))
		next.ProtoReflect().Clear(field)
		if from := r.GetSpec().ProtoReflect(); from.Has(field) {
			next.ProtoReflect().Set(field, from.Get(field))
		}
	}
	for _, c := range f.connections {
		if c.GetName() == r.GetName() {
			c.Newest = false
		}
	}
	return &registryv1.UpdateConnectionResponse{Connection: f.counted(f.keep(r.GetName(), now.GetVersion()+1, next))}, nil
}

func (f *fakeAPI) DeleteConnection(_ context.Context, r *registryv1.DeleteConnectionRequest) (*registryv1.DeleteConnectionResponse, error) {
	now, err := f.newestConnection(r.GetName())
	if err != nil {
		return nil, err
	}
	if now.GetUsers() > 0 {
		return nil, refusal(connect.CodeFailedPrecondition, registry.ReasonConnectionInUse, "give those servers another connection, or retire them", nil, "connection %s is used by found", r.GetName())
	}
	if r.GetDryRun() {
		return &registryv1.DeleteConnectionResponse{Connection: now, DryRun: true}, nil
	}
	for _, c := range f.connections {
		if c.GetName() == r.GetName() {
			c.Newest = false
		}
	}
	f.keep(r.GetName(), now.GetVersion()+1, now.GetSpec()).Deleted = true
	return &registryv1.DeleteConnectionResponse{Connection: now}, nil
}

func (f *fakeAPI) TestConnection(_ context.Context, r *registryv1.TestConnectionRequest) (*registryv1.TestConnectionResponse, error) {
	if _, err := f.newestConnection(r.GetName()); err != nil {
		return nil, err
	}
	return &registryv1.TestConnectionResponse{Report: &registryv1.TestMcpServerResponse{
		Reason: string(registry.ReasonSecretRefUnresolved), Message: "the secret env:SEARCH_BEARER cannot be resolved",
		NextStep: "have the operator put it there", Steps: []*registryv1.TestStep{{Name: "connect", Detail: "no secret"}},
	}}, nil
}
