package aep_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/aep"
	"countersign/mcptest"
	"countersign/outbound"
	"countersign/registry"
)

func client(networks ...string) *aep.Client {
	options := outbound.Options{}
	for _, n := range networks {
		options.AllowNetworks = append(options.AllowNetworks, netip.MustParsePrefix(n))
	}
	return &aep.Client{Guard: outbound.NewGuard(options), Timeout: func() time.Duration { return 5 * time.Second }}
}

const (
	utilities = "countersign.utilities"
	loopback  = "127.0.0.0/8"
)

// extension answers by path, and remembers what it was asked for.
type extension struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, answers map[string]http.HandlerFunc) *extension {
	t.Helper()
	e := &extension{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.asked = append(e.asked, r.URL.Path)
		e.mu.Unlock()
		if answer := answers[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *extension) paths() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const small = `{"protocolVersion":"2026-08-01","extension":{"id":"countersign.utilities","name":"n","version":"1"}}`

func TestTheUtilitiesAreRead(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcptest.NewDemo())
	t.Cleanup(s.Close)
	found, err := client(loopback).Fetch(t.Context(), s.URL, utilities)
	if err != nil {
		t.Fatal(err)
	}
	if found.URL != s.URL+aep.Path || len(found.Tools) != 3 || found.Tools[0].ID != "hash.compute" || found.Servers[0].URL != s.URL+"/mcp" {
		t.Errorf("%+v", found)
	}
}

// TestTheAliasIsTriedOn404Only (R101).
func TestTheAliasIsTriedOn404Only(t *testing.T) {
	t.Parallel()
	for status, alias := range map[int]bool{
		404: true, 200: false, 204: false, 301: false, 302: false, 307: false, 400: false, 401: false, 403: false, 405: false, 410: false, 429: false, 500: false, 503: false,
	} {
		e := serve(t, map[string]http.HandlerFunc{
			aep.Path: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", aep.PathAlias)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
			},
			aep.PathAlias: says(200, "application/json", small),
		})
		found, err := client(loopback).Fetch(t.Context(), e.URL+"/base", utilities)
		if (err == nil) != alias || alias && found.URL != e.URL+aep.PathAlias {
			t.Errorf("%d: %v at %s", status, err, found.URL)
		}
		if asked := slices.Contains(e.paths(), aep.PathAlias); asked != alias {
			t.Errorf("%d: the alias was asked for: %t", status, asked)
		}
	}
}

func TestEachFailureHasItsCode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   registry.Reason
	}{
		"HTML":              {says(200, "text/html; charset=utf-8", "<html>hello</html>"), registry.ReasonInvalidResponse},
		"HTML called JSON":  {says(200, "application/json", "<html>hello</html>"), registry.ReasonInvalidResponse},
		"no content type":   {says(200, "", small), ""},
		"a JSON of its own": {says(200, "application/aep+json", small), ""},
		"empty":             {says(200, "application/json", ""), registry.ReasonInvalidResponse},
		"nothing":           {nil, registry.ReasonInvalidResponse},
		"a redirect":        {says(302, "text/plain", ""), registry.ReasonInvalidResponse},
		"unauthorised":      {says(401, "application/json", "{}"), registry.ReasonInvalidResponse},
		"broken":            {says(500, "application/json", "{}"), registry.ReasonExtensionUnreachable},
		"busy":              {says(429, "application/json", "{}"), registry.ReasonExtensionUnreachable},
		"too large":         {says(200, "application/json", `{"a":"`+strings.Repeat("x", aep.MaxBytes)+`"}`), registry.ReasonInvalidResponse},
		"another version":   {says(200, "application/json", strings.Replace(small, "2026-08-01", "2025-01-01", 1)), registry.ReasonProtocolIncompatible},
		"another identity":  {says(200, "application/json", strings.Replace(small, "countersign.", "evil.", 1)), registry.ReasonIdentityMismatch},
		"a fault":           {says(200, "application/json", strings.Replace(small, `"n"`, `""`, 1)), registry.ReasonDescriptorInvalid},
	} {
		answers := map[string]http.HandlerFunc{}
		if tt.answer != nil {
			answers[aep.Path] = tt.answer
		}
		_, err := client(loopback).Fetch(t.Context(), serve(t, answers).URL, utilities)
		if tt.want == "" && err != nil || tt.want != "" && registry.ReasonOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoIsAwayIsUnreachable(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	e, ok := registry.AsError(second(client(loopback).Fetch(t.Context(), gone.URL, utilities)))
	if !ok || e.Reason != registry.ReasonExtensionUnreachable || e.Fact("cause") != "unreachable" {
		t.Errorf("%+v", e)
	}
	silent := serve(t, map[string]http.HandlerFunc{aep.Path: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	c := client(loopback)
	c.Timeout = func() time.Duration { return 50 * time.Millisecond }
	if e, ok := registry.AsError(second(c.Fetch(t.Context(), silent.URL, utilities))); !ok || e.Reason != registry.ReasonExtensionUnreachable {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second(client(loopback).Fetch(ctx, silent.URL, utilities)); !errors.Is(err, context.Canceled) {
		t.Errorf("our own end is said to be %v", err)
	}
}

// What our guard forbids is no fault of the extension's, and nothing is dialled.
func TestTheGuardStands(t *testing.T) {
	t.Parallel()
	e := serve(t, nil)
	if err := second(client().Fetch(t.Context(), e.URL, utilities)); registry.ReasonOf(err) != registry.ReasonBlockedAddress {
		t.Error(err)
	}
	if len(e.paths()) > 0 {
		t.Error("it was dialled")
	}
	for _, base := range []string{"ftp://x", "http://user:word@x", "x", "http://x/?token=1"} {
		if err := second(client(loopback).Fetch(t.Context(), base, utilities)); err == nil {
			t.Errorf("%s was taken", base)
		}
	}
}

func second(_ aep.Found, err error) error { return err }
