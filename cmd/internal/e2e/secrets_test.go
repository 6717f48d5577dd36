package e2e

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/registry"
)

// What is secret is in no log, no file and no history: tokens of callers, those
// that were refused too, and what does not belong into a request.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	const (
		wrong    = "cs_dev_canary-that-nobody-gave-out"
		password = "canary-password-5c01"
		key      = "canary-api-key-77aa"
	)
	d := newDev(t)
	d.start(t)
	admin := d.admin()
	s := bring(t, admin, "kept", d.demoURL(), active)
	for _, url := range []string{
		"http://somebody:" + password + "@" + d.demo + "/mcp", d.demoURL() + "?api_key=" + key, "http://somebody:" + password + "@ bad",
	} {
		_, err := admin.register(t.Context(), "key of "+url, "refused", url)
		if reason := reasonOf(err); reason != registry.ReasonSecretInRequest && reason != registry.ReasonInvalidArgument || mentions(err.Error(), password, key) {
			t.Errorf("registering with a secret in the URL: %v", err)
		}
		if _, err := admin.servers.UpdateMcpServer(t.Context(), patchURL(s.GetServerId(), url)); err == nil || mentions(err.Error(), password, key) {
			t.Errorf("editing with a secret in the URL: %v", err)
		}
	}
	// Refused tokens, on every face.
	stranger := call(d.url(), wrong)
	if _, err := stranger.get(t.Context(), "kept"); reasonOf(err) != registry.ReasonUnauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
	for _, path := range []string{"/factory/mcp-servers", "/factory/nothing", "/countersign.registry.v1.McpServerService/Nothing", "/?token=" + wrong} {
		if _, err := send(t.Context(), http.MethodGet, d.url()+path, wrong, "", nil); err == nil || mentions(strings.ReplaceAll(err.Error(), d.url()+path, ""), wrong) {
			t.Errorf("%s with a wrong token: %v", path, err)
		}
	}
	if _, log, code := (terminal{d.url(), wrong}).run(t, "server", "list"); code != 4 || mentions(log, wrong) {
		t.Errorf("the client with a wrong token: exit code %d: %s", code, log)
	}
	// A call that fails inside, and a decision that is recorded as refused.
	if err := admin.denied(t.Context(), "kept.nothing", registry.ReasonToolNotFound); err != nil {
		t.Error(err)
	}
	if _, err := admin.approve(t.Context(), "kept"); err != nil {
		t.Logf("approved again: %v", err)
	}
	d.kill() // whatever was on its way to a file stays there
	d.start(t)
	d.stop(t)

	secrets := []string{wrong, password, key}
	for _, tokens := range d.tokens {
		for _, token := range tokens {
			secrets = append(secrets, token)
		}
	}
	if len(secrets) < 3+2*len(registry.Roles()) {
		t.Errorf("there are only %d secrets", len(secrets))
	}
	for i, log := range d.wroteLog {
		if mentions(log.String(), secrets...) {
			t.Errorf("the log of run %d has a secret:\n%s", i+1, log.String())
		}
	}
	files := 0
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "tokens.json" {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s has the secret %s", entry.Name(), secret)
			}
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files: %v", files, err)
	}
	// Everybody but the owner is kept from all of it.
	for _, name := range []string{"tokens.json", "issuer.json", "countersign.db", "temporal.db"} {
		if info, err := os.Stat(filepath.Join(d.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v: %v", name, info.Mode(), err)
		}
	}
}

func mentions(text string, secrets ...string) bool {
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			return true
		}
	}
	return false
}
