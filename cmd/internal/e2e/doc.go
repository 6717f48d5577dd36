// Package e2e tests the two programs as they are built: real processes, a real
// Temporal, SQLite and Postgres, real MCP servers, and kill -9. It has no code
// of its own.
//
// The programs are built once for each run, with the failpoints. To work on the
// tests alone, build them into a directory and name it by COUNTERSIGN_E2E_BIN:
//
//	go build -tags failpoints -o DIR ./cmd/countersign ./cmd/countersign-dev
package e2e
