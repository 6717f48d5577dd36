package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"countersign/mcptest"
)

// One process with mutual TLS, encrypted workflow data and a quota, asked by the
// command line client.
func TestAHardenedInstallation(t *testing.T) {
	t.Parallel()
	d := newDev(t) // lends its Temporal
	d.start(t)
	dir := t.TempDir()
	certificate(t, dir)
	pem := filepath.Join(dir, "all.pem")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("canary-k"), 4))
	config := func(keys string) string {
		return "COUNTERSIGN_CONFIG=" + write(t, fmt.Sprintf(`
tls: {cert_file: %[1]s, key_file: %[1]s, client_ca_file: %[1]s}
temporal: {codec_keys: [%[2]s]}
quotas: {servers: 1}
`, pem, keys))
	}
	i := newInstallation(t, d, "sqlite:"+filepath.Join(dir, "registry.db"), "CODEC_KEY="+key)
	base := i.env
	i.env = slices.Concat(base, []string{config("{id: one, key: env:CODEC_KEY}")})
	n := node{listen: address(t)}
	n.launch(t, i, "all")
	until(t, "it is ready", patience, func() error {
		if !strings.Contains(n.log.String(), `"msg":"ready"`) {
			return errors.New(tail(n.log.String()))
		}
		return nil
	})
	url := "https://" + n.listen

	peer := mcptest.New(t, mcptest.Script{})
	client := []string{
		"COUNTERSIGN_SERVER=" + url, "COUNTERSIGN_TOKEN=" + i.tokens[first],
		"COUNTERSIGN_CA_FILE=" + pem, "COUNTERSIGN_CLIENT_CERT=" + pem, "COUNTERSIGN_CLIENT_KEY=" + pem,
	}
	run := func(env []string, args ...string) (int, string) {
		t.Helper()
		p := launch(t, "countersign", env, args...)
		code := p.await(t)
		return code, p.out.String() + p.log.String()
	}
	register := func(name string) (int, string) {
		t.Helper()
		return run(client, "server", "register", name, "--url", peer.URL, "--auth", "workload_identity", "--wait", "verified")
	}
	if code, out := register("one"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if code, out := register("two"); code == 0 || !strings.Contains(out, "quota_exceeded") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := run(client[:3], "server", "list"); code == 0 {
		t.Errorf("without a certificate of its own: %s", out)
	}

	// What Temporal has says nothing, and the codec endpoint what it means.
	e := dial(t, d.temporal, i.namespace)
	started, err := e.GetWorkflowHistory(t.Context(), server("one"), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err != nil {
		t.Fatal(err)
	}
	input := started.GetWorkflowExecutionStartedEventAttributes().GetInput()
	asked, err := protojson.Marshal(&commonpb.Payloads{Payloads: input.GetPayloads()})
	if err != nil || bytes.Contains(asked, []byte("json/plain")) {
		t.Fatalf("%s %v", asked, err)
	}
	pair, err := tls.LoadX509KeyPair(pem, pem)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	browser := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/temporal/codec/decode", bytes.NewReader(asked))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + i.tokens[first]}, "Content-Type": {"application/json"}, "Origin": {"http://" + d.ui}}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var told commonpb.Payloads
	if err != nil || protojson.Unmarshal(body, &told) != nil || len(told.GetPayloads()) == 0 || !bytes.Contains(told.GetPayloads()[0].GetData(), []byte(`"one"`)) {
		t.Errorf("%s: %s", response.Status, body)
	}
	if response.Header.Get("Access-Control-Allow-Origin") != "http://"+d.ui || response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%v", response.Header)
	}

	n.stop(t)
	if log := n.log.String(); !strings.Contains(log, `"msg":"configuration"`) || mentions(log, "canary") {
		t.Errorf("the log has a secret, or not the configuration:\n%s", log)
	}
	// Somebody forgets the key.
	i.env = slices.Concat(base, []string{config("")})
	n.launch(t, i, "worker")
	if code := n.await(t); code == 0 || !strings.Contains(n.log.String(), `workflow data is encrypted with the key "one"`) {
		t.Errorf("%d %s", code, n.log.String())
	}
}

// certificate writes one certificate that is its own authority, with its key.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "countersign"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(filepath.Join(dir, "all.pem"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
