package registry

import "time"

// Verb is what a decision says.
type Verb string

// The verbs.
const (
	VerbApprove          Verb = "approve"
	VerbReject           Verb = "reject"
	VerbRequestReview    Verb = "request_review"
	VerbWithdrawServer   Verb = "withdraw" // of the whole registration: it retires the server
	VerbWithdrawApproval Verb = "withdraw_approval"
	VerbApproveLaunch    Verb = "approve_launch"
	VerbQuarantine       Verb = "quarantine"
	VerbRenew            Verb = "renew_exception"
)

// Approval is the content of a decision to approve: exactly what may be
// called, and as what (R121).
type Approval struct {
	Digest             string         `json:"digest"` // of the review
	Tools              []ToolLine     `json:"tools,omitempty"`
	Resources          []ResourceLine `json:"resources,omitempty"`
	Prompts            []PromptLine   `json:"prompts,omitempty"`
	Empty              bool           `json:"empty,omitempty"` // activate with nothing bound, explicitly
	ExceptionExpiresAt time.Time      `json:"exceptionExpiresAt,omitzero"`
}

// ToolLine approves one tool as a class, and enables it if asked.
type ToolLine struct {
	Tool              string `json:"tool"`
	Class             Class  `json:"class"`
	DescriptorID      string `json:"descriptorId,omitempty"` // empty: one is published
	DescriptorVersion int64  `json:"descriptorVersion,omitempty"`
	Enable            bool   `json:"enable,omitempty"`
}

// ResourceLine approves one resource.
type ResourceLine struct {
	URI            string `json:"uri"`
	SourceID       string `json:"sourceId,omitempty"`
	Classification string `json:"classification,omitempty"`
	Scope          string `json:"scope,omitempty"`
}

// PromptLine approves one prompt for a skill or a workflow step.
type PromptLine struct {
	Prompt          string `json:"prompt"`
	SkillID         string `json:"skillId,omitempty"`
	WorkflowStepRef string `json:"workflowStepRef,omitempty"`
}

// Decision is the append-only record of what somebody decided, refused ones
// too (R122).
type Decision struct {
	DecisionID string    `json:"decisionId" bun:"decision_id,pk"`
	TenantID   string    `json:"tenantId" bun:"tenant_id"`
	ServerID   string    `json:"serverId" bun:"server_id"`
	Verb       Verb      `json:"verb" bun:"verb"`
	Digest     string    `json:"digest" bun:"digest"`
	Snapshot   string    `json:"snapshot" bun:"snapshot_digest"`
	Target     string    `json:"target" bun:"target_digest"`
	Subject    string    `json:"subject" bun:"subject"`
	Roles      []Role    `json:"roles" bun:"roles,type:text"`
	Comment    string    `json:"comment" bun:"comment"`
	Origin     Origin    `json:"origin" bun:"origin"`
	Approval   *Approval `json:"approval" bun:"approval,type:text"`
	Evidence   *Evidence `json:"evidence,omitempty" bun:"evidence,type:text"` // of an approval that was put to the policy
	Applied    bool      `json:"applied" bun:"applied"`
	Reason     Reason    `json:"reason" bun:"reason"` // why it was refused
	DecidedAt  time.Time `json:"decidedAt" bun:"decided_at"`
}

// Ruling is a decision on its way: who says what about which digest.
type Ruling struct {
	Verb     Verb      `json:"verb"`
	Digest   string    `json:"digest,omitempty"`
	Etag     string    `json:"etag,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	Approval *Approval `json:"approval,omitempty"`

	ExceptionExpiresAt time.Time `json:"exceptionExpiresAt,omitzero"` // of a renewal
}

// Decision makes the record of a ruling, to be marked as applied or refused.
func (g Ruling) Decision(s *Server, op Operation, now time.Time) *Decision {
	return &Decision{
		DecisionID: "dec_" + DecisionKey(s.ServerID, op.ID), TenantID: s.TenantID, ServerID: s.ServerID,
		Verb: g.Verb, Digest: g.Digest, Snapshot: s.Review.Snapshot, Target: s.Review.Target,
		Subject: op.Actor.Subject, Roles: op.Actor.Roles, Comment: g.Comment, Origin: op.Origin,
		Approval: g.Approval, DecidedAt: now,
	}
}

// about gives the digest that the ruling names, empty when it names none.
func (g Ruling) about() string {
	if g.Approval != nil {
		return g.Approval.Digest
	}
	return g.Digest
}

// DecisionKey makes a decision's id from the operation, so that a repeated
// activity writes the same row.
func DecisionKey(serverID, operationID string) string {
	return digestBytes([]byte(serverID + "\n" + operationID))[len("sha256:"):][:32]
}

// Decide applies a ruling to the server. A refusal is an error with a reason;
// nothing of the record may then be written but the refused decision.
func (r *Record) Decide(g Ruling, op Operation, now time.Time) error {
	err := r.decide(g, op, now)
	if err != nil {
		g.Digest = g.about()
		d := g.Decision(&r.Server, op, now)
		d.Reason, d.Evidence = ReasonOf(err), r.weighed
		r.changes.Decision = d
	}
	return err
}

func (r *Record) decide(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	if s.State == StateRetired {
		return Errorf(ReasonServerRetired, "server %s is retired", s.Name)
	}
	if err := CheckEtag(g.Etag, s.Version); err != nil {
		// What became of the digest says more than that the version moved.
		if told := r.current(g.about()); g.Verb != VerbApproveLaunch && (ReasonOf(told) == ReasonSuperseded || ReasonOf(told) == ReasonAlreadyDecided) {
			return told
		}
		return err
	}
	if len(g.Comment) > MaxReasonLength {
		return Errorf(ReasonInvalidArgument, "the comment is longer than %d bytes", MaxReasonLength)
	}
	switch g.Verb {
	case VerbApprove:
		return r.approve(g, op, now)
	case VerbReject:
		return r.reject(g, op, now)
	case VerbRequestReview:
		return r.requestReview(g, op, now)
	case VerbWithdrawServer:
		return r.retire(g, op, now)
	case VerbWithdrawApproval:
		return r.withdraw(g, op, now)
	case VerbApproveLaunch:
		return r.approveLaunch(g, op, now)
	case VerbQuarantine:
		return r.quarantine(g, op, now)
	case VerbRenew:
		return r.renewException(g, op, now)
	}
	return Errorf(ReasonInvalidArgument, "unknown decision %q", g.Verb)
}

// decided closes the review and keeps the decision.
func (r *Record) decided(g Ruling, op Operation, status ReviewStatus, now time.Time) {
	d := g.Decision(&r.Server, op, now)
	d.Applied = true
	r.changes.Decision = d
	r.Server.Review.Status = status
	r.Server.dropTerms(func(t Term) bool { return t.Kind == TermRequest })
	r.Server.Review.DecidedAt, r.Server.Review.DecidedBy, r.Server.Review.DecisionID = now, op.Actor.Subject, d.DecisionID
	r.touch()
}

// current refuses a ruling that is not about what is under review now.
func (r *Record) current(digest string) error {
	s := &r.Server
	if digest == "" {
		return Errorf(ReasonInvalidArgument, "a decision must name the digest it is about").
			WithField("digest", "is required").WithNext("read the review and send its digest back")
	}
	if s.SnapshotDigest == "" {
		return Errorf(ReasonNothingDiscovered, "server %s was never discovered", s.Name).
			WithNext("start a discovery and look at what it finds")
	}
	now := ReviewDigest(s.SnapshotDigest, s.TargetDigest)
	if digest != now {
		return r.superseded(digest, now)
	}
	if s.Review.Status == ReviewPending && s.Review.Digest == digest {
		return nil
	}
	if s.Review.Digest == digest && s.Review.Status != ReviewNone {
		return Errorf(ReasonAlreadyDecided, "this digest was %s by %s", s.Review.Status, s.Review.DecidedBy).
			With("decision", s.Review.DecisionID).With("digest", digest).
			WithNext("RequestReview opens it again")
	}
	return Errorf(ReasonNothingToReview, "no approval of server %s is pending", s.Name).
		WithNext("RequestReview opens one")
}

// superseded tells what became of the pair that a decision is about. The facts
// from_digest and to_digest address the diff of what was looked at and of what
// is there; from_digest is missing when the pair was never this server's.
func (r *Record) superseded(digest, now string) *Error {
	s := &r.Server
	e := Errorf(ReasonSuperseded, "the decision is about %s, but the server is now at %s", short(digest), short(now)).
		With("digest", now)
	snapshot, target, known := r.pairOf(digest)
	if !known {
		return e.With("to_digest", s.SnapshotDigest).WithNext("look at the review and decide on digest %s", now)
	}
	changed := "snapshot and target"
	switch {
	case snapshot == s.SnapshotDigest:
		changed = "target"
	case target == s.TargetDigest:
		changed = "snapshot"
	}
	return e.With("changed", changed).With("from_digest", snapshot).With("to_digest", s.SnapshotDigest).
		WithNext("look at what changed from from_digest to to_digest, and decide on digest %s", now)
}

// pairOf finds the snapshot and the target behind the digest of a pair: one that
// the server's row still names, or any other that the server was at.
func (r *Record) pairOf(digest string) (snapshot, target string, known bool) {
	s := &r.Server
	for _, snapshot := range []string{s.SnapshotDigest, s.Review.Snapshot, s.ApprovedSnapshot} {
		for _, target := range []string{s.TargetDigest, s.Review.Target, s.ApprovedTarget} {
			if snapshot != "" && ReviewDigest(snapshot, target) == digest {
				return snapshot, target, true
			}
		}
	}
	if r.Version == nil {
		return "", "", false
	}
	v, known := r.Version(digest)
	return v.Snapshot, v.Target, known
}

func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19] + "…"
	}
	return digest
}

func (r *Record) reject(g Ruling, op Operation, now time.Time) error {
	if g.Comment == "" {
		return Errorf(ReasonInvalidArgument, "a rejection needs a reason").WithField("comment", "is required")
	}
	if err := r.current(g.Digest); err != nil {
		// A repeat by the same person finds what it asks for (R125).
		if ReasonOf(err) == ReasonAlreadyDecided && r.Server.Review.Status == ReviewRejected && r.Server.Review.DecidedBy == op.Actor.Subject {
			r.asked("rejected already: " + short(g.Digest))
			return nil
		}
		return err
	}
	r.decided(g, op, ReviewRejected, now)
	r.note("rejected: " + short(g.Digest))
	return nil
}

func (r *Record) requestReview(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	if s.SnapshotDigest == "" {
		return Errorf(ReasonNothingDiscovered, "server %s was never discovered", s.Name).WithNext("start a discovery first")
	}
	g.Digest = ReviewDigest(s.SnapshotDigest, s.TargetDigest)
	if s.Review.Status == ReviewPending && s.Review.Digest == g.Digest {
		r.asked("asked already: " + short(g.Digest))
		return nil
	}
	r.openReview(op.Actor.Subject, now, now)
	d := g.Decision(s, op, now)
	d.Applied = true
	r.changes.Decision = d
	r.touch()
	r.note("review requested: " + short(g.Digest))
	return nil
}

// ExpireReview ends a request that nobody decided in time. The timer that calls
// it has decided; the database's clock is not asked. The server stays where it
// is.
func (r *Record) ExpireReview(digest string, now time.Time) error {
	s := &r.Server
	if s.State == StateRetired || s.Review.Status != ReviewPending || s.Review.Digest != digest {
		return nil
	}
	s.Review.Status = ReviewExpired
	s.Review.DecidedAt, s.Review.DecidedBy, s.Review.DecisionID = now, System("expiry").Subject, ""
	r.touch()
	r.note("review expired: " + short(digest))
	return nil
}
