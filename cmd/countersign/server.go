package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Short names of what the commands ask about most.
const (
	stateRegistered = registryv1.McpServerState_MCP_SERVER_STATE_REGISTERED
	stateVerified   = registryv1.McpServerState_MCP_SERVER_STATE_VERIFIED
	stateActive     = registryv1.McpServerState_MCP_SERVER_STATE_ACTIVE
	stateDegraded   = registryv1.McpServerState_MCP_SERVER_STATE_DEGRADED
	stateRetired    = registryv1.McpServerState_MCP_SERVER_STATE_RETIRED

	reviewPending = registryv1.ReviewStatus_REVIEW_STATUS_PENDING

	discoveryFailed  = registryv1.DiscoveryStatus_DISCOVERY_STATUS_FAILED
	discoveryRunning = registryv1.DiscoveryStatus_DISCOVERY_STATUS_RUNNING
)

func newServerCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "server", Aliases: []string{"servers"},
		Short: "The life of MCP servers: register, discover, approve, retire",
		Long: `The life of MCP servers: register, discover, approve, retire.

A registered server becomes verified by a handshake and a discovery, and active
by an approval of exactly what was discovered. NAME is a server's name or id.`,
	}
	group(command)
	command.AddCommand(
		registerCommand(c),
		getServerCommand(c),
		listServersCommand(c),
		describeCommand(c),
		healthCommand(c),
		reportCommand(c),
		discoverCommand(c),
		testServerCommand(c),
		runsCommand(c),
		updateCommand(c),
		reviewCommand(c),
		versionsCommand(c),
		serverDiffCommand(c),
		decisionsCommand(c),
		approveCommand(c),
		approveLaunchCommand(c),
		rejectCommand(c),
		requestReviewCommand(c),
		quarantineCommand(c),
		renewExceptionCommand(c),
		decisionTokenCommand(c),
		retireCommand(c),
	)
	return command
}

type server = *registryv1.McpServer

var servers = view[server]{
	plural: "servers",
	name:   server.GetName,
	columns: []column[server]{
		{title: "NAME", text: server.GetName},
		{title: "STATE", text: func(s server) string { return word(s.GetState()) }},
		{title: "HEALTH", text: func(s server) string { return healthWord(s.GetHealth()) }},
		{title: "REVIEW", text: func(s server) string { return word(s.GetReview().GetStatus()) }},
		{title: "CALLABLE", text: func(s server) string {
			return fmt.Sprintf("%d/%d", s.GetCounts().GetCallableTools(), s.GetCounts().GetAvailableTools())
		}},
		{title: "URL", text: func(s server) string { return some(" ", s.GetEndpointUrl(), commandLine(s)) }},
		{title: "ID", wide: true, text: server.GetServerId},
		{title: "DIRECTION", wide: true, text: func(s server) string { return word(s.GetDirection()) }},
		{title: "TRANSPORT", wide: true, text: func(s server) string { return word(s.GetTransport()) }},
		{title: "CONNECTION", wide: true, text: sharedConnection},
		{title: "AUTHENTICATION", wide: true, text: func(s server) string { return word(s.GetAuthentication()) }},
		{title: "PROTOCOL", wide: true, text: server.GetProtocolVersion},
		{title: "OWNER", wide: true, text: server.GetOwner},
		{title: "LAST HANDSHAKE", wide: true, text: func(s server) string { return when(s.GetLastHandshakeAt()) }},
		{title: "UPDATED", wide: true, text: func(s server) string { return when(s.GetUpdateTime()) }},
	},
}

// sharedConnection is the version of a connection with a name that a server pins.
func sharedConnection(s server) string {
	if strings.HasPrefix(s.GetEndpointRef(), s.GetServerId()) {
		return "" // made for it alone
	}
	return s.GetEndpointRef()
}

// commandLine names the command of a server, and says when nothing keeps it from
// the machine.
func commandLine(s server) string {
	if s.GetCommand().GetSandbox() == string(registry.SandboxNone) {
		return s.GetCommandRef() + " (no sandbox)"
	}
	return s.GetCommandRef()
}

// healthWord is the level, with the reason where it is not simply well.
func healthWord(h *registryv1.Health) string {
	level := word(h.GetLevel())
	if h.GetReason() == "" || h.GetReason() == "ok" || h.GetReason() == level {
		return level
	}
	return some(": ", level, h.GetReason())
}

// showServer writes a server that was changed, and what to type next.
func (c *cli) showServer(s server) error {
	if err := showRow(c, servers, s); err != nil {
		return err
	}
	for _, warning := range s.GetWarnings() {
		c.notef("warning: %s", warning)
	}
	c.nextf("%s", nextCommand(s))
	return nil
}

// nextCommand is what somebody would type next about a server as it is.
func nextCommand(s server) string {
	about := func(verb string) string { return "countersign server " + verb + " " + s.GetName() }
	what := " --all --class CLASS"
	if counts := s.GetCounts(); counts != nil && counts.GetAvailableTools() == 0 {
		what = " --empty" // there is no tool that could be approved
	}
	if len(s.GetReview().GetVotes()) > 0 {
		what = " --same" // as somebody approved before
	}
	approve := about("approve") + what
	failed := s.GetDiscovery().GetStatus() == discoveryFailed
	pending := s.GetReview().GetStatus() == reviewPending
	has := func(causes ...registry.Cause) bool {
		return slices.ContainsFunc(causes, func(c registry.Cause) bool { return slices.Contains(s.GetCauses(), string(c)) })
	}
	if s.GetLaunch().GetStatus() == launchPending && s.GetState() != stateRetired {
		return about("approve-launch")
	}
	switch s.GetState() {
	case stateRegistered:
		if failed {
			return about("test")
		}
		return about("describe")
	case stateVerified:
		switch {
		case failed:
			return about("discover")
		case pending:
			return approve
		}
		return about("request-review")
	case stateActive:
		if pending {
			return approve
		}
		return fmt.Sprintf(`countersign tools list --filter 'server = "%s"'`, s.GetName())
	case stateDegraded:
		switch {
		case has(registry.CauseQuarantined, registry.CauseServerTextChanged) && !pending:
			return about("request-review")
		case has(registry.CauseQuarantined, registry.CauseServerTextChanged):
			return approve
		case has(registry.CauseAuthExceptionExpired):
			return approve + " --exception-expires 720h"
		case has(registry.CauseHandshake):
			return about("test")
		}
		return about("discover")
	default: // retired
		return ""
	}
}
