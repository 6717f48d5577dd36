package oauth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"countersign/registry"
	"countersign/secrets"
)

// bearer is how a token is shown to a server (RFC 6750, section 2.1).
const bearer = "Bearer "

// state is what a credential learns during its use.
type state struct {
	mu       sync.Mutex
	token    token
	resource string   // what the server calls itself, as far as it is known
	pointed  string   // where it said that its metadata are
	scopes   []string // that are asked for
	renewed  bool     // a refused token was replaced
	stepped  bool     // more scopes were asked for
	known    []secrets.Value
	mask     *secrets.Mask
}

// hide adds a secret to those that are masked.
func (s *state) hide(value secrets.Value) {
	if value.Reveal() == "" || slices.ContainsFunc(s.known, func(v secrets.Value) bool { return v.Reveal() == value.Reveal() }) {
		return
	}
	s.known = append(s.known, value)
	s.mask = secrets.NewMask(s.known...)
}

// hide adds a secret to those that are masked, while others use the credential.
func (c *Credential) hide(value secrets.Value) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.hide(value)
}

// Mask hides every secret, key, assertion and token that this credential has used.
func (c *Credential) Mask(text string) string {
	c.state.mu.Lock()
	mask := c.state.mask
	c.state.mu.Unlock()
	return mask.String(text)
}

// Authorize adds a token to a request, after asking the issuer for one when there is
// none that is good. What the request had as authorization before is gone.
func (c *Credential) Authorize(ctx context.Context, r *http.Request) error {
	t, err := c.token(ctx)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", bearer+t.value.Reveal())
	return nil
}

// token gives a good token.
func (c *Credential) token(ctx context.Context) (token, error) {
	c.state.mu.Lock()
	t, scopes, pointed := c.state.token, c.state.scopes, c.state.pointed
	c.state.mu.Unlock()
	if t.good(c.o.Now()) {
		return t, nil
	}
	t, err := c.cache.get(ctx, c.key(scopes), c.o.Now, func(ctx context.Context) (token, error) {
		t, fault := c.fetch(ctx, pointed, scopes)
		if fault != nil {
			return token{}, fault
		}
		return t, nil
	})
	if err != nil {
		if _, known := registry.AsError(err); !known {
			err = c.away("a token", "it did not answer in time", err)
		}
		return token{}, err
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.hide(t.value)
	c.state.token, c.state.resource = t, t.resource
	return t, nil
}

// fetch gets a new token. Its context is not the caller's.
func (c *Credential) fetch(ctx context.Context, pointed string, scopes []string) (token, *registry.Error) {
	if c.o.Issuer == "" {
		return c.own(ctx)
	}
	resource, fault := c.resource(ctx, pointed)
	if fault != nil {
		return token{}, fault
	}
	m, fault := c.issuer(ctx)
	if fault != nil {
		return token{}, fault
	}
	return c.request(ctx, m, resource, scopes)
}

// own gives the token that stands for us, made for the server itself.
func (c *Credential) own(ctx context.Context) (token, *registry.Error) {
	value, fault := c.assert(ctx, c.audience(c.o.Resource)[0])
	if fault != nil {
		return token{}, fault
	}
	return c.accept(value, c.o.Resource, 0)
}

// Refused is told of a 401 or 403. A token that others had before is replaced once; a
// token for what the server calls itself is got when that shows only now; scopes that
// the server wants, and that are allowed, are asked for once.
func (c *Credential) Refused(ctx context.Context, answer *http.Response) (again bool, err error) {
	said := challengeOf(answer.Header)
	used := ""
	if answer.Request != nil {
		used = strings.TrimPrefix(answer.Request.Header.Get("Authorization"), bearer)
	}
	c.state.mu.Lock()
	current, resource, scopes := c.state.token, c.state.resource, c.state.scopes
	renewed := c.state.renewed
	if used != "" && current.value.Reveal() != "" && used != current.value.Reveal() {
		c.state.mu.Unlock()
		return true, nil // another request has got a new one meanwhile
	}
	if wider := c.wider(said.scope, scopes); wider != nil && !c.state.stepped {
		c.state.stepped, c.state.scopes, c.state.token = true, wider, token{}
		c.state.mu.Unlock()
		return true, nil
	}
	c.state.mu.Unlock()
	if answer.StatusCode != http.StatusUnauthorized || renewed {
		return false, nil
	}
	if c.o.Issuer != "" && said.metadata != "" {
		named, fault := c.resource(ctx, said.metadata)
		if fault != nil {
			return false, fault
		}
		if named == resource && current.fresh {
			return false, nil
		}
	} else if current.fresh {
		return false, nil
	}
	c.cache.drop(c.key(scopes), current)
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.renewed, c.state.pointed, c.state.token = true, said.metadata, token{}
	return true, nil
}

// wider gives the scopes with those that the server wants and that may be asked for;
// nil when there is nothing to add.
func (c *Credential) wider(wanted string, have []string) []string {
	out := slices.Clone(have)
	for scope := range strings.FieldsSeq(wanted) {
		if slices.Contains(c.o.StepUp, scope) && !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	if len(out) == len(have) {
		return nil
	}
	return sortedSet(out)
}

// audience is whom a token for a resource must be for: any of these.
func (c *Credential) audience(resource string) []string {
	if c.o.Audience != "" {
		return []string{c.o.Audience, resource}
	}
	return []string{resource}
}
