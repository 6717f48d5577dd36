// Package api is the only door: one http.Handler that speaks Connect, gRPC,
// Connect GET and, below /factory/, REST, all with the same handlers, the same
// principals and the same errors.
//
// A write goes to the workflows, a read to the database; nothing here changes a
// server or dials one. Four tables say what holds at this border and nowhere
// else: who may call what (access.go), how a code travels (errors.go), what a
// word of the registry is in the proto (convert.go), and which query
// parameters and fields exist (the descriptors themselves).
package api
