package workflows

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// inFlight is how many updates of one workflow a process has in flight at a
// time. The engine takes 10 of all processes, and one that it refuses costs all:
// the refusal drops the workflow from the engine's cache together with the task
// that carries the updates it had taken, and they wait for that task's timeout.
// The workflow handles one after the other anyway; the second one is under way
// meanwhile.
const inFlight = 2

// turns lets the calls to one workflow wait for each other, in the order in
// which they came.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

func newTurns() *turns { return &turns{of: map[string]*turn{}} }

type turn struct {
	*semaphore.Weighted
	users int
}

// wait returns when the caller may call the workflow, with what ends its turn,
// or with the context's error.
func (t *turns) wait(ctx context.Context, workflowID string) (done func(), err error) {
	t.mu.Lock()
	mine := t.of[workflowID]
	if mine == nil {
		mine = &turn{Weighted: semaphore.NewWeighted(inFlight)}
		t.of[workflowID] = mine
	}
	mine.users++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, workflowID)
		}
	}
	if err := mine.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() { mine.Release(1); leave() }, nil
}
