package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/api"
	"countersign/cmd/internal/config"
	"countersign/db"
	"countersign/registry"
	"countersign/workflows"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

var serial atomic.Int64

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(serial.Add(1))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// pair gives a certificate and its key in PEM.
func (a *authority) pair(name string) (cert, key []byte) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return encoded("CERTIFICATE", c.Raw), encoded("PRIVATE KEY", der)
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// serving serves the API with these certificates, and gives its URL.
func serving(t *testing.T, c config.TLS, log io.Writer) string {
	t.Helper()
	secure, err := secured(c, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "c.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	auth, err := api.NewAuthenticator(api.AuthOptions{Tokens: []api.Token{{
		Token: "a-token-of-sixteen-bytes", Tenant: "default", Subject: "ann", Roles: []registry.Role{registry.RolePlatformAdmin},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Options{DB: d, Workflows: workflows.Client{}, Auth: auth, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, secure(l), h) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String()
}

// ask makes a connection of its own.
func ask(t *testing.T, url string, c *tls.Config, http2 bool) (*http.Response, error) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: c, Protocols: &protocols}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return response, nil
}

func TestTheAPIIsServedByTLS(t *testing.T) {
	t.Parallel()
	dir, ca := t.TempDir(), newAuthority(t)
	cert, key := ca.pair("first")
	files := config.TLS{CertFile: write(t, filepath.Join(dir, "crt"), cert), KeyFile: write(t, filepath.Join(dir, "key"), key)}
	var log bytes.Buffer
	url := serving(t, files, &log)
	for _, http2 := range []bool{false, true} {
		response, err := ask(t, url, &tls.Config{RootCAs: ca.pool()}, http2)
		if err != nil || response.StatusCode != http.StatusOK || (response.ProtoMajor == 2) != http2 || response.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("HTTP/2 %t: %+v %v", http2, response, err)
		}
	}
	for name, c := range map[string]*tls.Config{
		"an old version":    {RootCAs: ca.pool(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		"another authority": {RootCAs: newAuthority(t).pool()},
	} {
		if _, err := ask(t, url, c, false); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	if response, err := ask(t, strings.Replace(url, "https", "http", 1), nil, false); err == nil && response.StatusCode != http.StatusBadRequest {
		t.Errorf("answered in the clear: %v", response)
	}
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	dir, ca := t.TempDir(), newAuthority(t)
	cert, key := ca.pair("first")
	files := config.TLS{CertFile: write(t, filepath.Join(dir, "crt"), cert), KeyFile: write(t, filepath.Join(dir, "key"), key)}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	k := &certificates{files: files, log: logger}
	name := func() string {
		t.Helper()
		k.looked = time.Time{}
		c, err := k.now(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Fatal(got)
	}
	before := k.config
	if name(); k.config != before {
		t.Error("files that did not change are read again")
	}
	// Half of a change is none.
	cert, key = ca.pair("a second one")
	write(t, files.CertFile, cert)
	if got := name(); got != "first" || !strings.Contains(log.String(), "not reloaded") {
		t.Errorf("%s, %s", got, log.String())
	}
	write(t, files.KeyFile, key)
	if got := name(); got != "a second one" {
		t.Errorf("%s, %s", got, log.String())
	}
	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "a second one" {
		t.Error(got)
	}
}

func TestCallersNeedACertificateWhenAnAuthorityIsConfigured(t *testing.T) {
	t.Parallel()
	dir, ca, clients := t.TempDir(), newAuthority(t), newAuthority(t)
	cert, key := ca.pair("server")
	files := config.TLS{
		CertFile: write(t, filepath.Join(dir, "crt"), cert), KeyFile: write(t, filepath.Join(dir, "key"), key),
		ClientCAFile: write(t, filepath.Join(dir, "ca"), encoded("CERTIFICATE", clients.cert.Raw)),
	}
	url := serving(t, files, io.Discard)
	with := func(a *authority) *tls.Config {
		pair, err := tls.X509KeyPair(a.pair("client"))
		if err != nil {
			t.Fatal(err)
		}
		// Whatever the server asks for: else a client keeps to itself what it would refuse.
		return &tls.Config{RootCAs: ca.pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	}
	for _, http2 := range []bool{false, true} {
		if response, err := ask(t, url, with(clients), http2); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("HTTP/2 %t: %v %v", http2, response, err)
		}
	}
	for name, c := range map[string]*tls.Config{"none": {RootCAs: ca.pool()}, "of another authority": with(ca)} {
		if _, err := ask(t, url, c, false); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
}

func TestBadCertificatesAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	dir, ca := t.TempDir(), newAuthority(t)
	cert, key := ca.pair("server")
	_, other := ca.pair("other")
	crt, k, o := write(t, filepath.Join(dir, "crt"), cert), write(t, filepath.Join(dir, "key"), key), write(t, filepath.Join(dir, "other"), other)
	for name, c := range map[string]config.TLS{
		"no file":                     {CertFile: filepath.Join(dir, "none"), KeyFile: k},
		"another's key":               {CertFile: crt, KeyFile: o},
		"no certificates":             {CertFile: crt, KeyFile: k, ClientCAFile: k},
		"no file of client authority": {CertFile: crt, KeyFile: k, ClientCAFile: filepath.Join(dir, "none")},
	} {
		if _, err := secured(c, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
