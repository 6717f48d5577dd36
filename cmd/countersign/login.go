package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// loginTimeout is how long somebody may take to sign in.
const loginTimeout = 5 * time.Minute

// callbackPath is where the browser comes back to.
const callbackPath = "/callback"

// signingIn is what the flags of login say.
type signingIn struct {
	issuer, client string
	scopes         []string
	port           int
	noBrowser      bool
}

func newLoginCommand(c *cli) *cobra.Command {
	var l signingIn
	command := &cobra.Command{
		Use:   "login",
		Short: "Sign in with a browser, and keep the token in a context",
		Long: `Signs in with a browser at the issuer that the API names, and keeps the token in
a context, which becomes the current one: the one of --context, else the one of
the server, else a new one that is named after it. The token is renewed as long
as the issuer allows.

The browser comes back to this machine on loopback. On a machine without one, use
--no-browser and a forwarded port: ssh -L PORT:127.0.0.1:PORT, --port PORT.`,
		Example: "  countersign login --server https://countersign.example.com",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.within(cmd.Context(), loginTimeout)
			defer cancel()
			return c.login(ctx, l)
		},
	}
	f := command.Flags()
	f.StringVar(&l.issuer, "issuer", "", "`URL` of the issuer, when there are several or the API names none")
	f.StringVar(&l.client, "client-id", "", "`ID` of this program at the issuer (default what the API says)")
	f.StringSliceVar(&l.scopes, "scopes", nil, "`SCOPES` to ask the issuer for (default what the API says)")
	f.IntVar(&l.port, "port", 0, "`PORT` on loopback to which the browser comes back (default any)")
	f.BoolVar(&l.noBrowser, "no-browser", false, "only say which address to open")
	return command
}

func (c *cli) login(ctx context.Context, l signingIn) error {
	if c.token != "" || c.tokenFile != "" {
		return usagef("login gets a token: --token and --token-file have no place here")
	}
	f, err := c.loadContexts()
	if err != nil {
		return err
	}
	saved, err := c.contextToSignIn(f)
	if err != nil {
		return err
	}
	if exposed(saved.Server) {
		return usagef("%s is not encrypted: no token is sent there", saved.Server)
	}
	if before, err := f.find(saved.Name); err == nil && strings.TrimRight(before.Server, "/") != saved.Server {
		saved.Certificates = certificateFiles{} // they were for another server
	}
	given, err := c.files.absolute()
	if err != nil {
		return err
	}
	saved.Certificates = given.over(saved.Certificates)
	transport, err := c.transport(saved, c.context != "", true)
	if err != nil {
		return err
	}
	ctx = speaking(ctx, transport)
	at, err := c.choosePlace(ctx, saved.Server, l)
	if err != nil {
		return err
	}
	token, err := c.authorize(ctx, at, saved.Server, l)
	if err != nil {
		return err
	}
	// What the API does not take is not kept.
	who, err := c.clients(connection{server: saved.Server, token: token.AccessToken, transport: transport}).identity.WhoAmI(ctx, &registryv1.WhoAmIRequest{})
	if err != nil {
		f := c.failureOf(err)
		f.Message = saved.Server + " does not take the token of " + at.Issuer + ": " + f.Message
		f.Next = "ask the operator to compare auth.issuers in the configuration with what the issuer gives out"
		return f
	}
	saved.Login = &savedLogin{Issuer: at.Issuer, ClientID: at.ClientID}
	saved = saved.with(token)
	if f, err = c.loadContexts(); err != nil { // it took minutes
		return err
	}
	if i := slices.IndexFunc(f.Contexts, func(s savedContext) bool { return s.Name == saved.Name }); i >= 0 {
		f.Contexts[i] = saved
	} else {
		f.Contexts = append(f.Contexts, saved)
	}
	f.Current = saved.Name
	if err := c.saveContexts(f); err != nil {
		return err
	}
	c.notef("signed in; the current context is %s", saved.Name)
	if c.getenv("COUNTERSIGN_TOKEN") != "" {
		c.notef("warning: COUNTERSIGN_TOKEN is set and goes before the current context")
	}
	return c.showWho(who)
}

// contextToSignIn gives the context that the token is for: a saved one, or one
// that is to be made.
func (c *cli) contextToSignIn(f *contextsFile) (savedContext, error) {
	name := c.context
	env := c.getenv("COUNTERSIGN_SERVER")
	if name == "" && c.server == "" && env == "" {
		name = f.Current
	}
	saved, err := f.find(name)
	known := err == nil
	server := saved.Server
	switch {
	case c.server != "":
		server, err = parseServer("--server", c.server)
	case known:
		server, err = parseServer("context "+name, server)
	case env != "":
		server, err = parseServer("COUNTERSIGN_SERVER", env)
	default:
		server, err = defaultServer, nil
	}
	if err != nil {
		return savedContext{}, err
	}
	if name == "" {
		// The current one goes before others of the same server.
		for _, s := range f.Contexts {
			if strings.TrimRight(s.Server, "/") == server && (name == "" || s.Name == f.Current) {
				saved, name = s, s.Name
			}
		}
	}
	if name == "" {
		u, err := url.Parse(server)
		if err != nil {
			return savedContext{}, err
		}
		name = u.Host
	}
	if printable(name) != name || strings.TrimSpace(name) == "" {
		return savedContext{}, usagef("%q is no name for a context", name)
	}
	saved.Name, saved.Server = name, server
	return saved, nil
}

// choosePlace decides where to sign in: what the flags say, else the one that
// the API names.
func (c *cli) choosePlace(ctx context.Context, server string, l signingIn) (place, error) {
	at := place{Issuer: l.issuer, ClientID: l.client, Scopes: l.scopes}
	if at.Issuer == "" || at.ClientID == "" {
		all, err := c.places(ctx, server)
		if err != nil {
			return at, err
		}
		var names []string
		all = slices.DeleteFunc(all, func(p place) bool { return l.issuer != "" && p.Issuer != l.issuer })
		for _, p := range all {
			names = append(names, p.Issuer)
		}
		switch {
		case len(all) == 0:
			return at, (&failure{Exit: exitAuth, Reason: registry.ReasonUnauthenticated, Message: server + " names no issuer to sign in at"}).
				withNext("give --issuer URL and --client-id ID, or keep a token in a context: countersign config set-context --help")
		case len(all) > 1:
			return at, usagef("%s names several issuers: %s", server, strings.Join(names, ", ")).withNext("choose one by --issuer URL")
		}
		at.Issuer = all[0].Issuer
		if at.ClientID == "" {
			at.ClientID = all[0].ClientID
		}
		if len(at.Scopes) == 0 {
			at.Scopes = all[0].Scopes
		}
	}
	return at, checkIssuerURL("the issuer", at.Issuer)
}

// answer is what came back with the browser.
type answer struct {
	code string
	err  error
}

// authorize runs the authorization code flow with PKCE (RFC 6749, section 4.1;
// RFC 7636; RFC 8252) and gives the tokens.
func (c *cli) authorize(ctx context.Context, at place, server string, l signingIn) (*oauth2.Token, error) {
	provider, config, err := issuerOf(ctx, at)
	if err != nil {
		return nil, err
	}
	var document struct {
		NamesItself bool `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)))
	if err != nil {
		return nil, failf(registry.ReasonInvalidArgument, "the browser cannot come back: %s", cause(err)).withNext("choose another --port")
	}
	config.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	answers := make(chan answer, 1)
	back := &http.Server{
		Handler: callback(state, at.Issuer, document.NamesItself, answers), ReadHeaderTimeout: 10 * time.Second,
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = back.Serve(listener) // it ends when we are done
	}()
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = back.Shutdown(done) // the browser has its page, or will not get one
		_ = back.Close()
		<-ended
	}()
	c.invite(ctx, config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), at, server, l.noBrowser)
	var came answer
	select {
	case came = <-answers:
	case <-ctx.Done():
		return nil, failf(registry.ReasonDeadline, "nobody signed in within %s", c.limit(loginTimeout))
	}
	if came.err != nil {
		return nil, came.err
	}
	token, err := config.Exchange(oidc.ClientContext(ctx, issuerClient(ctx)), came.code, oauth2.VerifierOption(verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode != "" {
			return nil, failf(registry.ReasonUnauthenticated, "the issuer %s gives no token: %s", at.Issuer, some(": ", refused.ErrorCode, refused.ErrorDescription))
		}
		return nil, failf(registry.ReasonDependency, "the issuer %s gives no token: %s", at.Issuer, cause(err))
	}
	return token, checkID(ctx, provider, at, token, nonce)
}

// checkID makes sure that the tokens are those of this sign-in, by the ID token
// that belongs to them (OpenID Connect Core 1.0, section 3.1.3.7).
func checkID(ctx context.Context, provider *oidc.Provider, at place, token *oauth2.Token, nonce string) error {
	if !slices.Contains(at.Scopes, oidc.ScopeOpenID) {
		return nil // plain OAuth has none; PKCE and the state stand for it
	}
	refused := func(why string) error {
		return failf(registry.ReasonUnauthenticated, "the answer of the issuer %s is not for this sign-in: %s", at.Issuer, why)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return refused("it has no ID token")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: at.ClientID}).Verify(oidc.ClientContext(ctx, issuerClient(ctx)), raw)
	if err != nil {
		return refused("its ID token is not valid")
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return refused("its ID token is another's")
	}
	return nil
}

// callback takes the browser back. What does not have the state is not ours and
// changes nothing.
func callback(state, issuer string, namesItself bool, answers chan<- answer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "This is not the sign-in that the command waits for.", http.StatusBadRequest)
			return
		}
		came := answer{code: q.Get("code")}
		switch from := q.Get("iss"); {
		case from != "" && from != issuer, from == "" && namesItself: // RFC 9207
			came.err = failf(registry.ReasonUnauthenticated, "another issuer answered than the one that was asked")
		case q.Get("error") != "":
			came.err = failf(registry.ReasonUnauthenticated, "the issuer %s refuses: %s", issuer, some(": ", q.Get("error"), q.Get("error_description")))
		case came.code == "":
			came.err = failf(registry.ReasonUnauthenticated, "the issuer %s gives no code", issuer)
		}
		if came.err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("You are not signed in. The command says why.\n")) // the browser went away
		} else {
			_, _ = w.Write([]byte("You are signed in. This window can be closed.\n"))
		}
		select {
		case answers <- came:
		default: // the first answer counts
		}
	})
	return mux
}

// invite opens the address in a browser, and says it in any case.
func (c *cli) invite(ctx context.Context, address string, at place, server string, noBrowser bool) {
	c.notef("signing in to %s at %s", server, at.Issuer)
	if !noBrowser && browse(ctx, address) == nil {
		c.notef("if no browser opens, open:")
	} else {
		c.notef("open this address in a browser of this machine:")
	}
	// Also when quiet: without it nobody could go on.
	_, _ = c.stderr.Write([]byte(printable(address) + "\n")) // standard error is gone
}

// browse opens an http or https address in a browser; no shell sees it.
func browse(ctx context.Context, address string) error {
	if err := checkIssuerURL("the address", address); err != nil {
		return err
	}
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), name, args...) //nolint:gosec // the program is one of three, and the address was checked
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }() // a browser may stay, and may fail; the address was said
	return nil
}
