package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// spec is what a connection with one secret says.
func spec() *pb.ConnectionSpec {
	return &pb.ConnectionSpec{BaseUrl: "https://search.example/mcp", Headers: map[string]string{"authorization": "env:BEARER"}}
}

// rest sends a request over REST that must come to an answer of some type.
func rest[M proto.Message](t *testing.T, h *house, procedure string, request proto.Message, header http.Header) (M, outcome) {
	t.Helper()
	o := ways["REST"](t, h, admin(alpha), procedure, request, header)
	if o.answer == nil {
		t.Fatalf("%s comes to %+v", procedure, o)
	}
	return typed[M](t, o), o
}

// typed is the answer as what it is.
func typed[M proto.Message](t *testing.T, o outcome) M {
	t.Helper()
	var none M
	out := none.ProtoReflect().New().Interface()
	raw, err := proto.Marshal(o.answer)
	if err == nil {
		err = proto.Unmarshal(raw, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.(M) //nolint:forcetypeassert // made of one
}

// The whole life of a connection, and of a server that is reached by it.
func TestTheLifeOfAConnection(t *testing.T) {
	t.Parallel()
	h := open(t)
	made, o := rest[*pb.CreateConnectionResponse](t, h, doConnect, &pb.CreateConnectionRequest{Name: "search", Spec: spec()}, keyed("k"))
	if o.status != http.StatusCreated || o.header.Get("Location") != "/factory/connections/search" {
		t.Errorf("making one answers %d, %s", o.status, o.header.Get("Location"))
	}
	want := &pb.Connection{
		TenantId: alpha, Name: "search", Version: 1, Ref: "search@1", Etag: `"1"`, Newest: true, CreatedBy: "platformadmin",
		Spec: &pb.ConnectionSpec{
			BaseUrl: "https://search.example/mcp", AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS,
			Headers: map[string]string{"Authorization": "env:BEARER"},
		},
	}
	same := func(got *pb.Connection) {
		t.Helper()
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&pb.Connection{}, "create_time")); diff != "" || got.GetCreateTime() == nil {
			t.Error(diff)
		}
	}
	same(made.GetConnection())
	// Said again it is not made again, also when the answer was lost.
	again, o := rest[*pb.CreateConnectionResponse](t, h, doConnect, &pb.CreateConnectionRequest{Name: "search", Spec: spec()}, keyed("k"))
	if same(again.GetConnection()); o.header.Get("Idempotent-Replayed") != "true" {
		t.Error("a repeat does not say that it is one")
	}
	otherwise := spec()
	otherwise.BaseUrl = "https://other.example/mcp"
	for name, c := range map[string]struct {
		request *pb.CreateConnectionRequest
		header  http.Header
		reason  registry.Reason
	}{
		"another body under the key": {&pb.CreateConnectionRequest{Name: "search", Spec: otherwise}, keyed("k"), registry.ReasonIdempotencyKeyReused},
		"the name under another key": {&pb.CreateConnectionRequest{Name: "search", Spec: spec()}, keyed("l"), registry.ReasonConnectionExists},
		"the name without a key":     {&pb.CreateConnectionRequest{Name: "search", Spec: spec()}, nil, registry.ReasonConnectionExists},
	} {
		for face, send := range ways {
			if o := send(t, h, admin(alpha), doConnect, c.request, c.header); o.answer != nil || o.reason != string(c.reason) {
				t.Errorf("%s by %s comes to %+v", name, face, o)
			}
		}
	}

	// A server pins its newest version, and does not repeat what it was not given.
	request := good("found")
	request.EndpointUrl, request.EndpointRef = "", "search"
	registered, _ := rest[*pb.RegisterMcpServerResponse](t, h, doRegister, request, keyed("r"))
	if s := registered.GetServer(); s.GetEndpointRef() != "search@1" || s.GetEndpointUrl() != "https://search.example/mcp" {
		t.Errorf("it is registered at %s, %s", s.GetEndpointRef(), s.GetEndpointUrl())
	}
	want.Servers, want.Users = 1, 1
	for face, send := range ways {
		o := send(t, h, tokenOf(alpha, registry.RoleObserver), doWay, &pb.GetConnectionRequest{Name: "search"}, nil)
		if o.answer == nil {
			t.Errorf("%s answers %+v", face, o)
			continue
		}
		same(typed[*pb.GetConnectionResponse](t, o).GetConnection())
	}

	// An edit makes the next version, once, and only for who saw this one.
	edit := &pb.UpdateConnectionRequest{Name: "search", Spec: &pb.ConnectionSpec{BaseUrl: "https://new.example/mcp", Description: "not named"}, UpdateMask: mask("base_url"), Etag: `"1"`}
	edited, _ := rest[*pb.UpdateConnectionResponse](t, h, doReroute, edit, keyed("e"))
	want.Version, want.Ref, want.Etag, want.Spec.BaseUrl, want.Servers = 2, "search@2", `"2"`, "https://new.example/mcp", 0
	same(edited.GetConnection())
	again2, o := rest[*pb.UpdateConnectionResponse](t, h, doReroute, edit, keyed("e"))
	if same(again2.GetConnection()); o.header.Get("Idempotent-Replayed") != "true" {
		t.Error("a repeated edit does not say that it is one")
	}
	if o := ways["gRPC"](t, h, admin(alpha), doReroute, edit, nil); o.reason != string(registry.ReasonStaleEtag) || o.code != "aborted" || o.facts["etag"] != `"2"` {
		t.Errorf("an edit of version 1 comes to %+v", o)
	}
	unchanged, _ := rest[*pb.UpdateConnectionResponse](t, h, doReroute, &pb.UpdateConnectionRequest{Name: "search", Spec: edit.GetSpec(), UpdateMask: mask("base_url")}, nil)
	same(unchanged.GetConnection())
	versions, _ := rest[*pb.ListConnectionVersionsResponse](t, h, doFormer, &pb.ListConnectionVersionsRequest{Name: "search"}, nil)
	var refs []string
	for _, v := range versions.GetVersions() {
		refs = append(refs, fmt.Sprintf("%s %t %d", v.GetRef(), v.GetNewest(), v.GetServers()))
	}
	if !slices.Equal(refs, []string{"search@2 true 0", "search@1 false 1"}) || versions.GetTotalSize() != 2 {
		t.Errorf("the versions are %v", refs)
	}

	// It is deleted when nobody uses it, and its versions stay.
	if o := ways["REST"](t, h, admin(alpha), doCut, &pb.DeleteConnectionRequest{Name: "search"}, nil); o.reason != string(registry.ReasonConnectionInUse) || !strings.Contains(o.message, "found") {
		t.Errorf("deleting it while it is used comes to %+v", o)
	}
	row, err := h.db.Tenant(alpha).Server(t.Context(), "found")
	if err != nil {
		t.Fatal(err)
	}
	h.changed(t, row.Server, retire)
	if o := ways["REST"](t, h, admin(alpha), doCut, &pb.DeleteConnectionRequest{Name: "search", Etag: `"1"`}, nil); o.reason != string(registry.ReasonStaleEtag) {
		t.Errorf("deleting what it was comes to %+v", o)
	}
	h.onlyTried(t, func() {
		if o := ways["gRPC"](t, h, admin(alpha), doCut, &pb.DeleteConnectionRequest{Name: "search", Etag: `"1"`, DryRun: true}, nil); o.reason != string(registry.ReasonStaleEtag) {
			t.Errorf("trying to delete what it was comes to %+v", o)
		}
		tried, _ := rest[*pb.DeleteConnectionResponse](t, h, doCut, &pb.DeleteConnectionRequest{Name: "search", Etag: `"2"`, DryRun: true}, nil)
		if c := tried.GetConnection(); !tried.GetDryRun() || c.GetDeleted() || c.GetVersion() != 2 {
			t.Errorf("trying it says %v", tried)
		}
	})
	cut, _ := rest[*pb.DeleteConnectionResponse](t, h, doCut, &pb.DeleteConnectionRequest{Name: "search", Etag: `"2"`}, nil)
	if cut.GetDryRun() || cut.GetConnection().GetVersion() != 2 {
		t.Errorf("deleting it says %v", cut)
	}
	for _, procedure := range []string{doWay, doReroute, doCut, doDial} {
		if o := ways["REST"](t, h, admin(alpha), procedure, about[procedure]("search", ""), nil); o.reason != string(registry.ReasonConnectionNotFound) || o.status != http.StatusNotFound {
			t.Errorf("%s of a deleted one comes to %+v", procedure, o)
		}
	}
	old, _ := rest[*pb.GetConnectionResponse](t, h, doWay, &pb.GetConnectionRequest{Name: "search", Version: 1}, nil)
	if old.GetConnection().GetSpec().GetBaseUrl() != "https://search.example/mcp" {
		t.Errorf("version 1 is %v", old.GetConnection())
	}
	if o := ways["REST"](t, h, admin(alpha), doRegister, request, keyed("after")); o.reason != string(registry.ReasonConnectionNotFound) {
		t.Errorf("a registration by it comes to %+v", o)
	}
}

// What is wrong with a connection is said on every face, by field; what may be a
// secret is not repeated, stored or logged, and no workflow hears of it.
func TestConnectionsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := open(t)
	rest[*pb.CreateConnectionResponse](t, h, doConnect, &pb.CreateConnectionRequest{Name: "there", Spec: spec()}, nil)
	owned := h.registered(t, alpha, "plain")
	h.flows.took()
	create := func(change func(*pb.ConnectionSpec)) *pb.CreateConnectionRequest {
		r := &pb.CreateConnectionRequest{Name: "new", Spec: spec()}
		change(r.GetSpec())
		return r
	}
	edit := func(s *pb.ConnectionSpec, paths ...string) *pb.UpdateConnectionRequest {
		return &pb.UpdateConnectionRequest{Name: "there", Spec: s, UpdateMask: mask(paths...)}
	}
	for name, c := range map[string]struct {
		procedure string
		request   proto.Message
		reason    registry.Reason
		field     string
	}{
		"no URL":                 {doConnect, create(func(s *pb.ConnectionSpec) { s.BaseUrl = "" }), registry.ReasonInvalidArgument, "base_url"},
		"a name like an id":      {doConnect, &pb.CreateConnectionRequest{Name: owned.ServerID, Spec: spec()}, registry.ReasonInvalidArgument, "name"},
		"a secret in the URL":    {doConnect, create(func(s *pb.ConnectionSpec) { s.BaseUrl = "https://u:hunter2@a.example/" }), registry.ReasonSecretInRequest, ""},
		"a secret for a header":  {doConnect, create(func(s *pb.ConnectionSpec) { s.Headers["X-Key"] = "hunter2" }), registry.ReasonSecretRefInvalid, ""},
		"a secret as the secret": {doReroute, edit(&pb.ConnectionSpec{SecretRef: "hunter2", AuthKind: 3}, "secret_ref", "auth_kind"), registry.ReasonSecretRefInvalid, ""},
		"a secret in the place of tokens": {
			doReroute, edit(&pb.ConnectionSpec{TokenEndpoint: "https://u:hunter2@a.example/token", AuthKind: 3}, "token_endpoint", "auth_kind"), registry.ReasonSecretInRequest, "token_endpoint",
		},
		"a client that is registered nowhere": {doConnect, create(func(s *pb.ConnectionSpec) {
			s.Headers, s.AuthKind, s.Issuer = nil, pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, "https://as.example"
		}), registry.ReasonInvalidArgument, "client_id"},
		"a key as a certificate": {doReroute, edit(&pb.ConnectionSpec{CaBundle: "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"}, "ca_bundle"), registry.ReasonSecretInRequest, ""},
		"a network too many":     {doReroute, edit(&pb.ConnectionSpec{AllowedNetworks: []string{"192.168.0.0/16"}}, "allowed_networks"), registry.ReasonInvalidArgument, "allowed_networks[0]"},
		"the metadata service":   {doReroute, edit(&pb.ConnectionSpec{AllowedNetworks: []string{"169.254.169.254/32"}}, "allowed_networks"), registry.ReasonInvalidArgument, "allowed_networks[0]"},
		"a header of one hop":    {doReroute, edit(&pb.ConnectionSpec{Headers: map[string]string{"Host": "env:A"}}, "headers"), registry.ReasonInvalidArgument, `headers["Host"]`},
		"nothing to change":      {doReroute, edit(&pb.ConnectionSpec{}), registry.ReasonInvalidArgument, "update_mask"},
		"no field":               {doReroute, edit(&pb.ConnectionSpec{}, "name"), registry.ReasonInvalidArgument, "update_mask"},
		"a page token of others": {doFormer, &pb.ListConnectionVersionsRequest{Name: "there", PageToken: "x"}, registry.ReasonInvalidPageToken, "page_token"},
	} {
		for face, send := range ways {
			if face == "REST" && name == "no field" {
				continue // JSON's own reading comes before, and is tested there
			}
			o := send(t, h, admin(alpha), c.procedure, c.request, nil)
			if o.answer != nil || o.reason != string(c.reason) || !strings.Contains(strings.Join(o.fields, "\n"), c.field) {
				t.Errorf("%s by %s comes to %+v", name, face, o)
			}
			if strings.Contains(fmt.Sprintf("%+v", o), "hunter2") {
				t.Errorf("%s by %s repeats the secret", name, face)
			}
		}
	}
	if asked := h.flows.took(); len(asked) > 0 {
		t.Errorf("the workflows were asked to %v", asked)
	}
	if strings.Contains(h.logs.String(), "hunter2") {
		t.Error("the log has the secret")
	}
	rows, err := json.Marshal(h.audits(t, alpha, "create_connection"))
	if err != nil || strings.Contains(string(rows), "hunter2") {
		t.Errorf("the audit has the secret, or %v", err)
	}
	// One that a registration by a plain URL made is its server's.
	if o := ways["REST"](t, h, admin(alpha), doReroute, about[doReroute](owned.ServerID, ""), nil); o.reason != string(registry.ReasonConnectionOwned) {
		t.Errorf("an edit of one that a server owns comes to %+v", o)
	}
	got, _ := rest[*pb.GetConnectionResponse](t, h, doWay, &pb.GetConnectionRequest{Name: owned.ServerID}, nil)
	if got.GetConnection().GetServerId() != owned.ServerID {
		t.Errorf("one that a server owns is %v", got.GetConnection())
	}
	listed, _ := rest[*pb.ListConnectionsResponse](t, h, doWays, &pb.ListConnectionsRequest{}, nil)
	if len(listed.GetConnections()) != 1 || listed.GetConnections()[0].GetName() != "there" {
		t.Errorf("the list has %v", listed)
	}
}

// Where tokens come from and what may be asked for besides are kept, edited one by one
// and shown; that they come in plain HTTP is pointed out.
func TestConnectionsSayWhereTokensComeFrom(t *testing.T) {
	t.Parallel()
	h := open(t)
	said := &pb.ConnectionSpec{
		BaseUrl: "https://wiki.example/mcp", AuthKind: pb.ConnectionAuthKind_CONNECTION_AUTH_KIND_CLIENT_CREDENTIALS, Issuer: "https://as.example",
		ClientId: "us", SecretRef: "env:SECRET", Scopes: []string{"read"}, TokenEndpoint: "https://tokens.example/token", StepUpScopes: []string{"admin", "write"},
	}
	made, _ := rest[*pb.CreateConnectionResponse](t, h, doConnect, &pb.CreateConnectionRequest{Name: "wiki", Spec: said}, nil)
	if diff := cmp.Diff(said, made.GetConnection().GetSpec(), protocmp.Transform()); diff != "" || len(made.GetConnection().GetWarnings()) > 0 {
		t.Error(diff, made.GetConnection().GetWarnings())
	}
	edited, _ := rest[*pb.UpdateConnectionResponse](t, h, doReroute, &pb.UpdateConnectionRequest{
		Name: "wiki", Spec: &pb.ConnectionSpec{TokenEndpoint: "http://tokens.example/token"}, UpdateMask: mask("token_endpoint", "step_up_scopes"),
	}, nil)
	said.TokenEndpoint, said.StepUpScopes = "http://tokens.example/token", nil
	if diff := cmp.Diff(said, edited.GetConnection().GetSpec(), protocmp.Transform()); diff != "" || len(edited.GetConnection().GetWarnings()) != 1 {
		t.Error(diff, edited.GetConnection().GetWarnings())
	}
}

// Pages go on by name, and a token belongs to its list.
func TestPagesOfConnections(t *testing.T) {
	t.Parallel()
	h := open(t)
	for i := range 5 {
		rest[*pb.CreateConnectionResponse](t, h, doConnect, &pb.CreateConnectionRequest{Name: fmt.Sprintf("c%d", i), Spec: spec()}, nil)
	}
	var names []string
	token := ""
	for range 4 {
		page, _ := rest[*pb.ListConnectionsResponse](t, h, doWays, &pb.ListConnectionsRequest{PageSize: 2, PageToken: token}, nil)
		for _, c := range page.GetConnections() {
			names = append(names, c.GetName())
		}
		if page.GetTotalSize() != 5 {
			t.Errorf("there are %d", page.GetTotalSize())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
		if o := ways["REST"](t, h, admin(alpha), doFormer, &pb.ListConnectionVersionsRequest{Name: "c1", PageToken: token}, nil); o.reason != string(registry.ReasonInvalidPageToken) {
			t.Errorf("its token in another list comes to %+v", o)
		}
	}
	if !slices.Equal(names, []string{"c0", "c1", "c2", "c3", "c4"}) {
		t.Errorf("the pages have %v", names)
	}
}
