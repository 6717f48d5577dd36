package registry

// MaxEventItems bounds what one event names; it counts all.
const MaxEventItems = 200

// pending gives the digest that waits for a decision; empty when none does.
func (v Review) pending() string {
	if v.Status != ReviewPending {
		return ""
	}
	return v.Digest
}

// tell adds the events that follow from what a change comes to, however it came
// about: a review that is asked for, a decision, an exception, bindings.
func (r *Record) tell() {
	s := &r.Server
	if d := r.changes.Decision; d != nil && d.Applied && d.Verb != VerbWithdrawApproval { // that has an event of its own
		r.emit(EventDecisionRecorded, DecisionRecorded{
			ServerID: s.ServerID, TenantID: s.TenantID, DecisionID: d.DecisionID, Verb: d.Verb, Digest: d.Digest, Subject: d.Subject,
		})
	}
	if !s.Exception.ApprovedAt.IsZero() && !s.Exception.ExpiresAt.Equal(r.excepts.ExpiresAt) {
		r.emit(EventExceptionGranted, ExceptionGranted{
			ServerID: s.ServerID, TenantID: s.TenantID, Subject: s.Exception.ApprovedBy, EndsAt: s.Exception.ExpiresAt,
		})
	}
	if s.Causes.Has(CauseAuthExceptionExpired) && !r.causes.Has(CauseAuthExceptionExpired) {
		r.emit(EventExceptionExpired, ExceptionExpiring{ServerID: s.ServerID, TenantID: s.TenantID, EndsAt: s.Exception.ExpiresAt})
	}
	r.tellBindings()
	if digest := s.Review.pending(); digest != "" && digest != r.pending {
		r.emit(EventReviewRequested, ReviewRequested{
			ServerID: s.ServerID, TenantID: s.TenantID, Digest: digest, RequestedBy: s.Review.RequestedBy, EndsAt: s.Review.ExpiresAt,
		})
	}
}

func (r *Record) tellBindings() {
	s := &r.Server
	told := BindingsChanged{ServerID: s.ServerID, TenantID: s.TenantID}
	add := func(c BindingChange) {
		if c.Bound {
			told.Bound++
		} else {
			told.Unbound++
		}
		if len(told.Changes) < MaxEventItems {
			told.Changes = append(told.Changes, c)
		}
	}
	for _, name := range sortedKeys(r.changes.Bindings) {
		if b := r.Bindings[name]; b != nil {
			c := BindingChange{Kind: KindTool, Name: name, Bound: b.Bound, Reason: b.UnboundBy}
			if t := r.Tools[name]; t != nil {
				c.ToolID = t.ToolID
			}
			add(c)
		}
	}
	for _, uri := range sortedKeys(r.changes.Resources) {
		if b := r.Resources[uri]; b != nil {
			add(BindingChange{Kind: KindResource, Name: uri, Bound: b.Bound, Reason: b.UnboundBy})
		}
	}
	for _, name := range sortedKeys(r.changes.Prompts) {
		if b := r.Prompts[name]; b != nil {
			add(BindingChange{Kind: KindPrompt, Name: name, Bound: b.Bound, Reason: b.UnboundBy})
		}
	}
	if told.Bound+told.Unbound > 0 {
		r.emit(EventBindingsChanged, told)
	}
}
