package registry

import "time"

// quarantine takes everything of a server out of resolve at once, and keeps it
// out until an approval of what the server is then. It is for emergencies, so
// whoever operates the installation may do it; the reason is for those who have
// to undo it.
func (r *Record) quarantine(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	switch {
	case !op.Actor.Has(RoleOperator, RoleAssetMaintainer, RolePlatformAdmin):
		return Errorf(ReasonPermissionDenied, "quarantine needs one of the roles %s, %s and %s", RoleOperator, RoleAssetMaintainer, RolePlatformAdmin)
	case g.Comment == "":
		return Errorf(ReasonInvalidArgument, "a quarantine needs a reason").WithField("comment", "is required")
	case !s.State.Probed():
		return Errorf(ReasonIllegalTransition, "server %s is %s: nothing of it is callable", s.Name, s.State)
	case s.Causes.Has(CauseQuarantined):
		return nil // a repeat finds what it asks for (R125)
	}
	g.Digest = ReviewDigest(s.SnapshotDigest, s.TargetDigest)
	d := g.Decision(s, op, now)
	d.Applied, d.Snapshot, d.Target = true, s.SnapshotDigest, s.TargetDigest
	r.changes.Decision = d
	s.Causes = s.Causes.With(CauseQuarantined)
	if s.SnapshotDigest != "" {
		r.openReview(op.Actor.Subject, now, now) // what undoes it
	}
	r.touch()
	r.note("quarantined: " + g.Comment)
	return s.settle()
}
