package api

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// command is what the operator's allow-list of every house has.
func command(ref string) *registry.Command {
	k := &registry.Command{
		Ref: ref, Argv: []string{"/usr/bin/node", "/opt/" + ref + ".js", "a b"}, Env: map[string]string{"KEY": "env:FILES_KEY"},
		Network: true, Sandbox: registry.SandboxBubblewrap,
	}
	if ref == "bare" {
		k.Sandbox = registry.SandboxNone
	}
	return k
}

func TestALaunchIsApprovedOnExactlyWhatWasShown(t *testing.T) {
	t.Parallel()
	for face, send := range ways {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			ask := good("files")
			ask.Transport, ask.EndpointUrl, ask.CommandRef = pb.McpTransport_MCP_TRANSPORT_STDIO, "", "files"
			ask.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY
			s := into(t, send(t, h, admin(alpha), doRegister, ask, keyed("1")), &pb.RegisterMcpServerResponse{}).GetServer()
			want := &pb.Command{
				Ref: "files", Argv: []string{"/usr/bin/node", "/opt/files.js", "a b"}, Env: map[string]string{"KEY": "env:FILES_KEY"},
				Network: true, Sandbox: "bubblewrap",
			}
			if diff := cmp.Diff(want, s.GetCommand(), protocmp.Transform()); diff != "" {
				t.Errorf("shown: %s", diff)
			}
			if s.GetLaunch().GetStatus() != pb.LaunchStatus_LAUNCH_STATUS_PENDING || s.GetHealth().GetReason() != "launch_pending" || s.GetHealth().GetNextStep() == "" {
				t.Errorf("registered: %v", s)
			}
			approve := &pb.ApproveLaunchRequest{ServerId: "files", Digest: "sha256:other", Comment: "looked at it"}
			if o := send(t, h, tokenOf(alpha, registry.RoleAssetMaintainer), doLaunch, approve, nil); o.reason != string(registry.ReasonPermissionDenied) {
				t.Errorf("a maintainer: %+v", o)
			}
			if o := send(t, h, admin(alpha), doLaunch, approve, nil); o.reason != string(registry.ReasonSuperseded) || o.facts["digest"] != s.GetTargetDigest() {
				t.Errorf("another digest: %+v", o)
			}
			if o := send(t, h, admin(beta), doLaunch, approve, nil); o.reason != string(registry.ReasonServerNotFound) {
				t.Errorf("another tenant: %+v", o)
			}
			approve.Digest = s.GetTargetDigest()
			if o := send(t, h, admin(alpha), doLaunch, approve, nil); o.reason != "" {
				t.Fatalf("approved: %+v", o)
			}
			s = into(t, send(t, h, admin(alpha), doGet, &pb.GetMcpServerRequest{ServerId: "files"}, nil), &pb.GetMcpServerResponse{}).GetServer()
			if l := s.GetLaunch(); l.GetStatus() != pb.LaunchStatus_LAUNCH_STATUS_APPROVED || l.GetApprovedBy() != "platformadmin" || l.GetTargetDigest() != s.GetTargetDigest() || l.GetDecisionId() == "" {
				t.Errorf("after: %v", l)
			}
			// Every attempt is on record, the refused ones with their reason.
			reasons := map[registry.Reason]int{}
			for _, entry := range h.audits(t, alpha, string(registry.VerbApproveLaunch)) {
				reasons[entry.Reason]++
			}
			if diff := cmp.Diff(map[registry.Reason]int{"": 1, registry.ReasonPermissionDenied: 1, registry.ReasonSuperseded: 1}, reasons); diff != "" {
				t.Errorf("audit: %s", diff)
			}
		})
	}
}

func TestNoSandboxIsAWarning(t *testing.T) {
	t.Parallel()
	h := open(t)
	ask := good("bare")
	ask.Transport, ask.EndpointUrl, ask.CommandRef = pb.McpTransport_MCP_TRANSPORT_STDIO, "", "bare"
	ask.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY
	if o := ways["REST"](t, h, admin(alpha), doRegister, ask, keyed("1")); o.status != http.StatusCreated {
		t.Fatalf("%+v", o)
	}
	s := into(t, ways["REST"](t, h, admin(alpha), doGet, &pb.GetMcpServerRequest{ServerId: "bare"}, nil), &pb.GetMcpServerResponse{}).GetServer()
	if len(s.GetWarnings()) != 1 || s.GetCommand().GetSandbox() != "none" {
		t.Errorf("%v", s)
	}
}

func TestATargetIsEditedInTheTermsOfItsTransport(t *testing.T) {
	t.Parallel()
	h := open(t)
	ask := good("files")
	ask.Transport, ask.EndpointUrl, ask.CommandRef = pb.McpTransport_MCP_TRANSPORT_STDIO, "", "files"
	ask.Authentication = pb.McpAuthentication_MCP_AUTHENTICATION_WORKLOAD_IDENTITY
	ways["REST"](t, h, admin(alpha), doRegister, ask, keyed("1"))
	edit := func(field string, patch *pb.ServerPatch) *pb.UpdateMcpServerRequest {
		return &pb.UpdateMcpServerRequest{ServerId: "files", Server: patch, UpdateMask: mask(field)}
	}
	if o := ways["REST"](t, h, admin(alpha), doUpdate, edit("endpoint_url", &pb.ServerPatch{EndpointUrl: "https://a.example/mcp"}), nil); o.reason != string(registry.ReasonInvalidArgument) {
		t.Errorf("a URL: %+v", o)
	}
	o := ways["REST"](t, h, admin(alpha), doUpdate, edit("command_ref", &pb.ServerPatch{CommandRef: "bare"}), nil)
	if s := into(t, o, &pb.UpdateMcpServerResponse{}).GetServer(); s.GetCommandRef() != "bare" || s.GetCommand().GetArgv()[1] != "/opt/bare.js" {
		t.Errorf("another command: %v", s)
	}
}
