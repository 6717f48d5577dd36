// Package worker wires Temporal: how to reach it, what is registered, the one
// schedule, and the versions of running code. Nothing else knows how.
package worker
