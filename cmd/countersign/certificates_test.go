package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue makes a certificate, its own when there is no issuer, and writes both
// files.
func issue(t *testing.T, dir, name string, by *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	crt, k := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for file, text := range map[string][]byte{name + ".crt": crt, name + ".key": k} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(crt, k)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestAnAPIByTLSIsTrustedByItsAuthorityAndShownWhoCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, clients := issue(t, dir, "ca", nil), issue(t, dir, "clients", nil)
	server := issue(t, dir, "server", &ca)
	issue(t, dir, "client", &clients)
	issue(t, dir, "stranger", &ca)
	file := func(name string) string { return filepath.Join(dir, name) }

	_, fake := startFake()
	t.Cleanup(fake.Close)
	serve := func(auth tls.ClientAuthType) string {
		s := httptest.NewUnstartedServer(fake.Config.Handler)
		pool := x509.NewCertPool()
		pool.AddCert(clients.Leaf)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: auth, ClientCAs: pool}
		s.EnableHTTP2 = true
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	open, mutual := serve(tls.NoClientCert), serve(tls.RequireAndVerifyClientCert)

	config := t.TempDir()
	run := func(env map[string]string, args ...string) (int, string) {
		t.Helper()
		var out, errs bytes.Buffer
		c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, now: time.Now, getenv: func(name string) string {
			switch name {
			case "XDG_CONFIG_HOME":
				return config
			case "COUNTERSIGN_TOKEN":
				return fakeToken
			}
			return env[name]
		}}
		return execute(t.Context(), c, args), out.String() + errs.String()
	}
	list := func(url string, flags ...string) []string {
		return append([]string{"server", "list", "-o", "name", "--server", url}, flags...)
	}
	withClient := []string{"--ca-file", file("ca.crt"), "--client-cert", file("client.crt"), "--client-key", file("client.key")}
	env := map[string]string{
		"COUNTERSIGN_CA_FILE": file("ca.crt"), "COUNTERSIGN_CLIENT_CERT": file("client.crt"), "COUNTERSIGN_CLIENT_KEY": file("client.key"),
	}
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		exit int
		says string
	}{
		"an authority of its own":        {nil, list(open, "--ca-file", file("ca.crt")), exitOK, "demo"},
		"an unknown authority":           {nil, list(open), exitFailure, "--ca-file"},
		"another authority":              {nil, list(open, "--ca-file", file("clients.crt")), exitFailure, "certificate"},
		"mutual":                         {nil, list(mutual, withClient...), exitOK, "demo"},
		"mutual, by the environment":     {env, list(mutual), exitOK, "demo"},
		"mutual, without a certificate":  {nil, list(mutual, "--ca-file", file("ca.crt")), exitFailure, "cannot reach"},
		"mutual, a stranger":             {nil, list(mutual, "--ca-file", file("ca.crt"), "--client-cert", file("stranger.crt"), "--client-key", file("stranger.key")), exitFailure, "cannot reach"},
		"a certificate without its key":  {nil, list(mutual, "--client-cert", file("client.crt")), exitUsage, "go together"},
		"a key without its certificate":  {map[string]string{"COUNTERSIGN_CLIENT_KEY": "x"}, list(mutual), exitUsage, "go together"},
		"an authority that is not there": {nil, list(open, "--ca-file", file("none")), exitUsage, "no such file"},
		"an authority that is none":      {nil, list(open, "--ca-file", file("ca.key")), exitUsage, "no certificate in PEM"},
		"a key of another":               {nil, list(mutual, "--client-cert", file("client.crt"), "--client-key", file("ca.key")), exitUsage, "client's certificate"},
	} {
		if exit, out := run(c.env, c.args...); exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, %s", name, exit, out)
		}
	}

	// A context remembers them, for its server only.
	if exit, out := run(nil, append([]string{"config", "set-context", "prod", "--server", mutual}, withClient...)...); exit != exitOK {
		t.Fatal(out)
	}
	if exit, out := run(nil, "server", "list", "-o", "name"); exit != exitOK || !strings.Contains(out, "demo") {
		t.Errorf("by the context: %d %s", exit, out)
	}
	if exit, out := run(nil, list(mutual)...); exit != exitFailure {
		t.Errorf("a server that is named is not the context's: %d %s", exit, out)
	}
	if exit, out := run(map[string]string{"COUNTERSIGN_CA_FILE": file("clients.crt")}, "server", "list", "--context", "prod"); exit != exitOK {
		t.Errorf("a named context goes before the environment: %d %s", exit, out)
	}
	if exit, out := run(map[string]string{"COUNTERSIGN_CA_FILE": file("clients.crt")}, "server", "list"); exit != exitFailure {
		t.Errorf("the environment goes before the current context: %d %s", exit, out)
	}
	if exit, out := run(nil, "config", "set-context", "prod", "--server", open); exit != exitOK {
		t.Fatal(out)
	}
	if exit, out := run(nil, "server", "list"); exit != exitFailure {
		t.Errorf("another server keeps the certificates of the old one: %d %s", exit, out)
	}
}

// What breaks a connection says nothing of who is there.
func TestABrokenConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an end
		}
		_ = conn.Close()
	}))
	t.Cleanup(s.Close)
	var out, errs bytes.Buffer
	env := map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "COUNTERSIGN_TOKEN": fakeToken}
	c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, now: time.Now, getenv: func(name string) string { return env[name] }}
	exit := execute(t.Context(), c, []string{"server", "list", "--server", s.URL})
	if exit != exitFailure || !strings.Contains(errs.String(), "cannot reach "+s.URL) || !strings.Contains(errs.String(), "reason: dependency_error") {
		t.Errorf("exit %d, %s", exit, errs.String())
	}
}
