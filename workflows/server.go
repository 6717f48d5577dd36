package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"countersign/activities"
	"countersign/registry"
)

// ServerInput starts the workflow of a live name, or carries it on.
type ServerInput struct {
	Tenant string      `json:"tenant"`
	Name   string      `json:"name"`
	State  ServerState `json:"state"`
	// MaxHistory bounds the events of one run; 0 means the default.
	MaxHistory int `json:"maxHistory,omitempty"`
}

// ServerState is all that a run hands to the next.
type ServerState struct {
	Server     registry.Server `json:"server"`
	RetryAt    time.Time       `json:"retryAt,omitzero"` // of the first discovery
	RetryDelay time.Duration   `json:"retryDelay,omitempty"`
	Discover   string          `json:"discover,omitempty"` // who wants a discovery that has no number yet
	Begun      int64           `json:"begun,omitempty"`    // number of the last discovery that was started
	Applied    []string        `json:"applied,omitempty"`  // the last operations that came as signals
}

// server is a running Server workflow.
type server struct {
	ServerInput
	lock      workflow.Mutex // held by every handler that awaits, and by the loop's own changes
	signals   int            // received by this run, for the operation ids of unsigned ones
	asked     bool           // a registration has come
	refused   bool           // a registration was refused
	child     workflow.ChildWorkflowFuture
	childRun  workflow.Execution
	stopChild workflow.CancelFunc
	number    int64 // of the running discovery, 0 when none runs
	timer     workflow.Future
	timerAt   time.Time
	stopTimer workflow.CancelFunc
	shown     registry.State // in the search attribute
}

// Server is the whole life of one server.
func Server(ctx workflow.Context, in ServerInput) error {
	s := &server{ServerInput: in, lock: workflow.NewMutex(ctx)}
	if err := s.listen(ctx); err != nil { // before anything that waits
		return err
	}
	return s.run(ctx)
}

func (s *server) run(ctx workflow.Context) error {
	s.show(ctx)
	if !s.registered() {
		if done, err := s.awaitRegistration(ctx); done || err != nil {
			return err
		}
	}
	for s.State.Server.State != registry.StateRetired {
		if err := s.step(ctx); err != nil {
			return err
		}
		if s.over(ctx) {
			s.quench()
			return workflow.NewContinueAsNewError(ctx, Server, s.ServerInput)
		}
	}
	s.quench()
	if s.stopChild != nil {
		s.stopChild()
	}
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

func (s *server) registered() bool { return s.State.Server.ServerID != "" }

// awaitRegistration ends the workflow when its registration was refused, or
// none came in time.
func (s *server) awaitRegistration(ctx workflow.Context) (done bool, err error) {
	if !s.asked { // it comes with the start, so the timer is for starts by hand
		if _, err := workflow.AwaitWithTimeout(ctx, registrationGrace, func() bool { return s.asked }); err != nil {
			return false, err
		}
	}
	err = workflow.Await(ctx, func() bool {
		return s.registered() || (s.refused || !s.asked) && workflow.AllHandlersFinished(ctx)
	})
	return !s.registered(), err
}

// step waits for one thing to do and does it.
func (s *server) step(ctx workflow.Context) error {
	s.setTimer(ctx)
	if err := workflow.Await(ctx, func() bool {
		return s.State.Server.State == registry.StateRetired || s.pending(ctx) || s.childDone() || s.wantsDiscovery() ||
			s.timer != nil && s.timer.IsReady() || !s.nextTimer().Equal(s.timerAt) || s.over(ctx)
	}); err != nil {
		return err
	}
	switch {
	case s.State.Server.State == registry.StateRetired:
		return nil
	case s.childDone():
		return s.endDiscovery(ctx)
	case s.timer != nil && s.timer.IsReady():
		return s.expire(ctx)
	case s.wantsDiscovery():
		return s.discoverAgain(ctx)
	case s.pending(ctx):
		return s.receive(ctx)
	}
	return nil
}

// over says whether the run should continue as new: never while a child runs,
// a handler is unfinished or a signal waits.
func (s *server) over(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	limit := maxHistory
	if s.MaxHistory > 0 {
		limit = s.MaxHistory
	}
	return (info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > limit) &&
		s.number == 0 && !s.pending(ctx) && workflow.AllHandlersFinished(ctx)
}

// take replaces the copy of the server by a newer one. Answers of transactions
// can arrive in another order than they committed.
func (s *server) take(ctx workflow.Context, now registry.Server) {
	if now.ServerID == "" || now.Revision < s.State.Server.Revision {
		return
	}
	s.State.Server = now
	if now.State != registry.StateRegistered {
		s.State.RetryAt, s.State.RetryDelay = time.Time{}, 0
	}
	s.show(ctx)
}

// show makes the Temporal UI readable.
func (s *server) show(ctx workflow.Context) {
	v := &s.State.Server
	workflow.SetCurrentDetails(ctx, s.details())
	if v.ServerID == "" || s.shown == v.State {
		return
	}
	known := s.shown
	s.shown = v.State
	if known == "" && v.State == registry.StateRegistered && workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		return // as the start set them
	}
	err := workflow.UpsertTypedSearchAttributes(ctx,
		AttributeTenant.ValueSet(s.Tenant), AttributeServer.ValueSet(v.ServerID), AttributeState.ValueSet(string(v.State)))
	if err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

func (s *server) details() string {
	v := &s.State.Server
	if v.ServerID == "" {
		return "waiting for the registration to be recorded"
	}
	text := fmt.Sprintf("**%s** `%s` is **%s**", v.Name, v.ServerID, v.State)
	if len(v.Causes) > 0 {
		text += fmt.Sprintf(" because of %v", v.Causes)
	}
	if v.Review.Status == registry.ReviewPending {
		text += "\n\nWaiting for an approval of `" + v.Review.Digest + "`"
		if v.Review.Tally != nil {
			text += ": " + v.Review.Tally.String()
		}
	}
	if v.Discovery.Status == registry.DiscoveryFailed {
		text += "\n\nThe last discovery failed: " + string(v.Discovery.Reason)
	}
	return text
}

// change is what every update handler does: one at a time, on the server that
// the caller means, with the state looked at after the lock.
func (s *server) change(ctx workflow.Context, serverID string, apply func() (registry.Server, error)) (registry.Server, error) {
	if err := s.lock.Lock(ctx); err != nil {
		return registry.Server{}, err
	}
	defer s.lock.Unlock()
	if err := s.meant(serverID); err != nil {
		return registry.Server{}, err
	}
	now, err := apply()
	if err != nil {
		return registry.Server{}, err
	}
	s.take(ctx, now)
	return now, nil
}

// meant refuses a call that is for another server of this name.
func (s *server) meant(serverID string) error {
	if s.State.Server.ServerID == serverID && serverID != "" {
		return nil
	}
	return registry.Errorf(registry.ReasonServerNotFound, "server %s is not the one that is live under this name", serverID).
		WithNext("read the server again")
}

// nextTimer is the next time at which the server changes by itself.
func (s *server) nextTimer() time.Time {
	v := &s.State.Server
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if v.Review.Status == registry.ReviewPending {
		sooner(v.Review.ExpiresAt)
	}
	if v.State.Probed() && !v.Causes.Has(registry.CauseAuthExceptionExpired) {
		sooner(v.Exception.ExpiresAt)
	}
	sooner(v.NextTerm())
	if s.number == 0 {
		sooner(s.State.RetryAt)
	}
	return next
}

// setTimer keeps one timer for the next deadline and touches it only when the
// deadline moves.
func (s *server) setTimer(ctx workflow.Context) {
	next := s.nextTimer()
	if next.Equal(s.timerAt) {
		return
	}
	s.quench()
	if next.IsZero() {
		return
	}
	timerCtx, stop := workflow.WithCancel(ctx)
	s.timerAt, s.stopTimer = next, stop
	s.timer = workflow.NewTimerWithOptions(timerCtx, max(next.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{Summary: "next deadline"})
}

func (s *server) quench() {
	if s.stopTimer != nil {
		s.stopTimer()
	}
	s.timer, s.timerAt, s.stopTimer = nil, time.Time{}, nil
}

// expire does what the timer was set for. It acts on its own: no other clock
// is asked.
func (s *server) expire(ctx workflow.Context) error {
	due := s.timerAt
	s.timer, s.timerAt, s.stopTimer = nil, time.Time{}, nil
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	defer s.lock.Unlock()
	v := &s.State.Server
	in := activities.ExpireInput{Tenant: s.Tenant, ServerID: v.ServerID}
	switch {
	case v.State == registry.StateRetired:
		return nil
	case s.State.RetryAt.Equal(due):
		s.State.RetryAt = time.Time{}
		s.State.Discover = registry.System("retry").Subject
		return nil
	case v.Review.Status == registry.ReviewPending && v.Review.ExpiresAt.Equal(due):
		in.Digest = v.Review.Digest
	case v.NextTerm().Equal(due):
		in.Term = due
	case v.Exception.ExpiresAt.Equal(due):
		in.Exception = due
	default:
		return nil
	}
	out, err := do(ctx, committing, "a deadline has come", act.Expire, in)
	return s.own(ctx, out.Server, err)
}

// own takes the result of a change that nobody asked for. A refusal of one is
// logged and does not end the server's life.
func (s *server) own(ctx workflow.Context, now registry.Server, err error) error {
	if _, refused := registry.AsError(err); refused {
		workflow.GetLogger(ctx).Warn("refused", "server", s.State.Server.ServerID, "reason", string(registry.ReasonOf(err)))
		return nil
	}
	if err == nil {
		s.take(ctx, now)
	}
	return err
}

// remember keeps the last operations that came as signals, and says whether
// this one was among them.
func (s *server) remember(id string) (known bool) {
	if slices.Contains(s.State.Applied, id) {
		return true
	}
	s.State.Applied = append(s.State.Applied, id)
	if n := len(s.State.Applied); n > remembered {
		s.State.Applied = slices.Delete(s.State.Applied, 0, n-remembered)
	}
	return false
}
