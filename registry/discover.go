package registry

import (
	"fmt"
	"slices"
	"time"
)

// Look is one discovery as it reaches the server: what was seen under which
// target, by which run.
type Look struct {
	Number       int64     `json:"number"`
	TargetDigest string    `json:"targetDigest"`
	RequestedBy  string    `json:"requestedBy"`
	At           time.Time `json:"at"`
	// Origins gives, of contributed tools, the names at the MCP server.
	Origins map[string]string `json:"origins,omitempty"`
}

// Discovered applies a whole, well-formed look (R3, R42–R49). A look at another
// target than the server's own is stale and dropped; so is one of a retired
// server.
func (r *Record) Discovered(snap *Snapshot, look Look) error {
	s := &r.Server
	if s.State == StateRetired || look.TargetDigest != s.TargetDigest {
		r.note("discovery dropped: stale")
		return nil
	}
	if cause, detail := r.suspicious(snap); cause != "" && s.Suspect != snap.Digest {
		return r.suspect(cause, detail, snap, look)
	}
	s.Suspect = ""
	s.Causes = s.Causes.Without(CauseSuspectEmpty, CauseMalformedList, CauseCapabilityLoss)
	quiet := snap.Digest == s.SnapshotDigest
	r.seen(snap, look)
	var doubted bool
	if quiet {
		s.Discovery.Counts = Counts{Unchanged: s.Discovery.Counts.Total, Total: s.Discovery.Counts.Total}
		r.observe()
		r.note("discovered, unchanged")
		doubted = r.endDoubts()
	} else {
		s.SnapshotDigest, s.ToolsDigest = snap.Digest, snap.ToolsDigest()
		s.Discovery.Counts = r.refresh(snap, look)
		r.rebindOthers(snap)
		r.touch()
		r.note(fmt.Sprintf("discovered: %d new, %d changed, %d unchanged, %d unavailable",
			s.Discovery.Counts.New, s.Discovery.Counts.Changed, s.Discovery.Counts.Unchanged, s.Discovery.Counts.Unavailable) + r.noteKept())
		doubted = r.endDoubts()
		r.emit(EventCapabilitiesDiscovered, CapabilitiesDiscovered{
			ServerID: s.ServerID, TenantID: s.TenantID, Tools: len(snap.Of(KindTool)), Resources: len(snap.Of(KindResource)),
			Prompts: len(snap.Of(KindPrompt)), Unbound: r.unbound(snap),
		})
		if s.ApprovedSnapshot != "" && s.ApprovedSnapshot != snap.Digest {
			r.emit(EventDriftDetected, DriftDetected{
				ServerID: s.ServerID, TenantID: s.TenantID, ApprovedSnapshot: s.ApprovedSnapshot, Snapshot: snap.Digest, New: s.Discovery.Counts.New,
				Changed: s.Discovery.Counts.Changed, Unavailable: s.Discovery.Counts.Unavailable, ServerText: s.ApprovedText != snap.TextDigest,
			})
		}
	}
	s.Kinds = snap.Kinds
	if s.State == StateRegistered {
		if err := s.move(StateVerified); err != nil {
			return err
		}
		r.touch()
	}
	if s.State.Probed() && s.ApprovedText != snap.TextDigest {
		s.Causes = s.Causes.With(CauseServerTextChanged)
	}
	switch {
	case doubted && s.Review.Status != ReviewPending, r.reviewNeeded(snap):
		r.openReview(look.RequestedBy, look.At, look.At)
		r.touch()
	case s.Review.Status == ReviewPending && s.Review.Digest != ReviewDigest(s.SnapshotDigest, s.TargetDigest):
		// The server went back to what is approved: there is nothing to decide.
		s.Review = Review{Status: ReviewNone}
		r.touch()
	}
	return s.settle()
}

// seen notes that the server was met.
func (r *Record) seen(snap *Snapshot, look Look) {
	s := &r.Server
	s.LastHandshakeAt, s.ProtocolVersion = look.At, snap.ProtocolVersion
	s.Reported = Finding{Name: snap.ServerName, Version: snap.ServerVersion, TextDigest: snap.TextDigest}
	s.Discovery = DiscoveryRun{
		Number: max(look.Number, s.Discovery.Number), Status: DiscoverySucceeded, RequestedBy: look.RequestedBy, FinishedAt: look.At, SucceededAt: look.At,
		Counts: s.Discovery.Counts,
	}
}

// suspicious says whether a look at a server with bindings should not be
// believed at first sight: an empty list, more than half of the bound tools
// gone, or an advertised kind that vanished.
func (r *Record) suspicious(snap *Snapshot) (Cause, string) {
	s := &r.Server
	if !s.State.Probed() || snap.Digest == s.SnapshotDigest {
		return "", ""
	}
	had, bound, lost := 0, 0, 0
	for name, tool := range r.Tools {
		if tool.Available {
			had++
		}
		if b := r.Bindings[name]; b != nil && b.Bound && tool.Available {
			bound++
			if _, there := snap.Find(KindTool, name); !there {
				lost++
			}
		}
	}
	switch {
	case had > 0 && len(snap.Of(KindTool)) == 0:
		return CauseSuspectEmpty, fmt.Sprintf("the list of tools is empty, it had %d", had)
	case lost*2 > bound:
		return CauseSuspectEmpty, fmt.Sprintf("%d of %d bound tools are gone", lost, bound)
	}
	for _, kind := range s.Kinds {
		if !slices.Contains(snap.Kinds, kind) {
			return CauseCapabilityLoss, fmt.Sprintf("the server no longer advertises %s", kind)
		}
	}
	return "", ""
}

// suspect degrades the server and keeps catalog and bindings as they are until
// a second look agrees with this one.
func (r *Record) suspect(cause Cause, detail string, snap *Snapshot, look Look) error {
	s := &r.Server
	s.Suspect = snap.Digest
	s.Causes = s.Causes.Without(CauseSuspectEmpty, CauseCapabilityLoss, CauseMalformedList).With(cause)
	counts := s.Discovery.Counts
	r.seen(snap, look)
	s.Discovery.Counts, s.Discovery.Message = counts, detail
	r.touch()
	r.note(string(cause) + ": " + detail)
	return s.settle()
}

// refresh brings the catalog to what the snapshot shows (Appendix B).
func (r *Record) refresh(snap *Snapshot, look Look) Counts {
	s, at := &r.Server, look.At
	var counts Counts
	mine := map[string]bool{} // ids given in this refresh
	for _, item := range snap.Of(KindTool) {
		counts.Total++
		tool, known := r.Tools[item.Name]
		switch {
		case !known:
			counts.New++
			tool = &Tool{
				TenantID: s.TenantID, ServerID: s.ServerID, ExternalID: item.Name, ToolID: r.freeID(item.Name, mine), FirstSeenAt: at,
			}
			mine[tool.ToolID] = true
			r.Tools[item.Name] = tool
		case tool.Digests.Binds(item.Digests) && tool.Verdict == item.Verdict:
			counts.Unchanged++
		default:
			counts.Changed++
		}
		tool.Title, tool.Description, tool.Definition, tool.Digests = item.Title, item.Text, item.Definition(), item.Digests
		tool.Verdict, tool.Detail, tool.LastSeenAt, tool.Origin = item.Verdict, item.Detail, at, look.Origins[item.Name]
		if own := ToolID(r.Namespace(), item.Name); tool.ToolID != own {
			tool.Verdict, tool.Detail = ReasonIDCollision, "the id "+own+" belongs to another tool of the tenant"
		}
		tool.Available = tool.Verdict == ""
		r.changes.Tools[item.Name] = true
		switch b := r.Bindings[item.Name]; {
		case b == nil:
		case tool.Verdict != "":
			r.unbind(item.Name, tool.Verdict)
		case !b.Holds(tool.Digests, s.TargetDigest) && !r.keep(b, item, at):
			r.unbind(item.Name, ReasonSchemaChanged)
		}
	}
	for name, tool := range r.Tools {
		if _, there := snap.Find(KindTool, name); !there && (tool.Available || tool.Verdict != "") {
			if tool.Available {
				counts.Unavailable++
			}
			// Its last sighting is the discovery before this one.
			tool.Available, tool.Verdict, tool.Detail = false, "", ""
			r.changes.Tools[name] = true
		}
	}
	return counts
}

// freeID gives a newcomer its canonical id, or one nobody can hit upon when
// that one belongs to another tool; such a tool stays quarantined.
func (r *Record) freeID(name string, mine map[string]bool) string {
	id := ToolID(r.Namespace(), name)
	if mine[id] || r.Taken != nil && r.Taken(id) {
		return id + "-" + trimID(r.Server.ServerID) + digestBytes([]byte(name))[len("sha256:"):][:16]
	}
	return id
}

// rebindOthers re-checks resources and prompts as tools are: one that vanished
// keeps its binding, which holds again when it returns as it was approved.
func (r *Record) rebindOthers(snap *Snapshot) {
	for uri, b := range r.Resources {
		if item, there := snap.resource(uri); b.Bound && there {
			if why := drifted(item, b.Contract, b.Text); why != "" {
				b.Bound, b.UnboundBy = false, why
				r.changes.Resources[uri] = true
			}
		}
	}
	for name, b := range r.Prompts {
		if item, there := snap.Find(KindPrompt, name); b.Bound && there {
			if why := drifted(item, b.Contract, b.Text); why != "" {
				b.Bound, b.UnboundBy = false, why
				r.changes.Prompts[name] = true
			}
		}
	}
}

// drifted says why a resource or prompt is no longer what was approved.
func drifted(item Item, contract, text string) Reason {
	switch {
	case item.Quarantined():
		return item.Verdict
	case item.Digests.Contract != contract || item.Digests.Text != text:
		return ReasonSchemaChanged
	}
	return ""
}

func (r *Record) unbound(snap *Snapshot) int {
	n := 0
	for _, item := range snap.Of(KindTool) {
		if b := r.Bindings[item.Name]; b == nil || !b.Bound {
			n++
		}
	}
	return n
}

// DiscoveryFailed records a look that did not come about (R44): no tool, no
// binding and no enablement changes. Faults of a list degrade an active server;
// a handshake that failed adds no cause, since probes judge that.
func (r *Record) DiscoveryFailed(reason Reason, message string, look Look) error {
	s := &r.Server
	if s.State == StateRetired || look.TargetDigest != s.TargetDigest || look.Number < s.Discovery.Number {
		r.note("failed discovery dropped: stale")
		return nil
	}
	s.Discovery.Number, s.Discovery.Status, s.Discovery.RequestedBy = look.Number, DiscoveryFailed, look.RequestedBy
	s.Discovery.Reason, s.Discovery.Message, s.Discovery.FinishedAt = reason, message, look.At
	r.observe()
	r.note("discovery failed: " + string(reason))
	if s.State.Probed() && reason.FaultsList() {
		s.Causes = s.Causes.With(CauseMalformedList)
	}
	return s.settle()
}

// FaultsList says whether the reason is a fault of a list's envelope, pages or
// limits, with which the cause malformed_list stands. A list for which the
// tenant has no room is one: what it would have changed is not known either.
func (r Reason) FaultsList() bool {
	return slices.Contains([]Reason{
		ReasonMalformedList, ReasonCursorLoop, ReasonTooMany, ReasonTooLarge, ReasonListFailed, ReasonQuotaExceeded,
	}, r)
}
