package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"countersign/db"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// Times that handlers give what they wait for, when the caller gives less no
// account.
const (
	changeTimeout = 20 * time.Second  // a change to be committed
	testTimeout   = 110 * time.Second // a connection test to report: a process may take long to start
	defaultWait   = 10 * time.Second  // a discovery to end
)

// servers implements McpServerService.
type servers struct{ *Handler }

// desk is one caller's view of the registry: the tenant's store and who asks.
type desk struct {
	store     *db.Store
	principal registry.Principal
}

func (h *Handler) desk(ctx context.Context) (desk, error) {
	p, err := principalOf(ctx)
	if err != nil {
		return desk{}, err
	}
	return desk{store: h.opts.DB.Tenant(p.Tenant), principal: p}, nil
}

// operation names one change. A keyed one has the same id whenever it is asked
// for again, so that it happens once; others are new each time.
func (d desk) operation(name, key, bodyHash string) registry.Operation {
	id := uuid.NewString()
	if key != "" {
		sum := sha256.Sum256([]byte(name + "\n" + key + "\n" + bodyHash))
		id = hex.EncodeToString(sum[:16])
	}
	return registry.Operation{ID: id, Name: name, Actor: d.principal.Actor(), Origin: registry.OriginAPI}
}

// idempotencyKey gives the key that Register and Discover must come with
// (R170).
func idempotencyKey(ctx context.Context) (string, error) {
	values := requestHeader(ctx, "Idempotency-Key")
	if len(values) == 0 || values[0] == "" {
		return "", registry.Errorf(registry.ReasonIdempotencyKeyRequired, "the header Idempotency-Key is missing").
			WithNext("send a new UUID with each new request, and the same one when you repeat it")
	}
	key := values[0]
	printable := len(values) == 1 && len(key) <= registry.MaxIdempotencyKey
	for _, c := range []byte(key) {
		printable = printable && c >= ' ' && c <= '~'
	}
	if !printable {
		return "", registry.Errorf(registry.ReasonInvalidArgument, "the Idempotency-Key must be one header of at most %d printable ASCII characters", registry.MaxIdempotencyKey).
			WithNext("send a new UUID with each new request, and the same one when you repeat it")
	}
	return key, nil
}

// bodyHash is the digest of a request as it was understood, so that the same
// request has the same one on every face.
func bodyHash(m proto.Message) (string, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	return registry.BodyHash(raw), nil
}

func keyReused() error {
	return registry.Errorf(registry.ReasonIdempotencyKeyReused, "this Idempotency-Key was used before with another request").
		WithNext("use a new key for a new request")
}

// RegisterMcpServer implements McpServerService.
func (s servers) RegisterMcpServer(ctx context.Context, req *pb.RegisterMcpServerRequest) (*pb.RegisterMcpServerResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := s.registration(ctx, d, req)
	if err != nil {
		return nil, err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return nil, err
	}
	// In this order: whoever sees the server of this very key sees its claim too.
	existing, err := d.store.Server(ctx, req.GetName())
	if err != nil && registry.ReasonOf(err) != registry.ReasonServerNotFound {
		return nil, err
	}
	taken := err == nil && existing.Open()
	claimed, err := d.store.Claimed(ctx, "register", key)
	switch {
	case err != nil:
		return nil, err
	case claimed != nil && claimed.BodyHash != hash:
		return nil, keyReused()
	case claimed == nil && taken:
		// As the transaction says it to whoever comes a moment later.
		return nil, registry.Errorf(registry.ReasonServerExists, "there is a server named %s", req.GetName()).
			With("server_id", existing.ServerID).With("name", req.GetName()).
			WithNext("choose another name, or change or retire that server")
	}
	callOf(ctx).sent = true
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	out, err := s.opts.Workflows.Register(ctx, workflows.RegisterInput{
		Registration: asked, Operation: d.operation("register", key, hash), Key: key, BodyHash: hash,
	})
	if err != nil {
		return nil, err
	}
	if out.Replayed || claimed != nil { // a workflow that knows the request just gives its answer again
		setHeader(ctx, "Idempotent-Replayed", "true")
	}
	c := callOf(ctx)
	c.status, c.location = http.StatusCreated, "/factory/mcp-servers/"+out.Server.ServerID
	command, err := d.store.Command(ctx, out.Server.TargetDigest)
	if err != nil {
		return nil, err
	}
	// What the first answer said: the connection is the one of the request, in the
	// version that it had then, whatever became of it since.
	connection := registry.Connection{URL: asked.URL, DialAddress: asked.DialAddress}
	if name, version, named := out.Server.Connection(); named && asked.ConnectionName != "" {
		pinned, err := d.store.Connection(ctx, name, version)
		if err != nil {
			return nil, err
		}
		connection = *pinned
	}
	return &pb.RegisterMcpServerResponse{Server: serverOut(&db.ServerView{Server: out.Server, Connection: connection, Command: command})}, nil
}

// registration checks all that can be known before anything is written.
func (s servers) registration(ctx context.Context, d desk, req *pb.RegisterMcpServerRequest) (registry.Registration, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return registry.Registration{}, err
	}
	asked := registrationIn(req)
	asked.TenantID, asked.ServerID = d.principal.Tenant, registry.ServerID(id.String())
	bad := registry.Errorf(registry.ReasonInvalidArgument, "the registration is not valid")
	if registry.ValidServerID(asked.Name) {
		// Ids and names are asked for in one place.
		bad.WithField("name", "looks like a server id")
	}
	if err := s.policyExists(ctx, d, asked.GovernancePolicyRef, bad); err != nil {
		return asked, err
	}
	err = asked.Check(s.opts.Installation)
	if e, ok := registry.AsError(err); ok && e.Reason == registry.ReasonInvalidArgument {
		bad.Fields = append(bad.Fields, e.Fields...)
		err = nil
	}
	if len(bad.Fields) > 0 {
		return asked, bad
	}
	return asked, err
}

// GetMcpServer implements McpServerService.
func (s servers) GetMcpServer(ctx context.Context, req *pb.GetMcpServerRequest) (*pb.GetMcpServerResponse, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, req.GetServerId())
	if err != nil {
		return nil, err
	}
	return &pb.GetMcpServerResponse{Server: serverOut(&v)}, nil
}

// UpdateMcpServer implements McpServerService.
func (s servers) UpdateMcpServer(ctx context.Context, req *pb.UpdateMcpServerRequest) (*pb.UpdateMcpServerResponse, error) {
	edit, err := editIn(req)
	if err != nil {
		return nil, err
	}
	if err := edit.Check(); err != nil {
		return nil, err
	}
	if edit.GovernancePolicyRef != nil {
		d, err := s.desk(ctx)
		if err != nil {
			return nil, err
		}
		bad := registry.Errorf(registry.ReasonInvalidArgument, "the update is not valid")
		if err := s.policyExists(ctx, d, *edit.GovernancePolicyRef, bad); err != nil {
			return nil, err
		}
		if len(bad.Fields) > 0 {
			return nil, bad
		}
	}
	server, err := s.change(ctx, req.GetServerId(), "edit", func(ctx context.Context, v *db.ServerView, op registry.Operation) (registry.Server, error) {
		return s.opts.Workflows.Edit(ctx, v.Name, workflows.EditInput{Tenant: v.TenantID, ServerID: v.ServerID, Operation: op, Edit: edit})
	})
	return &pb.UpdateMcpServerResponse{Server: server}, err
}

// change brings a change to a live server and gives the server as this change
// left it, whatever others made of it since: its etag is the one to go on with.
// What is not the server's own (where it is reached, counts, the last probe) is
// as of now. About a closed one the table has the answer.
func (s servers) change(ctx context.Context, ref, name string, do func(context.Context, *db.ServerView, registry.Operation) (registry.Server, error)) (*pb.McpServer, error) {
	d, err := s.desk(ctx)
	if err != nil {
		return nil, err
	}
	v, err := d.server(ctx, ref)
	if err != nil {
		return nil, err
	}
	if !v.Open() {
		return nil, retired(&v.Server)
	}
	callOf(ctx).sent = true
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	changed, err := do(ctx, &v, d.operation(name, "", ""))
	if err != nil {
		return nil, err
	}
	if v, err = d.store.Server(ctx, v.ServerID); err != nil {
		return nil, err
	}
	v.Server = changed
	return serverOut(&v), nil
}

func retired(v *registry.Server) error {
	return registry.Errorf(registry.ReasonServerRetired, "server %s is retired", v.Name).With("server_id", v.ServerID).
		WithNext("register it again under the same name")
}
