package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/registry"
)

// The tenants of a development process.
const (
	first  = "default"
	second = "other"
)

// dev is a development process that can be started again on the same data and
// the same ports.
type dev struct {
	*process

	dir                  string
	listen, temporal, ui string
	demo                 string
	interval             time.Duration // between probes
	flags                []string      // further ones
	tokens               map[string]map[registry.Role]string
	wroteLog             []*record // of all runs
}

// newDev chooses a directory and ports.
func newDev(t testing.TB) *dev {
	t.Helper()
	return &dev{
		dir: t.TempDir(), listen: address(t), temporal: address(t), ui: address(t), demo: address(t), interval: 5 * time.Minute,
	}
}

func (d *dev) url() string { return "http://" + d.listen }

// demoURL is where the demo server lets everybody in.
func (d *dev) demoURL() string { return "http://" + d.demo + "/open/mcp" }

// database is the file of the registry.
func (d *dev) database() string { return filepath.Join(d.dir, "countersign.db") }

// starting lets few processes start at once: a start is all work, and all at
// once are slower than one after the other.
var starting = make(chan struct{}, 2)

// launch starts the process and waits for nothing but its turn.
func (d *dev) launch(t testing.TB, env ...string) {
	t.Helper()
	starting <- struct{}{}
	started := false
	defer func() {
		if !started {
			<-starting
		}
	}()
	args := append([]string{
		"--listen", d.listen, "--temporal-listen", d.temporal, "--temporal-ui-listen", d.ui,
		"--demo-listen", d.demo, "--data-dir", d.dir, "--probe-interval", d.interval.String(),
	}, d.flags...)
	d.process = launch(t, "countersign-dev", env, args...)
	d.wroteLog = append(d.wroteLog, &d.log)
	p := d.process
	started = true
	go func() {
		defer func() { <-starting }()
		for range int(patience / pause) {
			select {
			case <-p.ended:
				return
			case <-time.After(pause):
			}
			if p.ready() {
				return
			}
		}
	}()
}

// ready says whether a development process said that it is.
func (p *process) ready() bool {
	return strings.Contains(p.out.String(), "\n  go run ./cmd/countersign tools resolve")
}

// start starts the process and waits until it is ready.
func (d *dev) start(t testing.TB, env ...string) {
	t.Helper()
	d.launch(t, env...)
	if !d.awaitReady(t) {
		t.Fatalf("the process ended before it was ready: %s\n%s", d.cmd.ProcessState, d.log.String())
	}
}

// awaitReady says whether the process became ready rather than ended.
func (d *dev) awaitReady(t testing.TB) (ready bool) {
	t.Helper()
	until(t, "the development process is ready", patience, func() error {
		ready = d.ready()
		if !ready && !d.over() {
			return errors.New("it has not said so")
		}
		return nil
	})
	if ready && d.tokens == nil {
		d.readTokens(t)
	}
	return ready
}

func (d *dev) readTokens(t testing.TB) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	d.tokens = map[string]map[registry.Role]string{first: {}, second: {}}
	for key, value := range file {
		tokens := map[registry.Role]string{}
		if key == second {
			err = json.Unmarshal(value, &tokens)
			d.tokens[second] = tokens
		} else {
			var token string
			err = json.Unmarshal(value, &token)
			d.tokens[first][registry.Role(key)] = token
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
}

// admin is the API as the first tenant's administrator of the platform sees it.
func (d *dev) admin() caller { return call(d.url(), d.tokens[first][registry.RolePlatformAdmin]) }

// switchDemo stops or starts the demo server.
func (d *dev) switchDemo(ctx context.Context, what string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.demo+"/demo/"+what, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("POST /demo/%s: %s", what, response.Status)
	}
	return nil
}

func (d *dev) demoServer(t testing.TB, what string) {
	t.Helper()
	if err := d.switchDemo(t.Context(), what); err != nil {
		t.Fatal(err)
	}
}
