package activities_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"countersign/activities"
	"countersign/registry"
	"countersign/secrets"
)

const token = "Bearer opaque-token-of-acme"

// broker has secrets in an environment of its own, of which tenants may use those
// that begin with their name.
func broker() (activities.Broker, *bytes.Buffer) {
	values := map[string]string{
		"acme_TOKEN": token, "acme_LINES": "a\nb", "acme_CERT": "no certificate", "acme_KEY": "key-of-acme", "globex_TOKEN": "token-of-globex",
	}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	var log bytes.Buffer
	return activities.Broker{
		Secrets: secrets.Shared{
			Resolver: secrets.Resolver{Sources: map[string]secrets.Source{registry.SchemeEnv: secrets.Env(lookup)}},
			Rules:    []secrets.Rule{{Prefixes: []string{"env:{tenant}_"}}},
		},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
	}, &log
}

func withHeaders(headers map[string]string) registry.Target {
	return registry.Target{TenantID: "acme", AuthKind: registry.AuthKindHeaders, Headers: headers}
}

func TestHeadersOfAConnectionAreShownAndMasked(t *testing.T) {
	t.Parallel()
	b, _ := broker()
	credential, err := b.Credential(t.Context(), withHeaders(map[string]string{"X-Api-Key": "env:acme_TOKEN"}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://mcp.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := credential.Authorize(t.Context(), r); err != nil || r.Header.Get("X-Api-Key") != token {
		t.Errorf("%v: %v", r.Header, err)
	}
	for _, said := range []string{"you sent " + token, "no such token: " + strings.TrimPrefix(token, "Bearer ")} {
		if masked := credential.Mask(said); strings.Contains(masked, "opaque") {
			t.Errorf("%q", masked)
		}
	}
	if again, err := credential.Refused(t.Context(), &http.Response{StatusCode: http.StatusUnauthorized}); again || err != nil {
		t.Errorf("the same is shown again: %t %v", again, err)
	}
}

func TestATargetWithoutAuthenticationHasNoCredential(t *testing.T) {
	t.Parallel()
	b, _ := broker()
	for _, kind := range []registry.AuthKind{"", registry.AuthKindNone} {
		if credential, err := b.Credential(t.Context(), registry.Target{TenantID: "acme", AuthKind: kind}); credential != nil || err != nil {
			t.Errorf("%q: %v %v", kind, credential, err)
		}
	}
}

// What is not there, what is another tenant's and what is no header look alike, and
// no error or line of the log has a value.
func TestCredentialsThatAreNotToBeHad(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for name, ref := range map[string]string{
		"unknown": "env:acme_NOTHING", "another tenant's": "env:globex_TOKEN", "no header": "env:acme_LINES",
	} {
		b, log := broker()
		credential, err := b.Credential(t.Context(), withHeaders(map[string]string{"X-Api-Key": ref}))
		e, ok := registry.AsError(err)
		if credential != nil || !ok || e.Reason != registry.ReasonSecretRefUnresolved || e.Fact("reference") != ref {
			t.Errorf("%s: %v %v", name, credential, err)
			continue
		}
		said[name] = strings.ReplaceAll(e.Message+"|"+e.Next, ref, "REF")
		for _, text := range []string{e.Error(), e.Message, e.Next, log.String()} {
			if strings.Contains(text, "token-of-globex") || strings.Contains(text, "a\nb") {
				t.Errorf("%s: %q", name, text)
			}
		}
	}
	if said["unknown"] != said["another tenant's"] {
		t.Errorf("%q and %q", said["unknown"], said["another tenant's"])
	}
}

func TestATransportTrustsWhatItsConnectionSays(t *testing.T) {
	t.Parallel()
	b, _ := broker()
	got, err := b.Transport(t.Context(), registry.Target{TenantID: "acme", AllowedNetworks: []string{"10.1.2.0/24", "10.2.0.0/24", "nonsense"}})
	if err != nil || len(got.AllowNetworks) != 1 || got.AllowNetworks[0] != netip.MustParsePrefix("10.1.2.0/24") {
		t.Errorf("%v: %v", got.AllowNetworks, err)
	}
	for name, c := range map[string]struct {
		target registry.Target
		want   registry.Reason
	}{
		"authority":   {registry.Target{CABundle: "no PEM"}, registry.ReasonInvalidArgument},
		"certificate": {registry.Target{ClientCertificateRef: "env:acme_CERT", ClientKeyRef: "env:acme_KEY"}, registry.ReasonSecretRefUnresolved},
		"key":         {registry.Target{ClientCertificateRef: "env:acme_CERT", ClientKeyRef: "env:globex_TOKEN"}, registry.ReasonSecretRefUnresolved},
	} {
		c.target.TenantID = "acme"
		got, err := b.Transport(t.Context(), c.target)
		e, _ := registry.AsError(err)
		if e == nil || e.Reason != c.want || len(got.Certificates) > 0 {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(e.Error()+errText(errors.Unwrap(e)), "key-of-acme") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
