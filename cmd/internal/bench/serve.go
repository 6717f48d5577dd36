package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"connectrpc.com/connect"

	"countersign/api"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// served says what a process serves.
type served struct {
	Database string
	Tenants  []string // each has the token "token-of-TENANT"
}

func init() { parts["serve"] = serve } //nolint:gochecknoinits // a part is known by its file

// token is the bearer of everything in a tenant.
func token(tenant string) string { return "token-of-" + tenant + "-0123456789abcdef" }

// baseline is the agent whose questions are answered from memory, behind
// everything that all questions pass.
const baseline = "baseline"

// serve is the API of the product on a port of its own; it says which.
func serve(args []string) error {
	in, err := arguments[served](args)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	d, err := open(ctx, in.Database)
	if err != nil {
		return err
	}
	defer d.Close()
	o := api.AuthOptions{}
	for _, tenant := range in.Tenants {
		o.Tokens = append(o.Tokens, api.Token{Token: token(tenant), Tenant: tenant, Subject: "bench", Roles: registry.Roles(), Scopes: []registry.Scope{registry.ScopeRead, registry.ScopeAdmin, registry.ScopeInternal}})
	}
	auth, err := api.NewAuthenticator(o)
	if err != nil {
		return err
	}
	handler, err := api.New(api.Options{
		DB: d, Workflows: workflows.Client{}, Auth: auth, Log: slog.New(slog.DiscardHandler), Inner: &remember{},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, listener, handler) }()
	err = answerLines("http://"+listener.Addr().String(), nil)
	stop()
	return errors.Join(err, <-ended)
}

// remember answers the baseline's questions with the last answer that anybody
// else got.
type remember struct {
	last atomic.Pointer[pb.ResolveToolResponse]
}

// WrapUnary implements connect.Interceptor.
func (m *remember) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ask, resolves := req.Any().(*pb.ResolveToolRequest)
		if resolves && ask.GetAgent() == baseline {
			return connect.NewResponse(m.last.Load()), nil
		}
		r, err := next(ctx, req)
		if resolves && err == nil && m.last.Load() == nil {
			if answer, ok := r.Any().(*pb.ResolveToolResponse); ok {
				m.last.Store(answer)
			}
		}
		return r, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (*remember) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (*remember) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
