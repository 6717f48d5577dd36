package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"countersign/registry"
)

func documented(exit int) bool {
	for _, e := range exits {
		if e.code == exit {
			return true
		}
	}
	return false
}

func TestEveryErrorHasADocumentedExitCode(t *testing.T) {
	t.Parallel()
	for _, code := range registry.Codes() {
		if exit, ok := codeExits[code]; !ok || exit == exitOK || !documented(exit) {
			t.Errorf("code %s ends with %d", code, exit)
		}
	}
	if len(codeExits) != len(registry.Codes()) {
		t.Errorf("%d codes have exit codes, there are %d", len(codeExits), len(registry.Codes()))
	}
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		if exit, ok := connectExits[code]; !ok || exit == exitOK || !documented(exit) {
			t.Errorf("Connect code %s ends with %d", code, exit)
		}
	}
}

func TestTheReasonDecidesBeforeTheConnectCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason registry.Reason
		code   connect.Code
		want   int
	}{
		{registry.ReasonServerNotFound, connect.CodeInternal, exitNotFound},
		{registry.ReasonToolNotFound, connect.CodeNotFound, exitNotFound},
		{registry.ReasonStaleEtag, connect.CodeAborted, exitConflict},
		{registry.ReasonSuperseded, connect.CodeAborted, exitConflict},
		{registry.ReasonServerExists, connect.CodeAlreadyExists, exitConflict},
		{registry.ReasonIllegalTransition, connect.CodeFailedPrecondition, exitConflict},
		{registry.ReasonIdempotencyKeyReused, connect.CodeFailedPrecondition, exitConflict},
		{registry.ReasonUnreachable, connect.CodeFailedPrecondition, exitFailure},
		{registry.ReasonTLS, connect.CodeFailedPrecondition, exitFailure},
		{registry.ReasonPermissionDenied, connect.CodePermissionDenied, exitAuth},
		{registry.ReasonUnauthenticated, connect.CodeUnauthenticated, exitAuth},
		{registry.ReasonInvalidFilter, connect.CodeInvalidArgument, exitUsage},
		{registry.ReasonDeadline, connect.CodeDeadlineExceeded, exitTimeout},
		{registry.ReasonBusy, connect.CodeResourceExhausted, exitFailure},
		{"not_invented_yet", connect.CodeNotFound, exitNotFound},
		{"", connect.CodeAborted, exitConflict},
		{"", connect.Code(99), exitFailure},
	} {
		if got := exitOf(c.reason, c.code); got != c.want {
			t.Errorf("%s with %s ends with %d, want %d", c.reason, c.code, got, c.want)
		}
	}
}

func TestHelpListsEveryExitCode(t *testing.T) {
	t.Parallel()
	text := exitCodesTopic().Long
	for _, e := range exits {
		if !strings.Contains(text, e.means) {
			t.Errorf("the help does not say that %d means %q", e.code, e.means)
		}
	}
	all := []int{exitOK, exitFailure, exitUsage, exitNotFound, exitAuth, exitConflict, exitTimeout, exitFindings, exitInterrupted}
	if !slices.ContainsFunc(all, documented) || len(all) != len(exits) {
		t.Errorf("%d exit codes are documented, there are %d", len(exits), len(all))
	}
}

// testCLI is a run of the program without the surroundings of this process.
func testCLI(env map[string]string) (c *cli, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli{
		stdin: strings.NewReader(""), stdout: out, stderr: errs,
		getenv: func(name string) string { return env[name] },
		now:    func() time.Time { return time.Date(2026, time.November, 3, 0, 0, 0, 0, time.UTC) },
	}, out, errs
}

func TestAnInterruptEndsWith130(t *testing.T) {
	t.Parallel()
	fake, url := testServer(t)
	fake.hangs = true
	for _, args := range [][]string{
		{"server", "list"},
		{"server", "get", "demo"},
		{"server", "register", "new", "--url", "https://x", "--auth", "oauth2", "--wait", "verified"},
		{"tools", "resolve", "search.query"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, interrupt)
		c, out, errs := testCLI(map[string]string{"COUNTERSIGN_SERVER": url, "COUNTERSIGN_TOKEN": fakeToken, "HOME": t.TempDir()})
		if exit := execute(ctx, c, args); exit != exitInterrupted || out.Len() > 0 || errs.String() != "error: interrupted\n" {
			t.Errorf("%v: %d\n%s\n%s", args, exit, out, errs)
		}
		timer.Stop()
		interrupt()
	}
}
