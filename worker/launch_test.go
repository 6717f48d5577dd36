package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/db"
	"countersign/mcpclient"
	"countersign/registry"
	"countersign/workflows"
)

// speaker is a server of one tool in a line of shell.
const speaker = `while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
  *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
  *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"say","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}]}}' ;;
  esac
done`

// allowList is what the operator of a house allows; it may be changed.
type allowList struct {
	mu   sync.Mutex
	argv []string
}

func (l *allowList) set(argv ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.argv = argv
}

func (l *allowList) find(_, ref string) (registry.Command, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ref != "speaker" {
		return registry.Command{}, registry.Errorf(registry.ReasonUnknownCommand, "there is no command %q", ref)
	}
	return registry.Command{Ref: ref, Argv: l.argv, Sandbox: registry.SandboxNone}, nil
}

// allow gives a house an allow-list with the speaker.
func (h *house) allow() *allowList {
	l := &allowList{}
	l.set("/bin/sh", "-c", speaker)
	h.acts.Command = l.find
	client, _ := h.acts.MCP.(*mcpclient.Client)
	client.Commands = func(_ context.Context, target registry.Target) (mcpclient.Command, error) {
		return mcpclient.Command{Argv: target.Command.Argv, Sandbox: "none", Start: 20 * time.Second}, nil
	}
	return l
}

func byCommand(in *workflows.RegisterInput) {
	g := &in.Registration
	g.Transport, g.URL, g.CommandRef = registry.TransportStdio, "", "speaker"
}

func (h *house) decide(name string, ruling registry.Ruling) {
	h.Helper()
	_, err := h.client.Decide(h.Context(), name, workflows.DecideInput{
		Tenant: "default", ServerID: h.get(name).ServerID, Operation: operation(string(ruling.Verb)), Ruling: ruling,
	})
	if err != nil {
		h.Fatal(err)
	}
}

// launched plays the life of a server that a command starts: launched,
// discovered, approved, its command changed and launched again.
func (h *house) launched(name string) {
	h.Helper()
	l := h.allow()
	s := h.register(name, "", byCommand)
	if s.State != registry.StateRegistered || !s.LaunchPending() || s.Discovery.Number != 0 {
		h.Fatalf("registered: %+v", s)
	}
	h.decide(name, registry.Ruling{Verb: registry.VerbApproveLaunch, Digest: s.TargetDigest})
	h.is(name, registry.StateVerified)
	h.approve(name, "say")
	h.is(name, registry.StateActive)

	l.set("/bin/sh", "-c", speaker, "another argument")
	ref := "speaker"
	edited, err := h.client.Edit(h.Context(), name, workflows.EditInput{
		Tenant: "default", ServerID: s.ServerID, Operation: operation("edit"), Edit: registry.Edit{CommandRef: &ref},
	})
	if err != nil || !edited.LaunchPending() || edited.TargetDigest == s.TargetDigest {
		h.Fatalf("edited: %+v %v", edited, err)
	}
	h.decide(name, registry.Ruling{Verb: registry.VerbApproveLaunch, Digest: edited.TargetDigest})
	h.until(name, "up for review", func(v db.ServerView) bool {
		return v.Review.Status == registry.ReviewPending && v.Review.Target == edited.TargetDigest
	})
	h.approve(name, "say")
	h.retire(name)
}

func TestACommandIsLaunchedByADecision(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			h := newHouse(t, kind)
			h.launched("launched")

			s := h.register("waiting", "", byCommand)
			_, err := h.client.Discover(t.Context(), "waiting", workflows.BeginDiscoveryInput{Tenant: "default", ServerID: s.ServerID, Operation: operation("discover")})
			if registry.ReasonOf(err) != registry.ReasonLaunchPending {
				t.Errorf("a discovery before the launch: %v", err)
			}
			_, err = h.client.Test(t.Context(), workflows.TestInput{Tenant: "default", ServerID: s.ServerID})
			if registry.ReasonOf(err) != registry.ReasonLaunchPending {
				t.Errorf("a test before the launch: %v", err)
			}
			h.retire("waiting")

			in := registration("unknown", "")
			byCommand(&in)
			in.Registration.CommandRef = "nothing"
			if _, err := h.client.Register(t.Context(), in); registry.ReasonOf(err) != registry.ReasonUnknownCommand {
				t.Errorf("an unknown command: %v", err)
			}
			if _, err := h.store().Server(t.Context(), "unknown"); registry.ReasonOf(err) != registry.ReasonServerNotFound {
				t.Errorf("what was refused is there: %v", err)
			}
		})
	}
}
