package secrets_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/registry"
	"countersign/secrets"
)

// vault speaks the few parts of Vault's HTTP API that are asked: where the wire
// leaves the house.
type vault struct {
	*httptest.Server

	mu     sync.Mutex
	status int // of every answer; 0: as it should be
	tokens map[string]bool
	logins int
	paths  []string
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{tokens: map[string]bool{"root": true}}
	v.Server = httptest.NewTLSServer(http.HandlerFunc(v.serve))
	t.Cleanup(v.Close)
	return v
}

func (v *vault) serve(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paths = append(v.paths, r.URL.Path)
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	errs := map[string]any{"errors": []string{}}
	switch {
	case v.status != 0:
		answer(v.status, errs)
	case r.URL.Path == "/v1/auth/approle/login" || r.URL.Path == "/v1/auth/kubernetes/login":
		var asked map[string]string
		_ = json.NewDecoder(r.Body).Decode(&asked)
		if asked["secret_id"] != "the-secret-id" && asked["jwt"] != "the-jwt" {
			answer(http.StatusBadRequest, errs)
			return
		}
		v.logins++
		token := "login-" + string(rune('0'+v.logins))
		v.tokens[token] = true
		answer(http.StatusOK, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": 3600}})
	case !v.tokens[r.Header.Get("X-Vault-Token")]:
		answer(http.StatusForbidden, errs)
	case r.URL.Path == "/v1/kv/data/team-a/search":
		answer(http.StatusOK, map[string]any{"data": map[string]any{
			"data": map[string]any{"token": "SENTINEL", "number": 7}, "metadata": map[string]any{"version": 3, "created_time": "2026-01-02T03:04:05Z"},
		}})
	case r.URL.Path == "/v1/old/team-a/search":
		answer(http.StatusOK, map[string]any{"data": map[string]any{"token": "OLD"}})
	case strings.HasPrefix(r.URL.Path, "/v1/kv/data/closed/"):
		answer(http.StatusForbidden, errs)
	default:
		answer(http.StatusNotFound, errs)
	}
}

func (v *vault) is(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (v *vault) resolver(t *testing.T, edit func(*secrets.VaultOptions)) secrets.Resolver {
	t.Helper()
	o := secrets.VaultOptions{HTTP: v.Client(), Address: v.URL}
	edit(&o)
	source, err := secrets.Vault(o)
	if err != nil {
		t.Fatal(err)
	}
	return secrets.Resolver{Sources: map[string]secrets.Source{registry.SchemeVault: source}}
}

func TestVaultResolves(t *testing.T) {
	// Of the environment nothing is taken.
	t.Setenv("VAULT_TOKEN", "somebody-elses")
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	t.Setenv("VAULT_NAMESPACE", "somebody-elses")
	v := newVault(t)
	r := v.resolver(t, func(o *secrets.VaultOptions) { o.TokenFile = file(t, "root\n") })
	value, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token")
	if err != nil || value.Reveal() != "SENTINEL" {
		t.Fatal(value.Reveal(), err)
	}
	unresolved := map[string]error{}
	for _, ref := range []string{"vault:kv/team-a/search#none", "vault:kv/team-a/search#number", "vault:kv/team-a/none#token", "vault:kv/closed/search#token"} {
		_, err := r.Resolve(t.Context(), ref)
		unresolved[ref] = err
		if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonSecretRefUnresolved || strings.ReplaceAll(e.Message, ref, "") != "the secret  could not be resolved" {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusTooManyRequests} {
		v.is(func() { v.status = status })
		_, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token")
		if registry.ReasonOf(err) != registry.ReasonDependency || !registry.CodeOf(err).Retryable() {
			t.Errorf("with status %d: %v", status, err)
		}
	}
	v.Close()
	if _, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token"); registry.ReasonOf(err) != registry.ReasonDependency {
		t.Errorf("away: %v", err)
	}
}

func TestVaultIsLoggedInToOnce(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*testing.T, *secrets.VaultOptions){
		"approle": func(t *testing.T, o *secrets.VaultOptions) {
			t.Helper()
			o.AppRole = secrets.VaultAppRole{RoleID: "us", SecretIDFile: file(t, "the-secret-id")}
		},
		"kubernetes": func(t *testing.T, o *secrets.VaultOptions) {
			t.Helper()
			o.Kubernetes = secrets.VaultKubernetes{Role: "us", TokenFile: file(t, "the-jwt")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			r := v.resolver(t, func(o *secrets.VaultOptions) { edit(t, o) })
			for range 3 {
				if value, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token"); err != nil || value.Reveal() != "SENTINEL" {
					t.Fatal(err)
				}
			}
			if v.logins != 1 {
				t.Errorf("%d logins", v.logins)
			}
			v.is(func() { v.tokens = map[string]bool{} }) // revoked
			if _, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token"); err != nil || v.logins != 2 {
				t.Errorf("after the login was revoked: %d logins, %v", v.logins, err)
			}
		})
	}
	v := newVault(t)
	r := v.resolver(t, func(o *secrets.VaultOptions) {
		o.AppRole = secrets.VaultAppRole{RoleID: "us", SecretIDFile: file(t, "wrong")}
	})
	if _, err := r.Resolve(t.Context(), "vault:kv/team-a/search#token"); registry.ReasonOf(err) != registry.ReasonDependency {
		t.Errorf("a login that is refused: %v", err)
	}
}

func TestVaultWithTheOlderEngine(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	r := v.resolver(t, func(o *secrets.VaultOptions) { o.TokenFile, o.KV = file(t, "root"), 1 })
	if value, err := r.Resolve(t.Context(), "vault:old/team-a/search#token"); err != nil || value.Reveal() != "OLD" {
		t.Error(value.Reveal(), err)
	}
	if _, err := secrets.Vault(secrets.VaultOptions{HTTP: v.Client(), Address: v.URL}); err == nil {
		t.Error("without a way to log in")
	}
}
