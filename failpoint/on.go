//go:build failpoints

package failpoint

import (
	"os"
	"slices"
	"syscall"
)

var armed, log = os.Getenv("COUNTERSIGN_FAILPOINT"), os.Getenv("COUNTERSIGN_FAILPOINT_LOG")

// Hit ends the process if this is the armed point.
func Hit(name string) {
	if !slices.Contains(Points, name) {
		panic("failpoint: " + name + " is not in the list")
	}
	if name != armed {
		return
	}
	if log != "" {
		if err := os.WriteFile(log, []byte(name), 0o600); err != nil {
			panic(err)
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
