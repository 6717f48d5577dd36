package main

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"countersign/registry"
)

// The exit codes. Scripts depend on them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitAuth        = 4
	exitConflict    = 5
	exitTimeout     = 6
	exitFindings    = 7
	exitInterrupted = 130
)

// exits says what each exit code means.
var exits = []struct {
	code  int
	means string
}{
	{exitOK, "done; also when a list is empty, and when a tool may not be called"},
	{exitFailure, "failed: the API or an MCP server is away or at fault"},
	{exitUsage, "the command or a value in it is wrong, or a question was answered with no"},
	{exitNotFound, "there is no such server, tool or context"},
	{exitAuth, "no usable token, or the token may not do this"},
	{exitConflict, "stale, already decided or taken, or the state does not allow it; look again"},
	{exitTimeout, "the time of --timeout or --wait-for is over; the work may go on"},
	{exitFindings, "diff: something is breaking or escalating; policy check and test: the bundle has faults, or a test fails; tools resolve --exit-code: at least one tool may not be called; doctor: a check failed; reconcile: something is left that differs"},
	{exitInterrupted, "interrupted"},
}

// codeExits gives the exit code of each error code.
var codeExits = map[registry.Code]int{
	registry.CodeInvalid:         exitUsage,
	registry.CodeUnauthenticated: exitAuth,
	registry.CodeForbidden:       exitAuth,
	registry.CodeNotFound:        exitNotFound,
	registry.CodeAlreadyExists:   exitConflict,
	registry.CodeAborted:         exitConflict,
	registry.CodePrecondition:    exitConflict,
	registry.CodeKeyReused:       exitConflict,
	registry.CodeExhausted:       exitFailure,
	registry.CodeUnavailable:     exitFailure,
	registry.CodeDeadline:        exitTimeout,
	registry.CodeRemote:          exitFailure,
	registry.CodeRemotePermanent: exitFailure,
	registry.CodeInternal:        exitFailure,
}

// connectExits gives the exit code of errors that come without a reason that
// we know.
var connectExits = map[connect.Code]int{
	connect.CodeCanceled:           exitFailure,
	connect.CodeUnknown:            exitFailure,
	connect.CodeInvalidArgument:    exitUsage,
	connect.CodeDeadlineExceeded:   exitTimeout,
	connect.CodeNotFound:           exitNotFound,
	connect.CodeAlreadyExists:      exitConflict,
	connect.CodePermissionDenied:   exitAuth,
	connect.CodeResourceExhausted:  exitFailure,
	connect.CodeFailedPrecondition: exitConflict,
	connect.CodeAborted:            exitConflict,
	connect.CodeOutOfRange:         exitUsage,
	connect.CodeUnimplemented:      exitFailure,
	connect.CodeInternal:           exitFailure,
	connect.CodeUnavailable:        exitFailure,
	connect.CodeDataLoss:           exitFailure,
	connect.CodeUnauthenticated:    exitAuth,
}

// exitOf gives the exit code of an error of the API: by its reason, else by
// its Connect code.
func exitOf(reason registry.Reason, code connect.Code) int {
	if reason != registry.ReasonInternal && reason.Means() != "" {
		return codeExits[reason.Code()]
	}
	if exit, ok := connectExits[code]; ok {
		return exit
	}
	return exitFailure
}

// exitCodesTopic is "countersign help exit-codes".
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of countersign:\n\n")
	for _, e := range exits {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.means)
	}
	b.WriteString(`
A failed command says why on standard error: "error:", the stable reason code,
and what to do next. With -o json, jsonl or yaml the same is one JSON object.`)
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
