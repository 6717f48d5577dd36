// Package failpoint names the places between two lines where a crash is
// tested. In an ordinary build Hit does nothing; built with -tags failpoints
// the process kills itself (SIGKILL) at the point that COUNTERSIGN_FAILPOINT
// names, after it wrote the name to the file COUNTERSIGN_FAILPOINT_LOG.
package failpoint

// Points lists every failpoint. A test kills the product at each of them and
// proves that it was reached.
var Points = []string{
	"register.begin",         // the api is about to ask the workflow
	"register.before_commit", // inside the transaction
	"register.after_commit",  // committed, the workflow does not know it yet
	"begin_discovery.before_commit",
	"begin_discovery.after_commit",
	"discovery.begin",          // the activity is about to dial
	"discovery.listed",         // the server was read, nothing is written
	"discovery.snapshot_saved", // the snapshot is written, the server's row is not
	"discovered.before_commit",
	"discovered.after_commit",
	"discovery_failed.before_commit",
	"discovery_failed.after_commit",
	"approve.before_commit",
	"approve.after_commit",
	"reject.before_commit",
	"reject.after_commit",
	"request_review.before_commit",
	"request_review.after_commit",
	"set_enabled.before_commit",
	"set_enabled.after_commit",
	"edit.before_commit",
	"edit.after_commit",
	"probe.probed",        // a batch was probed, nothing is written
	"probe.recorded",      // the windows are written, no workflow is told
	"probe.before_commit", // a changed outcome reaches its server
	"probe.after_commit",
	"retire.before_commit",
	"retire.after_commit",
	"create_provider.before_commit",
	"create_provider.after_commit",
	"plan_refresh.before_commit", // the descriptor was fetched, nothing of it is written
	"plan_refresh.after_commit",
	"end_refresh.before_commit", // the servers are there, the refresh has not ended
	"end_refresh.after_commit",
}
