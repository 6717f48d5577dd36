package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"countersign/mcptest"
	pb "countersign/proto/countersign/registry/v1"
	"countersign/proto/countersign/registry/v1/registryv1connect"
)

// chatter is a server in shell that tells its variables in every notation: as what
// its first argument says, in whatever is read of a process.
const chatter = `
how=$1
hidden=$(for secret in "$BY_ENV" "$BY_FILE" "$BY_VAULT"; do
  printf '%s %s %s %s ' "$secret" "$(printf %s "$secret" | base64 | tr -d '\n')" "$(printf %s "$secret" | od -An -v -tx1 | tr -d ' \n')" \
    "$(printf %s "$secret" | sed 's:/:%2F:g; s:+:%2B:g; s:=:%3D:g')"
done)
echo "you said $hidden" >&2
if [ "$how" = dies ]; then exit 3; fi
if [ "$how" = noise ]; then echo "starting with $hidden"; fi
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $how$line in
  *'"notifications/'*) ;;
  broken*) printf '{"jsonrpc":"2.0","id":%s,"result":{"%s\n' "$id" "$hidden"; exit 1 ;;
  error*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s","data":"%s"}}\n' "$id" "$hidden" "$hidden" ;;
  *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no method for %s"}}\n' "$id" "$hidden" ;;
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"%s","version":"%s"},"instructions":"you said %s"}}\n' "$id" "$hidden" "$hidden" "$hidden" ;;
  list*'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"%s","inputSchema":{"type":"object"}},{"name":7}]}}\n' "$id" "$hidden" ;;
  *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"tell","description":"you said %s","inputSchema":{"type":"object","properties":{"%s":{"type":"string"}}}}]}}\n' "$id" "$hidden" "$hidden" ;;
  esac
done
`

// moods are what a chatter can be.
var moods = []string{"well", "noise", "dies", "broken", "error", "list"}

// chatters writes the commands of a configuration, one for each mood, by its name.
func chatters(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chatter.sh")
	if err := os.WriteFile(path, []byte(chatter), 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("commands:\n")
	for _, mood := range moods {
		fmt.Fprintf(&b, "  - {name: %s, argv: [/bin/sh, %q, %s], env: {BY_ENV: %q, BY_FILE: %q, BY_VAULT: %q}}\n",
			mood, path, mood, "env:CANARY_COMMAND", "file:command", "vault:kv/team/search#plain")
	}
	return b.String()
}

// identity is a key that nobody but its owner may have, in PEM, and the certificate
// that goes with it. An Ed25519 key has nothing in it that is public.
type identity struct {
	key, certificate string
	hidden           []string // the lines of the key's text, and its bytes
}

func newIdentity(t *testing.T) identity {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "countersign"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return identity{
		key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		// All of its one line but the number of the version and the algorithm's name.
		hidden: []string{base64.StdEncoding.EncodeToString(der)[24:], string(private.Seed())},
	}
}

// broken are files that hold a key and are none, or another's.
func (i identity) broken(other identity) map[string]string {
	return map[string]string{
		"another's":     other.key,
		"cut":           i.key[:len(i.key)-30],
		"called wrong":  strings.ReplaceAll(i.key, "PRIVATE KEY", "CERTIFICATE"),
		"in one line":   strings.ReplaceAll(i.key, "\n", " "),
		"with more":     i.key + i.key + "and more",
		"without PEM":   i.hidden[0],
		"not even text": i.hidden[1],
	}
}

// door is an MCP server over TLS that lets nobody in without a certificate.
type door struct {
	*httptest.Server

	met atomic.Pointer[[]byte] // the certificate that it was shown last
}

func newDoor(t *testing.T, behind *mcptest.Server) *door {
	t.Helper()
	d := &door{}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.met.Store(&r.TLS.PeerCertificates[0].Raw)
		behind.ServeHTTP(w, r)
	}))
	d.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	d.StartTLS()
	t.Cleanup(d.Close)
	return d
}

// authority gives what a connection trusts it by.
func (d *door) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw}))
}

// knows says whether it met an identity.
func (d *door) knows(i identity) bool {
	block, _ := pem.Decode([]byte(i.certificate))
	met := d.met.Load()
	return met != nil && bytes.Equal(*met, block.Bytes)
}

// The keys of subscriptions; one is too short to sign with.
const hookKey, shortHookKey = "canary/hook+2f7d==x of thirty-two", "canary/short+0e=x"

// hooked makes subscriptions whose receivers fail and repeat what they were sent, and
// others whose secrets are none. What it gives hands on how their deliveries stand,
// once each was tried, and gives what went wrong with asking.
func hooked(t *testing.T, url, token string) (deliveries func(answered func(proto.Message, error)) []error) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "1")
		http.Error(w, echo(r.Header.Get("Webhook-Signature")+string(body)), http.StatusInternalServerError)
	}))
	t.Cleanup(receiver.Close)
	events := registryv1connect.NewEventServiceClient(http.DefaultClient, url, bearing(token))
	subscriptions := map[string]string{"fails": "env:CANARY_HOOK", "short": "env:CANARY_SHORT_HOOK", "nowhere": "env:CANARY_NOBODY_SET"}
	for name, secret := range subscriptions {
		if _, err := events.CreateSubscription(t.Context(), &pb.CreateSubscriptionRequest{
			SubscriptionId: name, Direction: pb.SubscriptionDirection_SUBSCRIPTION_DIRECTION_SEND, Spec: &pb.SubscriptionSpec{Url: receiver.URL, Secret: secret},
		}); err != nil {
			t.Fatal(err)
		}
	}
	return func(answered func(proto.Message, error)) (faults []error) {
		for name := range subscriptions {
			until(t, "events for "+name+" are tried", patience, func() error {
				list, err := events.ListDeliveries(t.Context(), &pb.ListDeliveriesRequest{SubscriptionId: name})
				if err == nil && !slices.ContainsFunc(list.GetDeliveries(), func(d *pb.Delivery) bool { return d.GetAttempts() > 0 }) {
					err = fmt.Errorf("%d deliveries, none of them tried", len(list.GetDeliveries()))
				}
				answered(list, err)
				return err
			})
			got, err := events.GetSubscription(t.Context(), &pb.GetSubscriptionRequest{SubscriptionId: name})
			if answered(got, err); err != nil {
				faults = append(faults, err)
			}
		}
		return faults
	}
}

// heard collects what somebody was told that must not be kept.
type heard struct {
	mu   sync.Mutex
	what []string
}

func (s *heard) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		s.what = append(s.what, text)
	}
}

func (s *heard) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.what
}
