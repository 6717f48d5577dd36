package api

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"countersign/registry"
)

// intercept stands around every RPC of every face: it permits, validates, and
// gives whatever fails the form in which errors leave.
func (h *Handler) intercept(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (response connect.AnyResponse, err error) {
		c := callOf(ctx)
		if c.answered {
			// What could not be read is not to be acted upon.
			return nil, connect.NewError(connect.CodeInternal, nil)
		}
		c.reached, c.method = true, req.Spec().Procedure
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			if err != nil {
				response, err = nil, h.failed(ctx, c, req, err)
			}
		}()
		p, err := principalOf(ctx)
		if err != nil {
			return nil, err
		}
		if err := permit(p, c.method); err != nil {
			return nil, err
		}
		if access[c.method].changes() {
			if err := h.opts.Limits.change(p); err != nil {
				h.opts.Limits.hold(ctx, err)
				return nil, err
			}
		}
		m, ok := req.Any().(proto.Message)
		if !ok {
			return nil, registry.Errorf(registry.ReasonInternal, "%T is no message", req.Any())
		}
		if err := h.validate(m); err != nil {
			return nil, err
		}
		tell(ctx, p, m)
		if req.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects {
			setHeader(ctx, "Cache-Control", "private, no-cache")
		}
		return next(ctx, req)
	}
}

// interceptor stands around the RPCs of both kinds.
type interceptor struct{ h *Handler }

// WrapUnary implements connect.Interceptor.
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return i.h.intercept(next) }

// WrapStreamingClient implements connect.Interceptor; there is no client here.
func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. The request is read
// behind it, where it is validated.
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		c := callOf(ctx)
		if c.answered {
			return connect.NewError(connect.CodeInternal, nil)
		}
		c.reached, c.method = true, conn.Spec().Procedure
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			if err != nil {
				e := presentable(ctx, err, c.id)
				c.err = e
				c.log(ctx, i.h.log, e, err)
				err = connectError(e)
			}
		}()
		p, err := principalOf(ctx)
		if err != nil {
			return err
		}
		if err := permit(p, c.method); err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

// failed logs an error, audits it if it refuses a change, and makes it fit to
// leave.
func (h *Handler) failed(ctx context.Context, c *call, req connect.AnyRequest, cause error) error {
	e := presentable(ctx, cause, c.id)
	if need := access[c.method]; need.records(e.Code) && !c.sent {
		h.audit(ctx, c, need, req.Any(), e)
	}
	c.err = e
	c.log(ctx, h.log, e, cause)
	return connectError(e)
}

// validate checks a request against the rules in its proto, and against the
// proto itself: a field that we do not know is refused on every face, because a
// caller who sent one wants something that would not happen.
func (h *Handler) validate(m proto.Message) error {
	if path := unknownPath(m.ProtoReflect()); path != "" {
		return registry.Errorf(registry.ReasonUnknownField, "the request has a field that does not exist, in %s", path).
			WithField(path, "has an unknown field").WithNext("see %s in /openapi.json or by reflection", path)
	}
	if path := nulPath(m.ProtoReflect(), ""); path != "" {
		return registry.Errorf(registry.ReasonInvalidArgument, "the request is not valid").WithField(path, "holds the character NUL")
	}
	err := h.validator.Validate(m)
	if err == nil {
		return nil
	}
	violations, ok := err.(*protovalidate.ValidationError) //nolint:errorlint // that is what Validate documents
	if !ok {
		return err
	}
	e := registry.Errorf(registry.ReasonInvalidArgument, "the request is not valid")
	for _, v := range violations.Violations {
		e.WithField(protovalidate.FieldPathString(v.Proto.GetField()), "%s", inWords(v))
	}
	return e
}

// unknownPath gives the name of the message, at any depth, that has fields that
// its descriptor lacks; "" when there is none.
func unknownPath(m protoreflect.Message) string {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	found := ""
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					found = unknownPath(v.Message())
					return found == ""
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				found = unknownPath(v.List().Get(i).Message())
			}
		default:
			found = unknownPath(v.Message())
		}
		return found == ""
	})
	return found
}

// nulPath gives the path of a text that holds NUL, which no database keeps and
// nobody sees; "" when there is none.
func nulPath(m protoreflect.Message, path string) string {
	found := ""
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := path + string(fd.Name())
		switch {
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if strings.ContainsRune(k.String()+v.String(), 0) {
					found = name
				}
				return found == ""
			})
		case fd.IsList() && fd.Message() == nil:
			for i := 0; i < v.List().Len() && found == ""; i++ {
				found = nulIn(v.List().Get(i), fd, name)
			}
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				found = nulPath(v.List().Get(i).Message(), fmt.Sprintf("%s[%d].", name, i))
			}
		case fd.Message() != nil:
			found = nulPath(v.Message(), name+".")
		default:
			found = nulIn(v, fd, name)
		}
		return found == ""
	})
	return found
}

func nulIn(v protoreflect.Value, fd protoreflect.FieldDescriptor, name string) string {
	if fd.Kind() == protoreflect.StringKind && strings.ContainsRune(v.String(), 0) {
		return name
	}
	return ""
}

// setHeader sets a header of the answer, on every face.
func setHeader(ctx context.Context, key, value string) {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		info.ResponseHeader().Set(key, value)
	}
}

// requestHeader gives the values of a header of the request, on every face.
func requestHeader(ctx context.Context, key string) []string {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		return info.RequestHeader().Values(key)
	}
	return nil
}
