// Package events tells others what happens: envelopes, their schemas, and the
// sinks that deliver them.
package events
