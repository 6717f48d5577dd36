package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	apiroom "countersign/api"
	"countersign/cmd/internal/issuer"
	"countersign/db"
	"countersign/registry"
)

// trusting is a true API, with the issuer of the development process as the one
// that it trusts.
type trusting struct {
	url    string
	people *issuer.Issuer
	calls  *tally
}

// tally counts requests by path.
type tally struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *tally) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.all[r.URL.Path]++
		c.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (c *tally) of(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[path]
}

// startTrusting serves the API until stop. Tokens live as long as life says.
func startTrusting(dir string, life time.Duration) (_ *trusting, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	t := &trusting{url: "http://" + listener.Addr().String(), calls: &tally{all: map[string]int{}}}
	at := t.url + "/dev/issuer"
	people := []issuer.User{
		{Subject: "alice", Tenant: "payments", Roles: []string{"PlatformAdmin"}, Scopes: []string{"factory.tools.read", "factory.tools.admin"}},
		{Subject: "bob", Tenant: "data", Roles: []string{"Observer"}, Scopes: []string{"factory.tools.read"}},
		{Subject: "mallory", Tenant: "No Tenant"},
	}
	t.people, err = issuer.New(issuer.Options{
		URL: at, File: filepath.Join(dir, "issuer.json"), Audience: "countersign", Users: people, Life: life,
		Clients: []issuer.Client{{ID: "cli", Redirects: []string{"http://127.0.0.1/callback"}}},
	})
	if err != nil {
		return nil, nil, err
	}
	auth, err := apiroom.NewAuthenticator(apiroom.AuthOptions{
		Issuers: []apiroom.Issuer{{Issuer: at, Audience: "countersign", LoginClientID: "cli", LoginScopes: []string{"openid", "offline_access"}}},
		Client:  http.DefaultClient,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := db.Open(context.Background(), db.Options{URL: "sqlite:" + filepath.Join(dir, "api.db")})
	if err != nil {
		return nil, nil, err
	}
	if _, err := store.Up(context.Background()); err != nil {
		return nil, nil, err
	}
	pages := http.NewServeMux()
	pages.Handle("/dev/issuer/", t.calls.count(t.people.Handler()))
	handler, err := apiroom.New(apiroom.Options{DB: store, Workflows: struct{ apiroom.Changes }{}, Auth: auth, Fallback: pages})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- apiroom.Serve(ctx, listener, handler) }()
	return t, func() {
		cancel()
		<-ended
		_ = store.Close()
	}, nil
}

var (
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	button = regexp.MustCompile(`<button name="user" value="([^"]*)">`)
)

// signIn is a browser: it opens an address, chooses a person, and follows to
// where it is sent.
func signIn(address, who string) (string, error) {
	page, err := http.Get(address)
	if err != nil {
		return "", err
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %w %s", page.Status, err, text)
	}
	form := url.Values{"user": {who}}
	for _, field := range hidden.FindAllStringSubmatch(string(text), -1) {
		form.Add(field[1], strings.NewReplacer("&#43;", "+", "&amp;", "&").Replace(field[2]))
	}
	if len(button.FindAllString(string(text), -1)) == 0 {
		return "", fmt.Errorf("nobody can sign in on %s", text)
	}
	back, err := http.PostForm(address, form)
	if err != nil {
		return "", err
	}
	defer back.Body.Close()
	said, err := io.ReadAll(back.Body)
	return string(said), err
}

// browser is xdg-open: it signs in as the person that the test wants.
func browser() {
	who := os.Getenv("SIGN_IN_AS")
	if who == "" {
		os.Exit(0) // somebody closed the window
	}
	if _, err := signIn(os.Args[1], who); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The scripts run the true program against a true API, and a browser that
// chooses a person on the true page.
func TestLoginScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/login", UpdateScripts: *update, RequireUniqueNames: true, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			life := 15 * time.Minute
			if strings.Contains(env.WorkDir, "renew") {
				life = 10 * time.Second // less than what is left when a token is renewed
			}
			api, stop, err := startTrusting(env.WorkDir, life)
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Values["trusting"] = api
			env.Setenv("API", api.url)
			env.Setenv("PORT", api.url[strings.LastIndex(api.url, ":")+1:])
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": scriptExits, "mode": scriptMode, "asked": scriptAsked},
	})
}

// scriptAsked compares how often a path of the issuer was asked: asked N PATH
func scriptAsked(ts *testscript.TestScript, _ bool, args []string) {
	api := ts.Value("trusting").(*trusting)
	if got := fmt.Sprint(api.calls.of("/dev/issuer" + args[1])); got != args[0] {
		ts.Fatalf("%s was asked %s times, not %s", args[1], got, args[0])
	}
}

// waitFor gives what a pattern finds in what a command says meanwhile.
func waitFor(t *testing.T, said func() string, pattern string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found := regexp.MustCompile(pattern).FindString(said()); found != "" {
			return found
		}
	}
	t.Fatalf("it does not say %s:\n%s", pattern, said())
	return ""
}

// lockedText is a stream that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// loggingIn runs login --no-browser and gives the address that it says, and how
// it ends.
func loggingIn(t *testing.T, api *trusting, args ...string) (address string, end func() (int, string)) {
	t.Helper()
	c, _, _ := testCLI(map[string]string{"HOME": t.TempDir()})
	said := &lockedText{}
	c.stderr, c.now = said, time.Now
	exit := make(chan int, 1)
	go func() {
		exit <- execute(t.Context(), c, append([]string{"login", "--server", api.url, "--no-browser"}, args...))
	}()
	address = waitFor(t, said.String, `(?m)^http://127.*authorize.*$`)
	return address, func() (int, string) { return <-exit, said.String() }
}

func newTrusting(t *testing.T) *trusting {
	t.Helper()
	api, stop, err := startTrusting(t.TempDir(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return api
}

// B13, B14: what comes back to the client without being the answer to its own
// question changes nothing, and the answer of somebody else ends it.
func TestTheWayBackIsGuarded(t *testing.T) {
	t.Parallel()
	api := newTrusting(t)
	for name, c := range map[string]struct {
		change func(q url.Values)
		status int
		exit   int
		says   string
	}{
		"another state":       {func(q url.Values) { q.Set("state", "another") }, http.StatusBadRequest, -1, ""},
		"no state":            {func(q url.Values) { q.Del("state") }, http.StatusBadRequest, -1, ""},
		"another issuer":      {func(q url.Values) { q.Set("iss", "https://other.example.com") }, http.StatusBadRequest, exitAuth, "another issuer answered"},
		"no issuer":           {func(q url.Values) { q.Del("iss") }, http.StatusBadRequest, exitAuth, "another issuer answered"},
		"an error":            {func(q url.Values) { q.Set("error", "access_denied\x1b[2J") }, http.StatusBadRequest, exitAuth, `access_denied\x1b`},
		"no code":             {func(q url.Values) { q.Del("code") }, http.StatusBadRequest, exitAuth, "no code"},
		"somebody's own code": {func(q url.Values) { q.Set("code", "guessed") }, http.StatusOK, exitAuth, "invalid_grant"},
	} {
		address, end := loggingIn(t, api)
		asked, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := asked.Query()
		if q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 {
			t.Errorf("%s: it asks by %s", name, address)
		}
		back := url.Values{"state": {q.Get("state")}, "iss": {api.url + "/dev/issuer"}, "code": {"x"}}
		c.change(back)
		response, err := http.Get(q.Get("redirect_uri") + "?" + back.Encode())
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: the browser sees %s", name, response.Status)
		}
		if c.exit < 0 { // it still waits for the true answer
			if _, err := signIn(address, "data/bob"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			c.exit = exitOK
		}
		if exit, said := end(); exit != c.exit || !strings.Contains(said, c.says) || strings.Contains(said, "\x1b") {
			t.Errorf("%s: exit code %d\n%s", name, exit, said)
		}
	}
}

func TestNobodySignsInOverAnOpenNetwork(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a server without TLS":  {"login", "--server", "http://countersign.example.com"},
		"an issuer without TLS": {"login", "--server", "http://127.0.0.1:1", "--issuer", "http://login.example.com", "--client-id", "x"},
		"an issuer of no kind":  {"login", "--server", "http://127.0.0.1:1", "--issuer", "javascript:alert(1)", "--client-id", "x"},
		"a token as well":       {"login", "--token", "x"},
	} {
		c, _, errs := testCLI(map[string]string{"HOME": t.TempDir()})
		if exit := execute(t.Context(), c, args); exit != exitUsage {
			t.Errorf("%s: exit code %d: %s", name, exit, errs)
		}
	}
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "http://login.example.com/", "vbscript:x", "", "//x"} {
		if err := browse(t.Context(), address); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q is opened: %v", address, err)
		}
	}
}

// Several programs of one person renew a token once, for all of them.
func TestATokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api, stop, err := startTrusting(dir, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	home := map[string]string{"HOME": t.TempDir()}
	c, _, _ := testCLI(home)
	said := &lockedText{}
	c.stderr, c.now = said, time.Now
	exit := make(chan int, 1)
	go func() { exit <- execute(t.Context(), c, []string{"login", "--server", api.url, "--no-browser"}) }()
	if _, err := signIn(waitFor(t, said.String, `(?m)^http://127.*authorize.*$`), "data/bob"); err != nil || <-exit != exitOK {
		t.Fatalf("%v\n%s", err, said.String())
	}
	before := api.calls.of("/dev/issuer/token")
	late := time.Now().Add(4*time.Minute + 45*time.Second) // so late that the token has to be renewed
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, out, errs := testCLI(home)
			c.now = func() time.Time { return late }
			if exit := execute(t.Context(), c, []string{"whoami", "-o", "name"}); exit != exitOK || out.String() != "bob\n" {
				t.Errorf("exit code %d: %s%s", exit, out, errs)
			}
		})
	}
	all.Wait()
	// The new token is good for five minutes of the issuer's clock, which is also
	// too short for the clock of these programs: each renews it in its turn, and
	// none loses it to another.
	if n := api.calls.of("/dev/issuer/token") - before; n < 1 || n > 8 {
		t.Errorf("the issuer was asked %d times", n)
	}
	c, out, errs := testCLI(home)
	c.now = time.Now
	if exit := execute(t.Context(), c, []string{"whoami"}); exit != exitOK || !strings.Contains(out.String(), string(registry.RoleObserver)) {
		t.Errorf("in the end: exit code %d: %s%s", exit, out, errs)
	}
}
