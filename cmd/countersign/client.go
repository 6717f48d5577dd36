package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"countersign/cmd/internal/app"
	"countersign/proto/countersign/registry/v1/registryv1connect"
	"countersign/registry"
)

// defaultServer is where countersign-dev and serve listen when told nothing else.
const defaultServer = "http://127.0.0.1:8080"

const (
	idempotencyKey   = "Idempotency-Key"
	retryPause       = 250 * time.Millisecond
	maxRetryPause    = 2 * time.Second
	maxPatience      = time.Minute // with an API that says that there are too many requests
	maxResponseBytes = 128 << 20   // a catalog of the largest size that a discovery accepts fits
)

// connection is where the API is and with which token it is asked.
type connection struct {
	server    string // without a slash at the end
	token     string
	tokenFrom string // for people: where the token came from
	signedIn  string // the context of a sign-in that the token came by
	transport http.RoundTripper
}

// connection decides, in this order: flags, a context named by --context, the
// environment, the current context, the default. The token of a context goes
// to the server of that context only.
func (c *cli) connection() (connection, error) {
	saved, named, err := c.savedContext()
	if err != nil {
		return connection{}, err
	}
	var out connection
	fromContext := false
	switch env := c.getenv("COUNTERSIGN_SERVER"); {
	case c.server != "":
		out.server, err = parseServer("--server", c.server)
	case saved.Server != "" && (named || env == ""):
		out.server, err = parseServer("context "+saved.Name, saved.Server)
		fromContext = true
	case env != "":
		out.server, err = parseServer("COUNTERSIGN_SERVER", env)
	default:
		out.server = defaultServer
	}
	if err == nil {
		out.transport, err = c.transport(saved, named, fromContext)
	}
	if err != nil {
		return connection{}, err
	}
	out.token, out.tokenFrom, err = c.findToken(saved, named, fromContext)
	if err == nil && out.token == "" && c.context == "" {
		// Who signed in at a server is signed in there, however it is named.
		saved, err = c.signedInAt(out.server)
		out.token, out.tokenFrom = saved.Token, "context "+saved.Name
		if err == nil && saved.Name != "" {
			out.transport, err = c.transport(saved, false, true)
		}
	}
	if saved.Login != nil && out.tokenFrom == "context "+saved.Name {
		out.signedIn = saved.Name
	}
	return out, err
}

// signedInAt gives the context by which somebody is signed in at a server: the
// current one if it is that server's, else the only one of the server; an empty
// one when there is none. Who signed out of the current one is not somebody
// else from then on.
func (c *cli) signedInAt(server string) (savedContext, error) {
	f, err := c.loadContexts()
	if err != nil {
		return savedContext{}, err
	}
	var found []savedContext
	for _, s := range f.Contexts {
		switch {
		case strings.TrimRight(s.Server, "/") != server:
		case s.Name == f.Current && s.Login == nil:
			return savedContext{}, nil
		case s.Name == f.Current:
			return s, nil
		case s.Login != nil:
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return savedContext{}, nil
	}
	return found[0], nil
}

// savedContext gives the context that counts, which is empty when there is
// none, and whether --context named it.
func (c *cli) savedContext() (saved savedContext, named bool, err error) {
	if c.context == "" && c.server != "" {
		return savedContext{}, false, nil
	}
	f, err := c.loadContexts()
	if err != nil {
		return savedContext{}, false, err
	}
	name := c.context
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return savedContext{}, false, nil
	}
	saved, err = f.find(name)
	return saved, c.context != "", err
}

func (c *cli) findToken(saved savedContext, named, fromContext bool) (token, from string, err error) {
	env := c.getenv("COUNTERSIGN_TOKEN")
	switch {
	case c.token != "":
		from = "--token"
		token, err = checkToken(c.token, from)
	case c.tokenFile != "":
		from = c.tokenFile
		token, err = readToken(c.tokenFile)
	case env != "" && (!named || !fromContext || saved.tokenFrom() == "none"):
		from = "COUNTERSIGN_TOKEN"
		token, err = checkToken(env, from)
	case !fromContext || saved.tokenFrom() == "none":
		return "", "", nil
	case saved.Token != "":
		from = "context " + saved.Name
		token, err = checkToken(saved.Token, from)
	case saved.TokenFile != "":
		from = saved.TokenFile
		token, err = readToken(saved.TokenFile)
	default:
		from = saved.TokenEnv
		token, err = checkToken(c.getenv(saved.TokenEnv), from)
	}
	return token, from, err
}

// parseServer checks the URL of an API and takes the slash from its end.
func parseServer(from, text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("%s: %q is not the URL of an API, such as %s", from, text, defaultServer)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// api is the API of one Countersign.
type api struct {
	servers  registryv1connect.McpServerServiceClient
	catalog  registryv1connect.ToolCatalogServiceClient
	registry registryv1connect.McpRegistryServiceClient
	identity registryv1connect.IdentityServiceClient

	approvals   registryv1connect.ApprovalServiceClient
	policies    registryv1connect.PolicyServiceClient
	audit       registryv1connect.AuditServiceClient
	events      registryv1connect.EventServiceClient
	connections registryv1connect.ConnectionServiceClient
	providers   registryv1connect.ToolProviderServiceClient
}

// connect makes the clients of the API; nothing is sent yet.
func (c *cli) connect() (*api, error) {
	where, err := c.connection()
	if err != nil {
		return nil, err
	}
	return c.clients(where), nil
}

// call makes what a command does of what it does with the API: in the usual time,
// or --timeout.
func (c *cli) call(usual time.Duration, do func(ctx context.Context, api *api, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := c.within(cmd.Context(), usual)
		defer cancel()
		api, err := c.connect()
		if err != nil {
			return err
		}
		return do(ctx, api, args)
	}
}

// clients makes the clients of an API.
func (c *cli) clients(where connection) *api {
	if where.token != "" && exposed(where.server) {
		c.notef("warning: the token goes to %s unencrypted", where.server)
	}
	client := &http.Client{
		Transport: where.transport,
		// A redirected call would carry the token to wherever the answer points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	options := connect.WithClientOptions(
		connect.WithReadMaxBytes(maxResponseBytes),
		connect.WithInterceptors(identify(c.bearer(where)), comeBack(), retryOnce()),
	)
	return &api{
		servers:  registryv1connect.NewMcpServerServiceClient(client, where.server, options),
		catalog:  registryv1connect.NewToolCatalogServiceClient(client, where.server, options),
		registry: registryv1connect.NewMcpRegistryServiceClient(client, where.server, options),
		identity: registryv1connect.NewIdentityServiceClient(client, where.server, options),

		approvals:   registryv1connect.NewApprovalServiceClient(client, where.server, options),
		policies:    registryv1connect.NewPolicyServiceClient(client, where.server, options),
		events:      registryv1connect.NewEventServiceClient(client, where.server, options),
		audit:       registryv1connect.NewAuditServiceClient(client, where.server, options),
		connections: registryv1connect.NewConnectionServiceClient(client, where.server, options),
		providers:   registryv1connect.NewToolProviderServiceClient(client, where.server, options),
	}
}

// exposed says whether a URL leads over a network without encryption.
func exposed(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback())
}

// identify says who asks, and with which program.
func identify(bearer func(context.Context) (string, error)) connect.UnaryInterceptorFunc {
	agent := "countersign/" + app.ReadBuild().Version
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("User-Agent", agent)
			token, err := bearer(ctx)
			if err != nil {
				return nil, err
			}
			if token != "" {
				request.Header().Set("Authorization", "Bearer "+token)
			}
			return next(ctx, request)
		}
	}
}

// comeBack repeats a call that the API refused because there are too many just now:
// it did nothing, and says when to come back. It gives up after maxPatience.
func comeBack() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			end := time.Now().Add(maxPatience)
			for {
				response, err := next(ctx, request)
				refused, ok := errors.AsType[*connect.Error](err)
				if !ok || reasonOf(refused) != registry.ReasonTooManyRequests {
					return response, err
				}
				pause := pauseAfter(err)
				if time.Now().Add(pause).After(end) {
					return response, err
				}
				select {
				case <-ctx.Done():
					return response, err
				case <-time.After(pause):
				}
			}
		}
	}
}

// retryOnce repeats a call that met an API which is away, once, where a repeat
// cannot do anything twice: reads, and calls with an idempotency key, which is
// the same in the repeat.
func retryOnce() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			response, err := next(ctx, request)
			safe := request.Spec().IdempotencyLevel == connect.IdempotencyNoSideEffects || request.Header().Get(idempotencyKey) != ""
			if connect.CodeOf(err) != connect.CodeUnavailable || !safe {
				return response, err
			}
			select {
			case <-ctx.Done():
				if first, told := errors.AsType[*connect.Error](err); told && connect.IsWireError(first) {
					return response, &vainRepeatError{connect.NewError(connect.CodeDeadlineExceeded, ctx.Err()), first}
				}
				return response, err
			case <-time.After(pauseAfter(err)):
			}
			first, told := errors.AsType[*connect.Error](err)
			response, err = next(ctx, request)
			if again, ok := errors.AsType[*connect.Error](err); ok && told && connect.IsWireError(first) && reasonOf(again) == "" {
				return response, &vainRepeatError{err, first}
			}
			return response, err
		}
	}
}

// vainRepeatError is a call of which the repeat got no answer. Why the first one
// was refused is the last that is known.
type vainRepeatError struct {
	error

	first *connect.Error
}

// Unwrap gives the error of the repeat.
func (r *vainRepeatError) Unwrap() error { return r.error }

// pauseAfter is how long to wait before a repeat: what the API asks for, within
// bounds.
func pauseAfter(err error) time.Duration {
	if e, ok := errors.AsType[*connect.Error](err); ok {
		for _, detail := range e.Details() {
			if value, err := detail.Value(); err == nil {
				if info, ok := value.(*errdetails.RetryInfo); ok {
					return min(max(info.GetRetryDelay().AsDuration(), retryPause), maxRetryPause)
				}
			}
		}
	}
	return retryPause
}

// keyed gives the context of a call with an idempotency key.
func keyed(ctx context.Context, key string) context.Context {
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set(idempotencyKey, key)
	return ctx
}

// away says whether a call failed because the API is not there at the moment.
func away(err error) bool { return connect.CodeOf(err) == connect.CodeUnavailable }
