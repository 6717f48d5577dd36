package oauth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/oauth2"

	"countersign/registry"
)

// phase is the fact "phase" of every error from here.
const phase = "authorize"

// away is an issuer, or what stands between it and us, that does not answer as it
// should. Trying again may help, and the server has no part in it.
func (c *Credential) away(what, cause string, err error) *registry.Error {
	e := registry.Errorf(registry.ReasonDependency, "the issuer cannot be asked for %s: %s", what, cause)
	e.Err = err
	return e.With("phase", phase).With("issuer", c.o.Issuer).
		WithNext("see that the issuer answers; the server itself is not at fault, and nothing of it changes meanwhile")
}

// exchange words an exchange with the issuer that did not come about.
func (c *Credential) exchange(ctx context.Context, what string, err error) *registry.Error {
	cause, next := "no answer", ""
	known, ok := registry.AsError(err)
	switch {
	case ctx.Err() != nil:
		cause = "it did not answer in time"
	case ok:
		cause, next = known.Message, known.Next
	}
	e := c.away(what, cause, err)
	if ok {
		e.With("cause", string(known.Reason))
	}
	if next != "" {
		e.Next = next
	}
	return e
}

// status words an answer of the issuer that says only that it cannot answer.
func (c *Credential) status(what string, status int) *registry.Error {
	return c.away(what, "it answers "+strconv.Itoa(status), nil).With("cause", "status").With("status", strconv.Itoa(status))
}

// passing says whether a status is one that goes by itself.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// fault is one that somebody must mend.
func (c *Credential) fault(reason registry.Reason, format string, args ...any) *registry.Error {
	return registry.Errorf(reason, format, args...).With("phase", phase).With("issuer", c.o.Issuer)
}

// codes are the errors of token endpoints, and what they are here (RFC 6749, section
// 5.2; RFC 8707, section 2; RFC 8628 and others have none that comes here).
var codes = map[string]struct {
	reason registry.Reason
	means  string
	next   string
}{
	"invalid_client":         {registry.ReasonInvalidClient, "it does not know the client, or not by this secret or key", "correct the connection's client id, and its secret or key, to what is registered at the issuer"},
	"unauthorized_client":    {registry.ReasonInvalidClient, "the client may not get tokens in this way", "allow the client this grant at the issuer, or choose another kind of authentication for the connection"},
	"invalid_grant":          {registry.ReasonInvalidClient, "it does not take the token that stands for us", "see that the issuer trusts whoever made that token, and that it is made for the issuer and still good"},
	"unsupported_grant_type": {registry.ReasonUnsupportedGrant, "it does not give tokens in this way", "choose a kind of authentication for the connection that the issuer offers"},
	"invalid_target":         {registry.ReasonInvalidTarget, "it gives no tokens for this server", "register the server's URL as a resource (audience) at the issuer, or correct the connection's URL"},
	"invalid_scope":          {registry.ReasonInvalidScope, "it does not give these scopes", "correct the connection's scopes, or allow them to the client at the issuer"},
	"access_denied":          {registry.ReasonInvalidScope, "it denies the client this access", "allow the client access to the server at the issuer"},
	"invalid_request":        {registry.ReasonInvalidTokenAnswer, "it finds the request wrong", "see in the issuer's log what it misses"},
}

// refused words what a token endpoint answered instead of a token.
func (c *Credential) refused(ctx context.Context, err error) *registry.Error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if _, known := registry.AsError(err); known || ctx.Err() != nil || transport(err) {
			return c.exchange(ctx, "a token", err)
		}
		return c.garbled("it is no JSON object with an access_token")
	}
	status := 0
	if answer.Response != nil {
		status = answer.Response.StatusCode
	}
	known, ok := codes[answer.ErrorCode]
	switch {
	case ok:
		return c.fault(known.reason, "the issuer gives no token: %s (%s)", known.means, answer.ErrorCode).
			With("error", answer.ErrorCode).With("status", strconv.Itoa(status)).WithNext("%s", known.next)
	case passing(status) || slices.Contains([]string{"temporarily_unavailable", "server_error", "slow_down"}, answer.ErrorCode):
		return c.status("a token", status)
	case status >= 300 && status <= 399:
		return c.garbled("it points elsewhere; redirects are not followed").With("status", strconv.Itoa(status))
	case status == http.StatusUnauthorized:
		unknown := codes["invalid_client"]
		return c.fault(unknown.reason, "the issuer gives no token: %s (401)", unknown.means).
			With("status", strconv.Itoa(status)).WithNext("%s", unknown.next)
	}
	return c.garbled("it answers "+cmp.Or(strconv.Itoa(status), "nothing")).With("status", strconv.Itoa(status))
}

// garbled words an answer that is none.
func (c *Credential) garbled(why string) *registry.Error {
	return c.fault(registry.ReasonInvalidTokenAnswer, "the issuer's answer to the request for a token cannot be used: %s", why).
		WithNext("see that the issuer's token endpoint is right and speaks OAuth 2.1")
}

// transport says whether an error is one of the way to the issuer.
func transport(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok
}
