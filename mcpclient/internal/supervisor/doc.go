// Package supervisor runs a command of which nothing is left when the program
// that started it ends, however it ends: also by SIGKILL, also within the first
// millisecond.
//
// Neither process groups nor PR_SET_PDEATHSIG can do that. Descendants leave
// groups, and a death signal is lost when the parent died before it was asked
// for: bubblewrap asks late, so a sandbox that loses its parent while it is made
// would run for ever. So between the program and the command stands a process
// that has nothing else to do. It is this same program, started again under
// another name; this package's init sees the name and never returns, so whoever
// links the package has the supervisor and cannot forget it.
//
//	program ── control (a socket: the lifeline) ──▶ supervisor ──▶ command ──▶ ...
//
// The supervisor adopts whatever loses its parent below it
// (PR_SET_CHILD_SUBREAPER), so everything that the command starts is its
// descendant for ever. Once the command ended, the program asks, or the program's
// end of the lifeline is closed, which the kernel does for a dead program, it
// kills its children until it has none: those of a killed child become its own
// before it learns of the death, so no child (ECHILD) proves that there is no
// descendant. It kills only children, which keep their number until it reaps
// them, so nobody else is ever hit.
//
// It is in a session of its own, takes no signal, and holds none of the command's
// pipes. Nothing secret passes through it: the environment is in a file in memory
// that it hands on unread.
//
// What it cannot do: a command without a sandbox runs as the same user and can
// kill its supervisor (then only the command itself ends with it), can ask a
// service of the machine to start something elsewhere, and can outrun the kills
// for a while by forking.
//
// The package imports little and nothing but the standard library, so that its
// init is among the first: a supervisor of a program of 200 MB is ready after some
// milliseconds, with the program's other packages not initialized.
package supervisor
