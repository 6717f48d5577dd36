package main

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/rogpeppe/go-internal/testscript"

	"countersign/mcptest"
	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"countersign": main, "peer": peer, "xdg-open": browser})
}

// The scripts run the true program in a process of its own against a fake API.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			fake, server := startFake()
			env.Defer(server.Close)
			env.Values["fake"] = fake
			honest, err := mcptest.Fixture("honest")
			if err != nil {
				return err
			}
			stranger, err := honest.Start()
			if err != nil {
				return err
			}
			env.Defer(stranger.Close)
			env.Setenv("MCP", stranger.URL)
			strict := httptest.NewServer(http.HandlerFunc(demanding))
			env.Defer(strict.Close)
			env.Setenv("DEMANDING_MCP", strict.URL)
			env.Setenv("COUNTERSIGN_SERVER", server.URL)
			env.Setenv("COUNTERSIGN_TOKEN", fakeToken)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("TOKEN", fakeToken)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second longer under the race detector
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": scriptExits, "api": scriptAPI, "mode": scriptMode},
	})
}

// scriptExits runs a command that must end with an exit code: exits CODE COMMAND...
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// scriptMode compares the permissions of a file: mode PERMISSIONS FILE
func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// scriptAPI makes the fake API behave:
//
//	api calls FILE            write down the calls so far, and forget them
//	api refuse CODE REASON [NEXT]
//	                          refuse the next call so
//	api hang                  answer nothing any more
//	api await N               wait until N calls have come
//	api turn NAME STATE LOOKS bring a server into a state, after some looks at it
func scriptAPI(ts *testscript.TestScript, _ bool, args []string) {
	fake := ts.Value("fake").(*fakeAPI)
	if args[0] == "await" {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			fake.mu.Lock()
			seen := len(fake.calls)
			fake.mu.Unlock()
			if seen >= n {
				return
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%d calls came, not %d", seen, n)
			}
		}
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	switch args[0] {
	case "calls":
		text := ""
		for _, call := range fake.calls {
			text += call + "\n"
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
		fake.calls = nil
	case "refuse":
		var code connect.Code
		ts.Check(code.UnmarshalText([]byte(args[1])))
		next := strings.Join(args[3:], " ")
		fake.refusals = append(fake.refusals, refusal(code, registry.Reason(args[2]), next, nil, "refused for the test"))
	case "hang":
		fake.hangs = true
	case "turn":
		looks, err := strconv.Atoi(args[3])
		ts.Check(err)
		state := registryv1.McpServerState(registryv1.McpServerState_value["MCP_SERVER_STATE_"+strings.ToUpper(args[2])])
		fake.later[args[1]] = append(fake.later[args[1]], lateTurn{looks, state})
	default:
		ts.Fatalf("unknown: api %s", args[0])
	}
}
