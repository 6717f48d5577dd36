package api

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"countersign/registry"
)

// How the keys of an issuer are kept.
const (
	keysRenewed = 10 * time.Minute // after this they are fetched again, in passing
	keysOver    = time.Hour        // after this they are not used any more: a key that was withdrawn is not known to be
	fetchPause  = 10 * time.Second // between two fetches, whatever tokens name unknown keys
	retryPause  = 2 * time.Second  // after one that failed
	fetchLimit  = 5 * time.Second
	maxKeySet   = 1 << 20 // bytes
	maxKeys     = 100
	leastRSA    = 2048 // bits (RFC 7518, section 3.3)
)

// keys are the public keys of an issuer: fetched when a token needs them, from
// where the issuer's discovery document says. Safe for concurrent use.
type keys struct {
	issuer string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	set     []jose.JSONWebKey
	fetched time.Time     // when the set came; zero: never
	tried   time.Time     // when a fetch ended
	failed  error         // why the last fetch did not bring a set
	flight  chan struct{} // closed when the running fetch ends; nil: none runs
}

// verify gives what a token signs, if one of the issuer's keys did. A key that
// is not known makes the keys be fetched again, once and not too often. When it
// then cannot be said whose the signature is, the issuer is away.
func (k *keys) verify(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, *registry.Error) {
	header := jws.Signatures[0].Header
	for again := false; ; again = true {
		known, usable, failed := k.candidates(ctx, header)
		if usable {
			for i := range known {
				if payload, err := jws.Verify(&known[i]); err == nil {
					return payload, nil
				}
			}
		}
		switch {
		case !again && k.refresh(ctx):
		case usable && (len(known) > 0 || failed == nil):
			return nil, refusal()
		case ctx.Err() != nil:
			return nil, registry.Errorf(registry.ReasonDeadline, "the caller went away")
		default:
			return nil, registry.Errorf(registry.ReasonDependency, "the issuer of the token cannot be asked for its keys").
				WithNext("try again; the operator sees in the log why the issuer %s does not answer", k.issuer)
		}
	}
}

// candidates gives the keys that may have made a signature, whether the set
// may be used at all, and why the last fetch failed. Keys that are due are
// fetched meanwhile.
func (k *keys) candidates(ctx context.Context, header jose.Header) (known []jose.JSONWebKey, usable bool, failed error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.fetched)
	usable = !k.fetched.IsZero() && age < keysOver
	if usable && age >= keysRenewed {
		k.begin(ctx)
	}
	for _, key := range k.set {
		if (header.KeyID == "" || key.KeyID == header.KeyID) && (key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			known = append(known, key)
		}
	}
	return known, usable, k.failed
}

// refresh fetches the keys, or waits for the fetch that runs. It says whether
// looking again is worth while.
func (k *keys) refresh(ctx context.Context) bool {
	k.mu.Lock()
	flight := k.begin(ctx)
	k.mu.Unlock()
	if flight == nil {
		return false
	}
	select {
	case <-flight:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin starts a fetch, unless one ended just now, and gives what is closed
// when it ends. The caller holds the lock.
func (k *keys) begin(ctx context.Context) <-chan struct{} {
	pause := fetchPause
	if k.failed != nil {
		pause = retryPause
	}
	if k.flight != nil || !k.tried.IsZero() && k.now().Sub(k.tried) < pause {
		return k.flight
	}
	k.flight = make(chan struct{})
	// It is for all who wait, and does not end with the one who began it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	go func() {
		defer cancel()
		set, err := k.fetch(ctx)
		k.end(ctx, set, err)
	}()
	return k.flight
}

// end takes what a fetch brought.
func (k *keys) end(ctx context.Context, set []jose.JSONWebKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && k.failed == nil:
		k.log.LogAttrs(ctx, slog.LevelWarn, "the keys of an issuer cannot be fetched", slog.String("issuer", k.issuer), slog.Any("error", err))
	case err == nil && (k.failed != nil || k.fetched.IsZero()):
		k.log.LogAttrs(ctx, slog.LevelInfo, "the keys of an issuer are there", slog.String("issuer", k.issuer), slog.Int("keys", len(set)))
	}
	k.tried, k.failed = k.now(), err
	if err == nil {
		k.set, k.fetched = set, k.tried
	}
	close(k.flight)
	k.flight = nil
}

// check says whether tokens can be checked at the moment.
func (k *keys) check(ctx context.Context) error {
	k.mu.Lock()
	usable := !k.fetched.IsZero() && k.now().Sub(k.fetched) < keysOver
	k.mu.Unlock()
	if usable {
		return nil
	}
	k.refresh(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.IsZero() || k.now().Sub(k.fetched) >= keysOver {
		return fmt.Errorf("issuer %s: %w", k.issuer, errors.Join(k.failed, ctx.Err()))
	}
	return nil
}

// fetch reads the discovery document and the keys (OpenID Connect Discovery
// 1.0, section 4; RFC 7517, section 5).
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		JWKS string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if !secureURL(withoutQuery(document.JWKS)) || strings.HasPrefix(k.issuer, "https:") && !strings.HasPrefix(document.JWKS, "https:") {
		return nil, fmt.Errorf("jwks_uri %q is no URL of keys", document.JWKS)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, document.JWKS, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", document.JWKS, response.Status)
	}
	return publicKeys(body)
}

// withoutQuery is a URL without its query, which the place of keys may have.
func withoutQuery(text string) string {
	text, _, _ = strings.Cut(text, "?")
	return text
}

// publicKeys gives the keys of a set that can have signed a token. Those that
// cannot, and those that we do not understand, are passed over: an issuer may
// have them for others.
func publicKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("the set of keys cannot be read: %w", err)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < leastRSA {
			continue
		}
		if key.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(key.Algorithm)) {
			continue
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("the set of keys has none that can be used")
	}
	return out, nil
}
