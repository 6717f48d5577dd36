package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
	"countersign/workflows"
)

// signal sends the payload that docs/workflows.md shows, with the server's own
// id, digest and tool in it, as any Temporal client can.
func signal(t *testing.T, e engine, s *pb.McpServer, tool string) {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```json\n")
	shown, _, found := strings.Cut(shown, "```")
	var payload object
	if err := json.Unmarshal([]byte(shown), &payload); err != nil || !found {
		t.Fatalf("the page shows no payload: %v", err)
	}
	payload["serverId"] = s.GetServerId()
	approval, ok := at(payload, "ruling", "approval").(object)
	if !ok {
		t.Fatal("the payload shows no approval")
	}
	approval["digest"] = s.GetReview().GetDigest()
	approval["tools"] = []any{object{"tool": tool, "class": "read", "enable": true}}
	approval["exceptionExpiresAt"] = time.Now().Add(time.Hour).UTC()
	delete(approval, "resources") // the demo server has none
	delete(approval, "prompts")
	err = e.SignalWorkflow(t.Context(), workflows.ServerWorkflowID(s.GetTenantId(), s.GetName()), "", workflows.DecisionApprove, payload)
	if err != nil {
		t.Fatal(err)
	}
}

// A decision that a plain Temporal client signals counts in the development
// process, and its record says where it came from.
func TestAnUnsignedSignalCountsInTheDevelopmentProcess(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	s := bring(t, d.admin(), "signalled", d.demoURL(), verified)
	signal(t, dial(t, d.temporal, "default"), s, "hash_compute")
	until(t, "the signal activates the server", patience, func() error {
		return d.admin().callable(t.Context(), "signalled.hash_compute")
	})
	if err := d.admin().denied(t.Context(), "signalled.text_upper", registry.ReasonToolDisabled); err != nil {
		t.Error(err) // it was not approved
	}
	d.stop(t)
	l := readSQLite(t, d.database())
	l.check(t)
	want := []decisionEntry{{
		server: s.GetServerId(), subject: "ann@example.com", verb: registry.VerbApprove, applied: true, origin: registry.OriginSignalUnsigned,
	}}
	if diff := cmp.Diff(want, l.decisions, cmp.AllowUnexported(decisionEntry{})); diff != "" {
		t.Error(diff)
	}
}

// The product itself records it as refused.
func TestAnUnsignedSignalIsRefusedByServe(t *testing.T) {
	t.Parallel()
	d := newDev(t) // its Temporal, and its demo server
	d.start(t)
	i := newInstallation(t, d, "sqlite:"+t.TempDir()+"/registry.db")
	node := i.serve(t, "all")
	s := bring(t, i.caller(node, first), "signalled", d.demoURL(), verified)
	e := dial(t, d.temporal, i.namespace)
	signal(t, e, s, "hash_compute")
	until(t, "the refusal is logged", patience, func() error {
		if !slices.ContainsFunc(strings.Split(node.log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, "refused: approve") && strings.Contains(line, string(registry.ReasonUnsignedSignal))
		}) {
			return errors.New("it is not")
		}
		return nil
	})
	if _, err := i.caller(node, first).in(t.Context(), s.GetServerId(), verified); err != nil {
		t.Error(err)
	}
	e.checkHistories(t)
	node.stop(t)
	l := readSQLite(t, strings.TrimPrefix(i.database, "sqlite:"))
	l.check(t)
	want := []decisionEntry{{
		server: s.GetServerId(), subject: "ann@example.com", verb: registry.VerbApprove, reason: registry.ReasonUnsignedSignal, origin: registry.OriginSignalUnsigned,
	}}
	if diff := cmp.Diff(want, l.decisions, cmp.AllowUnexported(decisionEntry{})); diff != "" {
		t.Error(diff)
	}
}
