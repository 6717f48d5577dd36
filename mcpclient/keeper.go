package mcpclient

import "log/slog"

// KeeperOptions say what a [Keeper] works with.
type KeeperOptions struct {
	// StateDir is where workers of this machine note that they live. It belongs to
	// the worker's user and outlives the worker; a folder of that user in the
	// directory for temporary files when empty.
	StateDir string
	// Cgroup is where the processes get cgroups of their own: the directory of a
	// cgroup (version 2) that was delegated to the worker, [CgroupNone], or empty for
	// the worker's own where that is delegated.
	Cgroup string
	// Environ is the worker's environment, of which Docker and Podman get what says
	// how they are reached.
	Environ []string
	// Log is told what predecessors left; nil: nobody is.
	Log *slog.Logger
}

// CgroupNone wants no cgroups.
const CgroupNone = "none"
