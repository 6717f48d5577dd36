// Package mcptest has MCP servers to talk to: [Demo], the deterministic one of
// the development program, and [Server], which says and does whatever a test
// tells it to. It imports nothing of ours.
//
// A [File] is a script as JSON, which the program cmd/faulty serves to any
// client over HTTP, HTTP+SSE or stdio; docs/fault-server.md has the format, and
// scripts/ one for every kind of fault.
//
// A [Server] speaks the protocol by hand, on net/http and encoding/json, since
// it must be able to break every rule that an SDK would keep. What it answers is
// a [Script], changed at run time by [Server.Edit]; where it misbehaves is a
// [Fault] per JSON-RPC method. It records every call and counts connections and
// sessions, so that a test can say what a client did not do.
package mcptest
