// Package telemetry names what the rooms tell about their work: spans, the ids
// that log lines carry, and instruments (R201). Where it goes is decided by
// package export, which the programs use.
//
// Spans and metrics carry ids, outcomes and counts. They never carry what a
// server or a caller wrote: no arguments, headers, queries of URLs, statements
// or bodies (B21).
package telemetry
