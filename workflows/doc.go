// Package workflows holds the durable part of Countersign: deterministic code
// only. It talks to the world through activities and to callers through
// updates, signals and queries.
//
//	Server          one per live server, its whole life; owns the state
//	Discovery       child of Server, one run per discovery
//	Connection      takes edits of a connection and tells the servers that use it
//	ConnectionTest  handshake and lists, step by step; writes nothing
//	ProbeSweep      started by the schedule handshake-probe; one run per window
//
// The state struct of Server is also the input of its continue-as-new: nothing
// is rebuilt. Changes of code that running workflows execute go through
// workflow.GetVersion; histories in testdata/history are replayed by the tests.
// See docs/workflows.md.
package workflows
