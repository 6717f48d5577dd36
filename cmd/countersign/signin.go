package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/rogpeppe/go-internal/lockedfile"
	"golang.org/x/oauth2"

	"countersign/registry"
)

// savedLogin is what is kept of a sign-in besides the token.
type savedLogin struct {
	Issuer   string    `yaml:"issuer"`
	ClientID string    `yaml:"client_id"`
	Refresh  string    `yaml:"refresh_token,omitempty"`
	Expires  time.Time `yaml:"expires,omitempty"` // of the token
}

// renewBefore is how long before its end a token is renewed: it has to last for
// the call.
const renewBefore = 30 * time.Second

// issuerTimeout bounds one request to an issuer.
const issuerTimeout = 20 * time.Second

// place is where one signs in, as an API says it.
type place struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
}

// signInAgain says what helps when a sign-in has ended.
func signInAgain(context string) string { return "countersign login --context " + context }

// issuerClient asks issuers. It follows no redirect: what is sent there is for
// nobody else.
func issuerClient(ctx context.Context) *http.Client {
	return &http.Client{
		Transport:     transportOf(ctx),
		Timeout:       issuerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// places asks an API where one signs in.
func (c *cli) places(ctx context.Context, server string) ([]place, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/.well-known/countersign", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := issuerClient(ctx).Do(request)
	if err != nil {
		return nil, failf(registry.ReasonDependency, "cannot reach %s: %s", server, cause(err)).
			withNext("start Countersign there, or say where it is by --server, COUNTERSIGN_SERVER or a context")
	}
	defer response.Body.Close()
	var answer struct {
		Issuers []place `json:"issuers"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		return nil, (&failure{Exit: exitFailure, Message: server + " does not answer like a Countersign API"}).withNext("%s", elsewhere)
	}
	return answer.Issuers, nil
}

// issuerOf reads what an issuer says of itself, and makes the client of the
// code flow there.
func issuerOf(ctx context.Context, at place) (*oidc.Provider, *oauth2.Config, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, issuerClient(ctx)), at.Issuer)
	if err != nil {
		return nil, nil, failf(registry.ReasonDependency, "the issuer %s does not answer as one: %s", at.Issuer, cause(err))
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret to put into a header
	for what, text := range map[string]string{"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL} {
		if err := checkIssuerURL("the "+what+" of "+at.Issuer, text); err != nil {
			return nil, nil, err
		}
	}
	return provider, &oauth2.Config{ClientID: at.ClientID, Endpoint: endpoint, Scopes: at.Scopes}, nil
}

// checkIssuerURL refuses to sign in by way of anything but https, or http on
// this machine: no scheme that a browser would run, and no open network.
func checkIssuerURL(what, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || exposed(text)) {
		return failf(registry.ReasonInvalidArgument, "%s is %q: https is needed", what, text)
	}
	return nil
}

// bearer gives the token of a call. One of a sign-in is renewed when it is about
// to end.
func (c *cli) bearer(where connection) func(context.Context) (string, error) {
	if where.signedIn == "" {
		return func(context.Context) (string, error) { return where.token, nil }
	}
	var mu sync.Mutex
	var token string
	var until time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token != "" && c.now().Before(until) {
			return token, nil
		}
		saved, err := c.renewed(speaking(ctx, where.transport), where.signedIn)
		if err != nil {
			return "", err
		}
		token, until = saved.Token, saved.Login.Expires.Add(-renewBefore)
		return token, nil
	}
}

// renewed gives a context with a token that is good for a while, if that can be
// had. Several programs may want it at once, and a refresh token works once: so
// one of them renews it and the others take what it got.
func (c *cli) renewed(ctx context.Context, name string) (savedContext, error) {
	path, err := c.contextsPath()
	if err != nil {
		return savedContext{}, err
	}
	if _, saved, err := c.reload(name); err != nil || !c.due(saved) {
		return saved, err
	}
	unlock, err := lockedfile.MutexAt(path + ".lock").Lock()
	if err != nil {
		return savedContext{}, fmt.Errorf("locking the contexts: %w", err)
	}
	defer unlock()
	f, saved, err := c.reload(name)
	if err != nil || !c.due(saved) {
		return saved, err
	}
	fresh, err := refresh(ctx, *saved.Login)
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode != "" {
			return saved, failf(registry.ReasonUnauthenticated, "the sign-in of context %s has ended: %s", name, refused.ErrorCode).
				withNext("%s", signInAgain(name))
		}
		if told, ok := errors.AsType[*failure](err); ok {
			return saved, told
		}
		return saved, failf(registry.ReasonDependency, "the token of context %s cannot be renewed: %s", name, cause(err))
	}
	saved = saved.with(fresh)
	f.Contexts[slices.IndexFunc(f.Contexts, func(s savedContext) bool { return s.Name == name })] = saved
	return saved, c.saveContexts(f)
}

// reload reads a context as it is now.
func (c *cli) reload(name string) (*contextsFile, savedContext, error) {
	f, err := c.loadContexts()
	if err != nil {
		return nil, savedContext{}, err
	}
	saved, err := f.find(name)
	if err == nil && saved.Login == nil {
		err = failf(registry.ReasonUnauthenticated, "somebody signed out of context %s", name).withNext("%s", signInAgain(name))
	}
	return f, saved, err
}

// due says whether a token has to be renewed, and can be.
func (c *cli) due(s savedContext) bool {
	return s.Login.Refresh != "" && !s.Login.Expires.IsZero() && !c.now().Before(s.Login.Expires.Add(-renewBefore))
}

// with is the context with what an issuer gave.
func (s savedContext) with(fresh *oauth2.Token) savedContext {
	login := *s.Login
	login.Expires = fresh.Expiry.UTC().Truncate(time.Second)
	if fresh.RefreshToken != "" { // else the old one goes on
		login.Refresh = fresh.RefreshToken
	}
	s.Token, s.TokenFile, s.TokenEnv, s.Login = fresh.AccessToken, "", "", &login
	return s
}

// refresh gets another token by the refresh token (RFC 6749, section 6).
func refresh(ctx context.Context, l savedLogin) (*oauth2.Token, error) {
	_, config, err := issuerOf(ctx, place{Issuer: l.Issuer, ClientID: l.ClientID})
	if err != nil {
		return nil, err
	}
	return config.TokenSource(oidc.ClientContext(ctx, issuerClient(ctx)), &oauth2.Token{RefreshToken: l.Refresh}).Token()
}

// revoke tells an issuer that a sign-in is over (RFC 7009), if it listens.
func revoke(ctx context.Context, l savedLogin) error {
	provider, _, err := issuerOf(ctx, place{Issuer: l.Issuer, ClientID: l.ClientID})
	if err != nil {
		return err
	}
	var document struct {
		Revocation string `json:"revocation_endpoint"`
	}
	if err := provider.Claims(&document); err != nil || document.Revocation == "" {
		return err
	}
	if err := checkIssuerURL("the revocation_endpoint of "+l.Issuer, document.Revocation); err != nil {
		return err
	}
	form := url.Values{"token": {l.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {l.ClientID}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, document.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := issuerClient(ctx).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answers %s", response.Status)
	}
	return nil
}
