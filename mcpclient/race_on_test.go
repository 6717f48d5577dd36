//go:build race

package mcpclient_test

// raceDetector says that the race detector is on, whose own memory grows with
// the addresses that were ever used.
const raceDetector = true
