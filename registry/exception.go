package registry

import "time"

// renewException lets a server be used without authentication for longer. It is
// a new permission by a platform administrator, and needs no new review: what
// was approved stays what it is (R24, C8).
func (r *Record) renewException(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	switch {
	case s.Authentication != AuthNoneException:
		return Errorf(ReasonInvalidArgument, "server %s authenticates and needs no exception", s.Name)
	case !op.Actor.Has(RolePlatformAdmin):
		return Errorf(ReasonPermissionDenied, "only a %s may let a server be used without authentication", RolePlatformAdmin)
	case s.Exception.ApprovedAt.IsZero():
		return Errorf(ReasonExceptionRequired, "the exception of server %s was never approved", s.Name).
			WithNext("approve what the server offers, and say until when")
	case !g.ExceptionExpiresAt.After(now):
		return Errorf(ReasonExceptionExpiry, "the exception must end at a time in the future").
			WithField("expire_time", "must be in the future")
	case g.Comment == "":
		return Errorf(ReasonInvalidArgument, "a renewal needs a reason").WithField("comment", "is required")
	case s.Exception.ExpiresAt.Equal(g.ExceptionExpiresAt) && !s.Causes.Has(CauseAuthExceptionExpired):
		r.asked("the exception ends then already")
		return nil
	}
	g.Digest = ReviewDigest(s.SnapshotDigest, s.TargetDigest)
	d := g.Decision(s, op, now)
	d.Applied, d.Snapshot, d.Target = true, s.SnapshotDigest, s.TargetDigest
	r.changes.Decision = d
	s.Exception.ApprovedBy, s.Exception.ApprovedAt, s.Exception.ExpiresAt = op.Actor.Subject, now, g.ExceptionExpiresAt
	s.Causes = s.Causes.Without(CauseAuthExceptionExpired)
	r.remind(TermException, g.ExceptionExpiresAt, now)
	if v := &s.Review; v.Status == ReviewPending && v.RequestedBy == System("expiry").Subject && len(v.Votes) == 0 &&
		s.ApprovedSnapshot == s.SnapshotDigest && s.ApprovedTarget == s.TargetDigest {
		// It was asked for because the exception ended: there is nothing else to decide.
		v.Status, v.DecidedAt, v.DecidedBy = ReviewNone, now, op.Actor.Subject
	}
	r.touch()
	r.note("exception renewed until " + g.ExceptionExpiresAt.UTC().Format(time.RFC3339) + ": " + g.Comment)
	return s.settle()
}
