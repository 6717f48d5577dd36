package secrets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	vault "github.com/hashicorp/vault/api"
	"github.com/hashicorp/vault/api/auth/approle"
	"github.com/hashicorp/vault/api/auth/kubernetes"

	"countersign/registry"
)

// VaultOptions say where Vault is and who we are to it: by one of the three ways.
type VaultOptions struct {
	HTTP      *http.Client // guarded; what it may dial is its maker's to say
	Address   string       // https://vault.example:8200
	Namespace string       // of Vault Enterprise; empty: none
	KV        int          // version of the key-value engines: 2 (0 too) or 1

	TokenFile  string // holds a token; read anew each time, as an agent renews it
	Kubernetes VaultKubernetes
	AppRole    VaultAppRole
}

// VaultKubernetes logs in with the token of the pod's service account.
type VaultKubernetes struct {
	Role      string
	Mount     string // empty: kubernetes
	TokenFile string // empty: where Kubernetes puts it
}

// VaultAppRole logs in with a role and a secret id.
type VaultAppRole struct {
	RoleID       string
	SecretIDFile string
	Mount        string // empty: approle
}

// vaultTime bounds one question to Vault, the login too.
const vaultTime = 5 * time.Second

// store is Vault, with a login that is kept for the life that Vault gave it.
type store struct {
	options VaultOptions

	mu    sync.Mutex
	token string
	until time.Time
}

// Vault is the source of the scheme vault: a field, that is a string, of a secret
// of a key-value engine. Vault that is away, sealed or busy, or does not let us
// in, is dependency_error; what it does not have, or does not show us, is
// unresolved.
func Vault(o VaultOptions) (Source, error) {
	s := &store{options: o}
	if _, err := s.client(); err != nil {
		return nil, err
	}
	ways := 0
	for _, way := range []string{o.TokenFile, o.Kubernetes.Role, o.AppRole.RoleID} {
		if way != "" {
			ways++
		}
	}
	if ways != 1 {
		return nil, errors.New("needs one of token_file, kubernetes.role and approle.role_id")
	}
	return s.read, nil
}

// client makes a client that takes nothing from the environment: neither an
// address nor a token, which would be somebody else's.
func (s *store) client() (*vault.Client, error) {
	client, err := vault.NewClient(&vault.Config{
		Address: s.options.Address, HttpClient: s.options.HTTP, Timeout: vaultTime, MaxRetries: 0, DisableRedirects: true,
	})
	if err != nil {
		return nil, err
	}
	client.ClearToken()
	client.ClearNamespace()
	if s.options.Namespace != "" {
		client.SetNamespace(s.options.Namespace)
	}
	return client, nil
}

var (
	errNoField = errors.New("the secret has no such field, or it is no text")
	errNoName  = errors.New("the name is no mount/path#field")
)

func (s *store) read(ctx context.Context, name string) (string, error) {
	where, field, ok := strings.Cut(name, "#")
	mount, path, below := strings.Cut(where, "/")
	if !ok || !below {
		return "", errNoName
	}
	ctx, cancel := context.WithTimeout(ctx, vaultTime)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return "", err
	}
	for again := false; ; again = true {
		token, fresh, err := s.login(ctx, client, again)
		if err != nil {
			return "", away(err)
		}
		client.SetToken(token)
		data, err := s.get(ctx, client, mount, path)
		if status, ok := errors.AsType[*vault.ResponseError](err); ok && status.StatusCode == http.StatusForbidden && !fresh && !again {
			continue // the login may be over sooner than Vault said
		}
		if err != nil {
			return "", away(err)
		}
		text, ok := data[field].(string)
		if !ok {
			return "", errNoField
		}
		return text, nil
	}
}

func (s *store) get(ctx context.Context, client *vault.Client, mount, path string) (map[string]any, error) {
	if s.options.KV == 1 {
		secret, err := client.KVv1(mount).Get(ctx, path)
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	}
	secret, err := client.KVv2(mount).Get(ctx, path)
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// login gives a token, and whether it is new. Again means that the last one was
// not taken.
func (s *store) login(ctx context.Context, client *vault.Client, again bool) (token string, fresh bool, err error) {
	o := s.options
	if o.TokenFile != "" {
		raw, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return "", false, err
		}
		return strings.TrimSpace(string(raw)), true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !again && time.Now().Before(s.until) {
		return s.token, false, nil
	}
	method, err := o.method()
	if err != nil {
		return "", false, err
	}
	secret, err := client.Auth().Login(ctx, method)
	if err != nil {
		return "", false, fmt.Errorf("login: %w", err)
	}
	lease, err := secret.TokenTTL()
	if err != nil {
		return "", false, err
	}
	s.token, s.until = secret.Auth.ClientToken, time.Now().Add(lease*2/3)
	return s.token, true, nil
}

func (o VaultOptions) method() (vault.AuthMethod, error) {
	if k := o.Kubernetes; k.Role != "" {
		var more []kubernetes.LoginOption
		if k.Mount != "" {
			more = append(more, kubernetes.WithMountPath(k.Mount))
		}
		if k.TokenFile != "" {
			more = append(more, kubernetes.WithServiceAccountTokenPath(k.TokenFile))
		}
		return kubernetes.NewKubernetesAuth(k.Role, more...)
	}
	var more []approle.LoginOption
	if o.AppRole.Mount != "" {
		more = append(more, approle.WithMountPath(o.AppRole.Mount))
	}
	return approle.NewAppRoleAuth(o.AppRole.RoleID, &approle.SecretID{FromFile: o.AppRole.SecretIDFile}, more...)
}

// away says of what Vault answered whether it is away. What it does not have, or
// does not show us, is not: there a retry does not help. Our own login that fails
// is: nobody's reference is at fault.
func away(err error) error {
	status, answered := errors.AsType[*vault.ResponseError](err)
	denied := answered && (status.StatusCode == http.StatusForbidden || status.StatusCode == http.StatusNotFound || status.StatusCode == http.StatusBadRequest)
	if errors.Is(err, vault.ErrSecretNotFound) || denied && !strings.HasPrefix(err.Error(), "login: ") {
		return err
	}
	e := registry.Errorf(registry.ReasonDependency, "the secret store does not answer").
		WithNext("try again later; the worker's log says what is wrong")
	e.Err = err
	return e
}
