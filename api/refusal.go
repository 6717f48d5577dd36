package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"countersign/db"
	"countersign/policy"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// auditTimeout is how long the record of a refusal may take.
const auditTimeout = 5 * time.Second

// records says whether a refusal with this code is audited. Not refused is what
// was not found, not reached, or asked by nobody knows whom. A decision is
// recorded also when it cannot be understood (R122); of other changes, a slip of
// the pen is nobody's business.
func (r rule) records(code registry.Code) bool {
	switch code {
	case registry.CodeForbidden, registry.CodePrecondition, registry.CodeAborted:
		return r.changes()
	case registry.CodeInvalid:
		return r.decision != ""
	case registry.CodeAlreadyExists, registry.CodeKeyReused:
		return r.change != ""
	default:
		return false
	}
}

// action is how the audit names what an RPC does.
func (r rule) action() string {
	if r.decision != "" {
		return string(r.decision)
	}
	return r.change
}

// audit records a change that was refused here, before the workflows or the
// store heard of it: for want of a role or scope, or because of what is so
// already. What they refuse they record themselves. Only what is about the
// caller's tenant is recorded; the rest is about nothing.
func (h *Handler) audit(ctx context.Context, c *call, need rule, request any, refused *registry.Error) {
	d, err := h.desk(ctx)
	if err != nil {
		return
	}
	// Who went away meanwhile is recorded all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	e, err := h.subject(ctx, d, request)
	if err == nil && e != nil {
		op := d.operation(need.action(), "", "")
		e.Actor, e.Roles, e.Origin, e.Action, e.OperationID = op.Actor.Subject, op.Actor.Roles, op.Origin, op.Name, op.ID
		e.Reason, e.Note = refused.Reason, refused.Message
		err = d.store.AuditRefusal(ctx, *e)
	}
	if err != nil && registry.CodeOf(err) != registry.CodeNotFound {
		h.log.LogAttrs(ctx, slog.LevelError, "a refused change could not be recorded", slog.String("request_id", c.id), slog.Any("error", err))
	}
}

// subject says what a request is about, as far as the audit of what was applied
// says it. It is nothing when the request names nothing, or what is not there. A
// name that the request brings itself is kept only when it is well formed:
// whoever may do nothing has not been asked for that yet.
func (h *Handler) subject(ctx context.Context, d desk, request any) (*db.AuditEntry, error) {
	m, ok := request.(proto.Message)
	if !ok {
		return nil, nil
	}
	if asked, ok := m.(interface{ GetServerId() string }); ok {
		if asked.GetServerId() == "" {
			return nil, nil
		}
		v, err := d.store.Server(ctx, asked.GetServerId())
		return aboutServer(&v.Server), err
	}
	wellFormed := h.validate(m) == nil
	switch m := m.(type) {
	case *pb.SetToolEnabledRequest:
		v, err := d.store.Tool(ctx, m.GetToolId())
		return aboutServer(&v.Server), err
	case *pb.SetToolRequiresApprovalRequest:
		v, err := d.store.Tool(ctx, m.GetToolId())
		return aboutServer(&v.Server), err
	case *pb.DeleteToolAssignmentRequest:
		a, err := d.store.Assignment(ctx, m.GetAssignmentId())
		return &db.AuditEntry{ObjectKind: "agent", ObjectID: a.Agent, ObjectName: a.Agent}, err
	case *pb.CreateConnectionRequest:
		return titled(wellFormed, "connection", m.GetName(), m.GetName()), nil
	case *pb.UpdateConnectionRequest:
		return d.aboutConnection(ctx, m.GetName())
	case *pb.DeleteConnectionRequest:
		return d.aboutConnection(ctx, m.GetName())
	case *pb.CreateToolProviderRequest:
		return titled(wellFormed, "provider", m.GetName(), m.GetName()), nil
	case *pb.UpdateToolProviderRequest, *pb.RefreshToolProviderRequest, *pb.EnableToolProviderRequest, *pb.DisableToolProviderRequest, *pb.DeleteToolProviderRequest:
		if named, ok := m.(interface{ GetName() string }); ok {
			return d.aboutProvider(ctx, named.GetName())
		}
	case *pb.CreateSubscriptionRequest:
		return titled(wellFormed, "subscription", m.GetSubscriptionId(), m.GetSubscriptionId()), nil
	case interface{ GetSubscriptionId() string }:
		u, err := d.store.Subscription(ctx, m.GetSubscriptionId())
		return &db.AuditEntry{ObjectKind: "subscription", ObjectID: u.SubscriptionID, ObjectName: u.SubscriptionID, VersionBefore: u.Version, VersionAfter: u.Version}, err
	case *pb.RegisterMcpServerRequest:
		return titled(wellFormed, "server", "", m.GetName()), nil
	case *pb.SetToolsEnabledRequest:
		e := titled(wellFormed, "tool", "", "")
		if wellFormed {
			e.Detail, _ = json.Marshal(map[string]any{"filter": m.GetFilter(), "search": m.GetSearch(), "tools": len(m.GetToolIds())}) //nolint:errchkjson // texts and a number marshal
		}
		return e, nil
	case *pb.CreateToolDescriptorRequest:
		return titled(wellFormed, "descriptor", m.GetDescriptorId(), m.GetDescriptorId()), nil
	case *pb.PublishToolDescriptorRequest:
		return titled(wellFormed, "descriptor", versioned(m), m.GetDescriptorId()), nil
	case *pb.DeprecateToolDescriptorRequest:
		return titled(wellFormed, "descriptor", versioned(m), m.GetDescriptorId()), nil
	case *pb.CreateToolAssignmentRequest:
		return titled(wellFormed, "agent", m.GetAgent(), m.GetAgent()), nil
	case *pb.PublishPolicyRequest:
		e := titled(false, "policy", "", "")
		if p, err := policy.Load([]byte(m.GetDocument())); err == nil && wellFormed {
			e.ObjectID, e.ObjectName = p.Ref(), p.Bundle().Name
		}
		return e, nil
	}
	return nil, nil
}

func aboutServer(s *registry.Server) *db.AuditEntry {
	return &db.AuditEntry{ObjectKind: "server", ObjectID: s.ServerID, ObjectName: s.Name, VersionBefore: s.Version, VersionAfter: s.Version}
}

func (d desk) aboutConnection(ctx context.Context, name string) (*db.AuditEntry, error) {
	v, err := d.store.ConnectionView(ctx, name, 0)
	version := int64(v.Version)
	return &db.AuditEntry{ObjectKind: "connection", ObjectID: v.Name, ObjectName: v.Name, VersionBefore: version, VersionAfter: version}, err
}

func (d desk) aboutProvider(ctx context.Context, name string) (*db.AuditEntry, error) {
	v, err := d.store.Provider(ctx, name)
	return &db.AuditEntry{ObjectKind: "provider", ObjectID: v.Name, ObjectName: v.Name, VersionBefore: v.Version, VersionAfter: v.Version}, err
}

func titled(wellFormed bool, kind, id, name string) *db.AuditEntry {
	if !wellFormed {
		return &db.AuditEntry{ObjectKind: kind}
	}
	return &db.AuditEntry{ObjectKind: kind, ObjectID: id, ObjectName: name}
}

func versioned(m interface {
	GetDescriptorId() string
	GetVersion() int64
},
) string {
	return m.GetDescriptorId() + "@" + strconv.FormatInt(m.GetVersion(), 10)
}
