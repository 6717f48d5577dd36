package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// state is what survives restarts.
type state struct {
	Key     jose.JSONWebKey   `json:"key"`
	Secrets map[string]string `json:"secrets"` // of services, by id
	Grants  []grant           `json:"grants,omitempty"`
}

// grant is one sign-in that may be refreshed. Of refresh tokens only hashes
// are kept.
type grant struct {
	Client  string    `json:"client"`
	User    string    `json:"user"`
	Scopes  []string  `json:"scopes"`
	Token   string    `json:"token"`          // hash of the one that is good
	Used    []string  `json:"used,omitempty"` // hashes of the last ones that were
	Expires time.Time `json:"expires"`
}

// usedKept is how many used refresh tokens of a grant are remembered.
const usedKept = 16

// store keeps the state in a file.
type store struct {
	path string

	mu    sync.Mutex
	state state
}

// open reads the state, and makes what is missing in it.
func open(path string, services []Service) (*store, error) {
	s := &store{path: path}
	raw, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(raw, &s.state); err != nil {
			return nil, errors.New("it cannot be read; remove it to get a new key")
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	changed := false
	if _, ok := s.state.Key.Key.(*ecdsa.PrivateKey); !ok {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		key := jose.JSONWebKey{Key: private, Algorithm: string(jose.ES256), Use: "sig"}
		thumb, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, err
		}
		key.KeyID = base64.RawURLEncoding.EncodeToString(thumb)
		s.state.Key, changed = key, true
	}
	for _, service := range services {
		if s.state.Secrets[service.ID] == "" {
			if s.state.Secrets == nil {
				s.state.Secrets = map[string]string{}
			}
			s.state.Secrets[service.ID], changed = rand.Text(), true
		}
	}
	if changed {
		return s, s.write()
	}
	return s, nil
}

// write writes the state whole or not at all. The caller holds the lock, or is
// alone.
func (s *store) write() error {
	raw, err := json.MarshalIndent(s.state, "", "  ")
	if err != nil {
		return err
	}
	draft := s.path + ".new"
	if err := os.WriteFile(draft, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, s.path)
}

// authentic says whether a service has the secret.
func (s *store) authentic(service, secret string) bool {
	want, known := s.state.Secrets[service]
	return subtle.ConstantTimeCompare([]byte(secret), []byte(want)) == 1 && known && want != ""
}

// grant keeps a sign-in and gives its first refresh token.
func (s *store) grant(g grant, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := rand.Text()
	g.Token, g.Expires = hashed(token), now.Add(refreshLife)
	s.state.Grants = slices.DeleteFunc(s.state.Grants, func(old grant) bool { return !now.Before(old.Expires) })
	s.state.Grants = append(s.state.Grants, g)
	return token, s.write()
}

// refresh takes a refresh token and gives the next one. One that was used
// already is in more than one pair of hands: then the grant is over for all of
// them (RFC 9700, section 4.14.2).
func (s *store) refresh(client, token string, now time.Time) (g grant, next string, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := hashed(token)
	for i := range s.state.Grants {
		g := &s.state.Grants[i]
		switch {
		case g.Client != client || !now.Before(g.Expires):
		case slices.Contains(g.Used, hash):
			s.state.Grants = slices.Delete(s.state.Grants, i, i+1)
			return grant{}, "", false, s.write()
		case g.Token == hash:
			next = rand.Text()
			g.Used = append(g.Used, hash)
			g.Used = g.Used[max(0, len(g.Used)-usedKept):]
			g.Token = hashed(next)
			return *g, next, true, s.write()
		}
	}
	return grant{}, "", false, nil
}

// revoke ends the grant of a refresh token, if there is one.
func (s *store) revoke(client, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, hash := len(s.state.Grants), hashed(token)
	s.state.Grants = slices.DeleteFunc(s.state.Grants, func(g grant) bool {
		return g.Client == client && (g.Token == hash || slices.Contains(g.Used, hash))
	})
	if len(s.state.Grants) == before {
		return nil
	}
	return s.write()
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
