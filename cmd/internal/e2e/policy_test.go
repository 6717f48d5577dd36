package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Two policies with times that a test can wait for. What somebody has to do in
// time has more of it than what nobody does.
const (
	teamPolicy = `name: team
version: 1
approval:
  - {name: everything, when: 'true', approvers: 1}
  - name: publication
    when: class == "publication"
    approvers: 2
    not_requester: true
    roles: {PlatformAdmin: 1}
    comment: say which change this is for
  - {name: sandbox, when: class == "sandbox", approvers: 1, expiry: {after: 12s, recertify: 11s, grace: 3s, remind: [6s]}}
exceptions: {remind: [1s]}
`
	hastyPolicy = `name: hasty
version: 1
requests: {expire: 4s, remind: [2s]}
approval: [{name: everything, when: 'true', approvers: 1}]
`
)

// What a published policy asks of people and of time, in the running product.
func TestAPolicyInTheRunningProduct(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	d.start(t)
	admin := d.terminal(first, registry.RolePlatformAdmin)
	for _, document := range []string{teamPolicy, hastyPolicy} {
		file := write(t, document)
		if _, log, code := admin.run(t, "policy", "test", file); code != 0 {
			t.Fatalf("policy test: %s", log)
		}
		if _, log, code := d.terminal(first, registry.RoleAssetMaintainer).run(t, "policy", "publish", file, "--yes"); code != 4 {
			t.Errorf("a maintainer publishes a policy: exit code %d %s", code, log)
		}
		if out, log, code := admin.run(t, "policy", "publish", file, "--yes"); code != 0 {
			t.Fatalf("policy publish: %s%s", out, log)
		}
	}
	t.Run("in turn", func(t *testing.T) { // ends when those in it have
		t.Run("several people", func(t *testing.T) { t.Parallel(); d.severalPeople(t) })
		t.Run("a request ends", func(t *testing.T) { t.Parallel(); d.requestEnds(t) })
		t.Run("an approval ends", func(t *testing.T) { t.Parallel(); d.approvalEnds(t) })
		t.Run("an approval is renewed", func(t *testing.T) { t.Parallel(); d.approvalIsRenewed(t) })
		t.Run("an exception ends", func(t *testing.T) { t.Parallel(); d.exceptionEnds(t) })
	})
	dial(t, d.temporal, "default").checkHistories(t)
	d.stop(t)
	l := readSQLite(t, d.database())
	l.check(t)
	for name, want := range map[string]map[registry.EventType]int{
		"waits":    {registry.EventRequestExpiring: 1},
		"lapses":   {registry.EventApprovalExpiring: 2, registry.EventApprovalExpired: 1}, // a reminder, and when it is due
		"renewed":  {registry.EventApprovalExpired: 0},
		"excepted": {registry.EventExceptionExpiring: 1},
		"shared":   {registry.EventRequestExpiring: 0},
	} {
		server := l.named(first, name)[0]
		for kind, n := range want {
			if got := l.emitted(server, kind); got != n {
				t.Errorf("%s: %d times %s, want %d", name, got, kind, n)
			}
		}
	}
}

// emitted counts the events of a kind about a server.
func (l *ledger) emitted(server string, kind registry.EventType) (n int) {
	for _, e := range l.events {
		if e.server == server && e.kind == kind {
			n++
		}
	}
	return n
}

// under registers the demo server under a policy and waits until it was
// discovered.
func (d *dev) under(t *testing.T, name, policy string) {
	t.Helper()
	request := registration(name, d.demoURL())
	request.GovernancePolicyRef = policy
	ctx, _ := keyed(t.Context(), "key of "+name)
	if _, err := d.admin().servers.RegisterMcpServer(ctx, request); err != nil {
		t.Fatal(err)
	}
	until(t, name+" is discovered", patience, func() error {
		_, err := d.admin().in(t.Context(), name, verified)
		return err
	})
}

// approveAs approves every tool as a class, until the server may be used without
// authentication no longer; 0: as long as was said before.
func (d *dev) approveAs(t *testing.T, name string, class pb.SideEffectClass, exception time.Duration) *pb.McpServer {
	t.Helper()
	request, err := d.admin().approval(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	request.Etag = "" // timers move it meanwhile; the digest says what is approved
	for _, line := range request.GetTools() {
		line.Class = class
	}
	if request.ExceptionExpireTime = nil; exception > 0 {
		request.ExceptionExpireTime = timestamppb.New(time.Now().Add(exception))
	}
	response, err := d.admin().servers.ActivateMcpServer(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response.GetServer()
}

// N of M and four eyes: two people publish, one of them an administrator, none
// of them the one who asked. The second gives the approval of the first again.
func (d *dev) severalPeople(t *testing.T) {
	d.under(t, "shared", "team")
	d.approveAs(t, "shared", pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, time.Hour)
	asks, second, third := d.terminal(first, registry.RoleAssetMaintainer), d.terminal(first, registry.RoleAssetMaintainer+"-2"), d.terminal(first, registry.RolePlatformAdmin)
	if s := asks.server(t, "server", "request-review", "shared"); s.GetReview().GetRequestedBy() != "dev-AssetMaintainer" {
		t.Errorf("the review is asked for by %s", s.GetReview().GetRequestedBy())
	}
	publish := []string{"server", "approve", "shared", "--tool", "hash_compute=publication", "--comment", "CHG-1", "--yes"}
	if code, reason := asks.fails(t, append(publish, "--quiet")...); code != 4 || reason != registry.ReasonRequesterApproves {
		t.Errorf("who asked approves: exit code %d, %s", code, reason)
	}
	if _, reason := second.fails(t, "server", "approve", "shared", "--tool", "hash_compute=publication", "--yes", "--quiet"); reason != registry.ReasonCommentRequired {
		t.Errorf("without a comment: %s", reason)
	}
	if code, log := failing(t, third, "server", "approve", "shared", "--same", "--yes"); code != 2 || !strings.Contains(log, "nobody approved server shared yet") {
		t.Errorf("the same as nobody: exit code %d\n%s", code, log)
	}
	out, log, code := second.run(t, publish...)
	if code != 0 || !strings.Contains(log, "not enough yet: 1 more approval is needed, 1 by a PlatformAdmin, not by dev-AssetMaintainer") ||
		!strings.Contains(log, "countersign server approve shared --same") {
		t.Fatalf("the first of two: exit code %d\n%s%s", code, out, log)
	}
	again := second.server(t, publish...) // counts once
	if v := again.GetReview(); v.GetStatus() != pb.ReviewStatus_REVIEW_STATUS_PENDING || len(v.GetVotes()) != 1 || v.GetPeopleMissing() != 1 {
		t.Errorf("one person twice: %v", v)
	}
	class := func(want string) error {
		answer, err := d.admin().registry.ResolveTool(t.Context(), &pb.ResolveToolRequest{ToolId: "shared.hash_compute"})
		if got := answer.GetRouting().GetDeclaredClass().String(); err == nil && got != "SIDE_EFFECT_CLASS_"+want {
			err = fmt.Errorf("it is %s, not %s", got, want)
		}
		return err
	}
	if err := class("READ"); err != nil {
		t.Error("after one approval", err)
	}
	out, log, code = third.run(t, "server", "approve", "shared", "--same", "--comment", "I looked, too.", "--yes")
	if code != 0 || !strings.Contains(log, "dev-AssetMaintainer-2") || !strings.Contains(log, "CHG-1") || !strings.Contains(log, "Tool hash_compute: class publication") {
		t.Fatalf("the same again: exit code %d\n%s%s", code, out, log)
	}
	if err := class("PUBLICATION"); err != nil {
		t.Error("after two approvals", err)
	}
	s, err := d.admin().get(t.Context(), "shared")
	if v := s.GetReview(); err != nil || v.GetStatus() != pb.ReviewStatus_REVIEW_STATUS_APPROVED || len(v.GetVotes()) != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

// failing runs a command that must fail, and gives what it says.
func failing(t *testing.T, c terminal, args ...string) (int, string) {
	t.Helper()
	_, log, code := c.run(t, args...)
	if code == 0 {
		t.Fatalf("%q succeeds", args)
	}
	return code, log
}

// A request that nobody decides ends, and can be made again.
func (d *dev) requestEnds(t *testing.T) {
	d.under(t, "waits", "hasty")
	c := d.admin()
	request, err := c.approval(t.Context(), "waits")
	if err != nil {
		t.Fatal(err)
	}
	review := func(want pb.ReviewStatus) error {
		s, err := c.get(t.Context(), "waits")
		if got := s.GetReview().GetStatus(); err == nil && got != want {
			err = fmt.Errorf("the review is %s, not %s", got, want)
		}
		return err
	}
	until(t, "the request ends", patience, func() error { return review(pb.ReviewStatus_REVIEW_STATUS_EXPIRED) })
	if _, err := c.in(t.Context(), "waits", verified); err != nil {
		t.Error(err)
	}
	request.Etag = ""
	if _, err := c.servers.ActivateMcpServer(t.Context(), request); reasonOf(err) != registry.ReasonAlreadyDecided {
		t.Errorf("approved after its end: %v", err)
	}
	if _, err := c.servers.RequestReview(t.Context(), &pb.RequestReviewRequest{ServerId: "waits"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.servers.ActivateMcpServer(t.Context(), request); err != nil {
		t.Errorf("asked for again: %v", err)
	}
	if err := c.callable(t.Context(), "waits.hash_compute"); err != nil {
		t.Error(err)
	}
}

// ends is the next end of an approval among what expires.
func (d *dev) ends(t *testing.T, name string) time.Time {
	t.Helper()
	for _, e := range d.terminal(first, registry.RoleObserver).list(t, "expiring") {
		if e["kind"] == "approval" && e["serverName"] == name {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(e["endTime"]))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("no approval of %s is among what expires", name)
	return time.Time{}
}

// An approval that nobody renews: a review opens, it stays callable for the
// grace time, and then no longer.
func (d *dev) approvalEnds(t *testing.T) {
	d.under(t, "lapses", "team")
	d.approveAs(t, "lapses", pb.SideEffectClass_SIDE_EFFECT_CLASS_SANDBOX, time.Hour)
	c := d.admin()
	end := d.ends(t, "lapses")
	until(t, "a review opens", patience, d.recertifies(t, "lapses"))
	if err := c.callable(t.Context(), "lapses.hash_compute"); err != nil && time.Now().Before(end) {
		t.Error("before its end:", err)
	}
	until(t, "the approval ends", patience, func() error { return c.denied(t.Context(), "lapses.hash_compute", registry.ReasonApprovalExpired) })
	if now := time.Now(); now.Before(end) {
		t.Errorf("it ended %s too soon", end.Sub(now))
	}
	until(t, "nothing is bound", patience, func() error {
		s, err := c.in(t.Context(), "lapses", active)
		if n := s.GetCounts().GetBoundTools(); err == nil && n != 0 {
			err = fmt.Errorf("%d tools are", n)
		}
		return err
	})
	d.approveAs(t, "lapses", pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, 0) // the review is still open
	if err := c.callable(t.Context(), "lapses.hash_compute"); err != nil {
		t.Error("approved again:", err)
	}
}

// recertifies wants a review of what is approved to be open.
func (d *dev) recertifies(t *testing.T, name string) func() error {
	return func() error {
		s, err := d.admin().get(t.Context(), name)
		v := s.GetReview()
		if err == nil && (v.GetStatus() != pb.ReviewStatus_REVIEW_STATUS_PENDING || v.GetRequestedBy() != "system:recertification") {
			err = fmt.Errorf("the review is %v", v)
		}
		return err
	}
}

// An approval that somebody renews in time: nothing ends.
func (d *dev) approvalIsRenewed(t *testing.T) {
	d.under(t, "renewed", "team")
	d.approveAs(t, "renewed", pb.SideEffectClass_SIDE_EFFECT_CLASS_SANDBOX, time.Hour)
	end := d.ends(t, "renewed")
	until(t, "a review opens", patience, d.recertifies(t, "renewed"))
	d.approveAs(t, "renewed", pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, 0) // which does not end
	until(t, "the time comes at which the first would have ended", patience, func() error {
		if err := d.admin().callable(t.Context(), "renewed.hash_compute"); err != nil {
			return final{err}
		}
		if !time.Now().After(end.Add(time.Second)) {
			return errors.New("it has not come")
		}
		return nil
	})
}

// An exception ends: from that second nothing is callable, until it is renewed.
func (d *dev) exceptionEnds(t *testing.T) {
	d.under(t, "excepted", "team")
	s := d.approveAs(t, "excepted", pb.SideEffectClass_SIDE_EFFECT_CLASS_READ, 5*time.Second)
	c, end := d.admin(), s.GetAuthenticationException().GetExpireTime().AsTime()
	until(t, "the exception ends", patience, func() error {
		return c.denied(t.Context(), "excepted.hash_compute", registry.ReasonAuthExceptionExpired)
	})
	if now := time.Now(); now.Before(end) {
		t.Errorf("it ended %s too soon", end.Sub(now))
	}
	until(t, "the server is degraded", patience, func() error {
		s, err := c.in(t.Context(), "excepted", degraded)
		if causes := fmt.Sprint(s.GetCauses()); err == nil && causes != "[auth_exception_expired]" {
			err = fmt.Errorf("its causes are %s", causes)
		}
		return err
	})
	renew := []string{"server", "renew-exception", "excepted", "--expires", "1h", "--comment", "the vendor needs longer", "--yes"}
	if code, reason := d.terminal(first, registry.RoleAssetMaintainer).fails(t, renew...); code != 4 || reason != registry.ReasonPermissionDenied {
		t.Errorf("a maintainer renews it: exit code %d, %s", code, reason)
	}
	if s := d.terminal(first, registry.RolePlatformAdmin).server(t, renew...); s.GetState() != active {
		t.Errorf("renewed it is %s", s.GetState())
	}
	if err := c.callable(t.Context(), "excepted.hash_compute"); err != nil {
		t.Error(err)
	}
}
