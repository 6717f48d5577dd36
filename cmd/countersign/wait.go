package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// Pauses between two looks at a server that is waited for.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 2 * time.Second
)

// waiting is the flag --wait.
type waiting struct {
	word  string
	state registryv1.McpServerState
}

func (w *waiting) addFlag(command *cobra.Command) {
	command.Flags().StringVar(&w.word, "wait", "", "wait until the server has reached this `STATE`: registered, verified, active, degraded or retired")
	completeWords(command, "wait", words[registryv1.McpServerState]())
}

func (w *waiting) check() error {
	if w.word == "" {
		return nil
	}
	state, err := parseWord[registryv1.McpServerState]("--wait", w.word)
	w.state = state
	return err
}

// usual is how long a command may take that may wait.
func (w *waiting) usual() time.Duration {
	if w.word == "" {
		return callTimeout
	}
	return waitTimeout
}

// reached says whether a server has come to a state. A server that is active
// or degraded was verified before.
func reached(is, wanted registryv1.McpServerState) bool {
	switch wanted {
	case stateRegistered:
		return is != stateRetired
	case stateVerified:
		return is == stateVerified || is == stateActive || is == stateDegraded
	default:
		return is == wanted
	}
}

// await looks at a server until it has reached what --wait asks for, and gives
// it as it was last seen. An API that goes away for a moment is waited for too.
func (c *cli) await(ctx context.Context, a *api, s server, w waiting) (server, error) {
	var absent error // why the API was away when it was asked last
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		switch {
		case w.word == "" || reached(s.GetState(), w.state):
			return s, nil
		case s.GetLaunch().GetStatus() == launchPending && s.GetState() != stateRetired:
			return s, failf(registry.ReasonLaunchPending, "server %s is not started before its launch is approved", s.GetName()).
				withNext("countersign server approve-launch %s", s.GetName())
		case s.GetState() == stateRetired:
			return s, (&failure{
				Exit: exitFailure, Reason: registry.ReasonServerRetired,
				Message: "server " + s.GetName() + " is retired and will never be " + w.word,
			}).withNext("countersign server describe %s", s.GetServerId())
		}
		select {
		case <-ctx.Done():
			return s, c.waitedFor(ctx, s, w, absent)
		case <-time.After(pause):
		}
		latest, err := a.getServer(ctx, s.GetServerId())
		switch {
		case ctx.Err() != nil:
			return s, c.waitedFor(ctx, s, w, absent)
		case err == nil:
			s, absent = latest, nil
		case !away(err):
			return s, err
		default:
			absent = err
		}
	}
}

// waitedFor says why a wait ended without its state.
func (c *cli) waitedFor(ctx context.Context, s server, w waiting, absent error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	f := failf(registry.ReasonDeadline, "server %s is still %s, not %s, after %s", s.GetName(), word(s.GetState()), w.word, c.limit(waitTimeout))
	if summary := s.GetHealth().GetSummary(); summary != "" {
		f.Message += ": " + summary
	}
	if absent != nil {
		why := c.failureOf(absent)
		f.Message += "; the API was away: " + some(": ", string(why.Reason), why.Message)
	}
	return f.withNext("%s", some("; ", s.GetHealth().GetNextStep(), nextCommand(s)))
}

// showAwaited waits for a server that was changed and shows it, also when the
// wait was in vain.
func (c *cli) showAwaited(ctx context.Context, a *api, s server, w waiting) error {
	s, err := c.await(ctx, a, s, w)
	if err == nil {
		return c.showServer(s)
	}
	return errors.Join(err, showRow(c, servers, s))
}
