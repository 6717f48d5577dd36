package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installation is the product in separate processes around one database and
// one namespace of Temporal.
type installation struct {
	database, namespace string
	tokens              map[string]string // of an administrator of the platform, by tenant
	env                 []string
}

// node is a process of an installation.
type node struct {
	*process

	listen string // of an api
}

func (n *node) url() string { return "http://" + n.listen }

// newInstallation makes a namespace that was not there before, and the tables.
// The development process lends its Temporal.
func newInstallation(t testing.TB, temporal *dev, database string, env ...string) *installation {
	t.Helper()
	i := &installation{database: database, namespace: "countersign-e2e"}
	i.env = append([]string{
		"COUNTERSIGN_DATABASE_URL=" + database, i.writeTokens(t),
		"COUNTERSIGN_ALLOW_NONE_AUTHENTICATION_EXCEPTIONS=true", "COUNTERSIGN_OUTBOUND_ALLOW_NETWORKS=127.0.0.0/8",
		"COUNTERSIGN_TEMPORAL_UI_URL=http://" + temporal.ui, "COUNTERSIGN_SHUTDOWN_DELAY=500ms",
		"COUNTERSIGN_LIMITS_CHANGES_REQUESTS_PER_SECOND=0", // a tenant of a test changes in seconds what others do in days
		// Temporal's own names.
		"TEMPORAL_ADDRESS=" + temporal.temporal, "TEMPORAL_NAMESPACE=" + i.namespace,
	}, env...)
	i.command(t, "applied ", "migrate", "up")
	i.command(t, "made namespace "+i.namespace, "migrate", "temporal")
	i.command(t, "nothing to do", "migrate", "temporal")
	return i
}

// writeTokens makes an administrator of the platform for both tenants, and
// gives the setting that names the file.
func (i *installation) writeTokens(t testing.TB) (setting string) {
	t.Helper()
	i.tokens = map[string]string{first: "canary-first-4f1b7c02d9e8", second: "canary-second-83aa06cbe71d"}
	var text strings.Builder
	text.WriteString("tokens:\n")
	for tenant, token := range i.tokens {
		fmt.Fprintf(&text, "  - {token: %s, tenant: %s, subject: %s-admin, roles: [PlatformAdmin]}\n", token, tenant, tenant)
	}
	return "COUNTERSIGN_AUTH_TOKENS_FILE=" + write(t, text.String())
}

// write makes a file and gives its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs a command that must succeed and say something.
func (i *installation) command(t testing.TB, says string, args ...string) {
	t.Helper()
	p := launch(t, "countersign", i.env, args...)
	if code := p.await(t); code != 0 || !strings.Contains(p.out.String(), says) {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, p.out.String(), p.log.String())
	}
}

// serve starts a process and waits until it is ready.
func (i *installation) serve(t testing.TB, role string) node {
	t.Helper()
	n := node{listen: address(t)}
	n.start(t, i, role)
	return n
}

func (n *node) start(t testing.TB, i *installation, role string) {
	t.Helper()
	n.launch(t, i, role)
	n.awaitReady(t, role)
}

func (n *node) launch(t testing.TB, i *installation, role string) {
	t.Helper()
	n.process = launch(t, "countersign", i.env, "serve", "--role="+role, "--listen="+n.listen)
}

func (n *node) awaitReady(t testing.TB, role string) {
	t.Helper()
	until(t, role+" is ready", patience, func() error {
		switch {
		case n.over():
			return final{fmt.Errorf("it ended: %s\n%s", n.cmd.ProcessState, n.log.String())}
		case !strings.Contains(n.log.String(), `"msg":"ready"`):
			return fmt.Errorf("it says %s", tail(n.log.String()))
		case role == "worker":
			return nil
		}
		return n.readyz(t, http.StatusOK)
	})
}

// readyz wants a status of /readyz.
func (n *node) readyz(t testing.TB, want int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url()+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("/readyz says %s", response.Status)
	}
	return nil
}

// caller is a tenant's administrator of the platform at one api.
func (i *installation) caller(n node, tenant string) caller { return call(n.url(), i.tokens[tenant]) }
