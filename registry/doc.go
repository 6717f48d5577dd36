// Package registry holds the words of Countersign as pure Go: servers and their
// states, tools and bindings, digests, approvals, health, denial order, reasons
// and errors. It does no I/O, reads no clock, starts no goroutine and imports
// nothing else of this module, so every rule in it can be tested with values.
//
// The life of a server:
//
//	registered → verified → active ⇄ degraded
//	                          └─────────┴──→ retired
//
// plus registered → retired and verified → retired, for withdrawal and
// revocation only. The table is moves in state.go.
package registry
