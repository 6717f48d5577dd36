package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The levels of patience. Nothing else in this package sets a timeout of an
// activity or a retry policy.
var (
	// committing is a transaction of our own database. It is retried for as
	// long as it takes: an update must not end in an error that a repeat with
	// the same id would only be told again.
	// Its timeout is also how long a change waits when its worker dies in the
	// middle of it.
	committing = workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	}
	// discovering meets a server: handshake, every page, and the write of what
	// was seen. It heartbeats at every page (R53).
	discovering = workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 3,
		},
	}
	// extending fetches an extension's descriptor, and takes what it declares.
	extending = workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 3,
		},
	}
	// bringing waits for a server's workflow, and for a discovery of it with all
	// its attempts.
	bringing = workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	}
	// trying meets a server while a person waits: once.
	trying = workflow.ActivityOptions{
		StartToCloseTimeout: 110 * time.Second, // a process may take 75 s to start, its lists 30 s
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	// probing meets a page of servers; the windows that are recorded already
	// are not probed again by a retry.
	probing = workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	}
	// sweeping meets servers as long as a window wants it. It is tried for as
	// long as its sweep runs: when the database is away, so is the retry.
	sweeping = workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	}
	// pruning removes in small steps what nothing needs; what one round leaves the
	// next one takes.
	pruning = workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 3,
		},
	}
)

// Times of the Server workflow.
const (
	registrationGrace = 30 * time.Second // to commit a registration, else the workflow ends
	firstRetry        = time.Minute      // of a failed first discovery, doubling
	longestRetry      = time.Hour
	maxHistory        = 8000 // events, after which the workflow continues as new
	remembered        = 256  // operations
)
