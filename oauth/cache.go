package oauth

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"countersign/registry"
	"countersign/secrets"
)

// Bounds of tokens and of what is done for them.
const (
	fetchTime  = 10 * time.Second // for all that is asked for one token
	maxTokens  = 10_000           // that are kept
	maxClients = 10_000           // that were registered and are kept
	longest    = time.Hour        // that a token is kept, whatever it says
	unstated   = time.Minute      // that one is kept which does not say
	maxSkew    = 30 * time.Second // before its end, or a quarter of its life, it is not used any more
	maxToken   = 16 << 10         // bytes
)

// token is an access token.
type token struct {
	value    secrets.Value
	resource string    // that it is for
	until    time.Time // it is not used after this; zero: it is used once
	fresh    bool      // whoever has it asked for it
}

// good says whether the token can be used.
func (t token) good(now time.Time) bool {
	return t.value.Reveal() != "" && (t.until.IsZero() || now.Before(t.until))
}

// Cache keeps tokens in memory for their lives, for all credentials of a process. The
// zero value is ready, and safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	tokens map[string]token
	group  singleflight.Group
	// clients are those that were registered here.
	clients map[string]client
}

// key says whose a token is: nothing that tells two apart is left out.
func (c *Credential) key(scopes []string) string {
	raw, err := json.Marshal([]string{
		c.o.Owner, string(c.o.Kind), c.o.Issuer, c.o.TokenEndpoint, c.o.ClientID, c.o.Resource, c.o.Audience, strings.Join(scopes, " "),
	})
	if err != nil {
		panic("oauth: " + err.Error()) // texts always encode
	}
	return string(raw)
}

// get gives the token of a key, from fetch when none is kept. Those who want the same
// at once share one fetch, which ends in its own time: none waits longer than its own
// context, and none ends it for the others.
func (k *Cache) get(ctx context.Context, key string, now func() time.Time, fetch func(context.Context) (token, error)) (token, error) {
	if t, ok := k.kept(key, now()); ok {
		return t, nil
	}
	if err := ctx.Err(); err != nil {
		return token{}, err
	}
	flight := k.group.DoChan(key, func() (any, error) {
		if t, ok := k.kept(key, now()); ok {
			return t, nil // it came while we were on the way
		}
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
		defer cancel()
		t, err := fetch(detached)
		if err != nil {
			return token{}, err
		}
		k.keep(key, t, now())
		t.fresh = true
		return t, nil
	})
	select {
	case got := <-flight:
		if got.Err != nil {
			return token{}, copied(got.Err)
		}
		t, _ := got.Val.(token)
		return t, nil
	case <-ctx.Done():
		return token{}, ctx.Err()
	}
}

// copied gives each of those who share an error one of its own, since facts are added.
func copied(err error) error {
	e, ok := registry.AsError(err)
	if !ok {
		return err
	}
	clone := *e
	clone.Facts = append([]registry.Detail(nil), e.Facts...)
	return &clone
}

func (k *Cache) kept(key string, now time.Time) (token, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tokens[key]
	if ok && !t.good(now) {
		delete(k.tokens, key)
		return token{}, false
	}
	return t, ok
}

func (k *Cache) keep(key string, t token, now time.Time) {
	if t.until.IsZero() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tokens == nil {
		k.tokens = map[string]token{}
	}
	maps.DeleteFunc(k.tokens, func(_ string, t token) bool { return !t.good(now) })
	if len(k.tokens) < maxTokens {
		k.tokens[key] = t
	}
}

// drop forgets a token, unless another has taken its place.
func (k *Cache) drop(key string, t token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tokens[key].value.Reveal() == t.value.Reveal() {
		delete(k.tokens, key)
	}
}
