package api

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func TestTheInstallationSaysWhatRunsAndHowItIs(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	began, release := make(chan struct{}), make(chan struct{})
	h := open(t, func(o *Options) {
		o.Program = Program{Version: "v1.2.3", Go: "go1.26", Platform: "linux/amd64", UI: "http://127.0.0.1:8233", Namespace: "default"}
		o.Commands = func(tenant string) []string { return map[string][]string{alpha: {"files", "git"}}[tenant] }
		o.Examine = func(context.Context) []Finding {
			if slow.Load() {
				close(began)
				<-release
			}
			return []Finding{
				{Check: "database", Status: "ok", Found: "SQLite"},
				{Check: "audit", Status: "warn", Found: "no key", Fix: "set one"},
				{Check: "Temporal", Status: "fail", Found: "away", Reason: registry.ReasonDependency},
			}
		}
	})
	for face, send := range ways {
		got := into(t, send(t, h, tokenOf(alpha, registry.RoleObserver), doRuntime, &pb.GetInstallationRequest{}, nil), &pb.GetInstallationResponse{})
		if got.GetVersion() != "v1.2.3" || got.GetTemporalNamespace() != "default" || got.GetTemporalUi() == "" || !got.GetReady() || got.GetStartTime() == nil ||
			len(got.GetChecks()) < 2 || got.GetChecks()[0].GetName() != "database" || !got.GetChecks()[0].GetOk() {
			t.Errorf("%s: %v", face, got)
		}
		other := into(t, send(t, h, tokenOf(beta, registry.RoleObserver), doRuntime, &pb.GetInstallationRequest{}, nil), &pb.GetInstallationResponse{})
		if diff := cmp.Diff([]string{"files", "git"}, got.GetCommands()); diff != "" || len(other.GetCommands()) != 0 {
			t.Errorf("%s: %s; to another tenant %q", face, diff, other.GetCommands())
		}
		found := into(t, send(t, h, admin(alpha), doExamine, &pb.ExamineInstallationRequest{}, nil), &pb.ExamineInstallationResponse{}).GetFindings()
		if len(found) != 3 || found[0].GetStatus() != pb.FindingStatus_FINDING_STATUS_OK || found[1].GetFix() != "set one" ||
			found[2].GetStatus() != pb.FindingStatus_FINDING_STATUS_FAIL || found[2].GetReason() != "dependency_error" {
			t.Errorf("%s: %v", face, found)
		}
	}
	// One at a time: each opens connections of its own.
	slow.Store(true)
	first := make(chan outcome, 1)
	go func() {
		first <- ways["Connect JSON"](t, h, admin(alpha), doExamine, &pb.ExamineInstallationRequest{}, nil)
	}()
	<-began
	if o := ways["Connect JSON"](t, h, admin(alpha), doExamine, &pb.ExamineInstallationRequest{}, nil); o.reason != "too_many_requests" {
		t.Errorf("a second one comes to %+v", o)
	}
	close(release)
	if o := <-first; o.answer == nil {
		t.Errorf("the first comes to %+v", o)
	}
}

func TestAProcessThatCannotExamineSaysSo(t *testing.T) {
	t.Parallel()
	h := open(t)
	for face, send := range ways {
		got := into(t, send(t, h, admin(alpha), doExamine, &pb.ExamineInstallationRequest{}, nil), &pb.ExamineInstallationResponse{}).GetFindings()
		if len(got) != 1 || got[0].GetStatus() != pb.FindingStatus_FINDING_STATUS_WARN || got[0].GetFix() == "" {
			t.Errorf("%s: %v", face, got)
		}
	}
}
