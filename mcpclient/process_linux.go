package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"countersign/mcpclient/internal/supervisor"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// How long a process may take: to end after its standard input ended, to end
// after SIGTERM (both only after a good session), and to be gone with all that it
// started after SIGKILL.
const (
	graceEOF  = 2 * time.Second
	graceTerm = 2 * time.Second
	hastyTerm = 500 * time.Millisecond
	graceKill = 5 * time.Second
)

// process is a running server with its three pipes.
type process struct {
	command    *Command
	limits     registry.Limits
	supervised *supervisor.Process
	kept       kept

	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	lines   *bufio.Reader
	pulse   *pulse // of standard output, without noise
	read    int64  // of standard output
	writing sync.Mutex

	stopping atomic.Bool
	dead     chan struct{}      // it ended
	byItself bool               // before we asked it to; after dead
	state    syscall.WaitStatus // after dead
	over     supervisor.Usage   // what was too much; after dead
	ended    chan struct{}      // it is gone with all that it started

	tail     tail
	tailDone chan struct{} // standard error is at its end
	noise    noise
}

// start starts a process, and waits until its program, or the sandbox's, runs.
func start(ctx context.Context, keeper *Keeper, command *Command, limits registry.Limits) (*process, *registry.Error) {
	ours, theirs, err := pipes()
	if err != nil {
		return nil, registry.Errorf(registry.ReasonInternal, "no pipes for the server's process: %w", err)
	}
	defer closeAll(theirs)
	supervised, kept, fault := supervise(keeper, command, theirs)
	if fault != nil {
		closeAll(ours)
		return nil, fault
	}
	closeAll(theirs) // else their end is never seen; closing twice does no harm
	p := &process{
		command: command, limits: limits, supervised: supervised, kept: kept,
		dead: make(chan struct{}), ended: make(chan struct{}), tailDone: make(chan struct{}),
		stdin: ours[0], stdout: ours[1], stderr: ours[2], lines: bufio.NewReaderSize(ours[1], 64<<10),
		tail: tail{mask: command.Mask},
	}
	go p.watch()
	go p.listen()
	err = supervised.Begun(ctx)
	if err == nil {
		return p, nil
	}
	p.stop(false)
	p.close(ctx)
	if ctx.Err() != nil {
		return nil, registry.Errorf(registry.ReasonTimeout, "the server's process was not started in time").With("phase", "start")
	}
	return nil, notStarted(command, err)
}

// kept is what a process has besides itself, which is removed after it.
type kept struct {
	by        *Keeper
	group     string // directory of its cgroup; empty: there is none
	container string // name of its container; empty: it is in none
}

// supervise hands the command to a supervisor, in a cgroup where there are some,
// or what starts its container.
func supervise(keeper *Keeper, command *Command, theirs []*os.File) (*supervisor.Process, kept, *registry.Error) {
	with := kept{by: keeper}
	limits := command.Limits.Defaults()
	c := supervisor.Command{
		Argv: command.Argv, Files: [3]*os.File(theirs), Rlimits: rlimits(limits),
		Most: supervisor.Usage{Memory: limits.Memory, Tasks: int64(limits.Tasks)},
	}
	var texts [][]byte
	var fault *registry.Error
	switch {
	case command.Sandbox == registry.SandboxNone:
		c.Dir, texts = command.dir(), [][]byte{ended(command.Env)}
	case command.contained():
		if with.container, fault = keeper.forContainer(command.Sandbox); fault != nil {
			return nil, kept{}, fault
		}
		var env []byte
		if c.Argv, env, fault = container(keeper, with.container, command); fault != nil {
			return nil, kept{}, fault
		}
		texts = [][]byte{ended(keeper.engineEnv), env}
		c.Rlimits, c.Most = nil, supervisor.Usage{} // the container has them
	default:
		if c.Argv, texts, fault = bubblewrap(command); fault != nil {
			return nil, kept{}, fault
		}
		c.Most.Tasks += sandboxTasks
	}
	defer func() { closeAll(c.More) }()
	for _, text := range texts {
		file, err := inMemory(text)
		if err != nil {
			return nil, kept{}, registry.Errorf(registry.ReasonInternal, "no memory for what the server's process is started with: %w", err)
		}
		c.More = append(c.More, file)
	}
	if command.Sandbox == registry.SandboxNone || command.contained() {
		c.Env, c.More = c.More[0], c.More[1:]
		defer func() { _ = c.Env.Close() }()
	}
	var err error
	c.Owner = keeper.owner()
	if !command.contained() {
		with.group, err = keeper.forProcess(limits)
	}
	if err != nil {
		return nil, kept{}, registry.Errorf(registry.ReasonSandboxUnavailable, "the server's process gets no cgroup: %w", err).
			WithNext("look whether the worker's cgroup is still delegated to it, then restart the worker")
	}
	c.Group = with.group
	supervised, err := supervisor.Start(c)
	if err != nil {
		leaveGroup(c.Group)
		return nil, kept{}, notStarted(command, err)
	}
	return supervised, with, nil
}

// leaveGroup removes a cgroup that the supervisor did not.
func leaveGroup(dir string) {
	if dir != "" {
		_ = removeGroup(dir)
	}
}

// sandboxTasks are those of bubblewrap itself.
const sandboxTasks = 2

// inMemory makes a file in memory. Arguments could be read by everybody on the
// machine.
func inMemory(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("options", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "options")
	if _, err = file.Write(text); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// watch waits for the end of the process, and for that of all which it started.
func (p *process) watch() {
	defer close(p.ended)
	end, known := p.supervised.End()
	p.state, p.over, p.byItself = end.Status, end.Over, !p.stopping.Load()
	if known {
		close(p.dead)
		p.supervised.Wait()
		leaveGroup(p.kept.group)
		return
	}
	p.state = p.supervised.Wait()
	close(p.dead)
	leaveGroup(p.kept.group)
}

func notStarted(command *Command, err error) *registry.Error {
	return registry.Errorf(registry.ReasonUnreachable, "the server's process cannot be started: %s", startFault(err)).
		With("phase", "start").With("program", outbound.Excerpt(command.Mask.String(command.Argv[0]), urlBytes))
}

func startFault(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return "the system refuses"
}

// pipes makes the three pipes: our ends and the process's.
func pipes() (ours, theirs []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return nil, nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// listen keeps the end of standard error.
func (p *process) listen() {
	defer close(p.tailDone)
	_, _ = io.Copy(&p.tail, struct{ io.Reader }{p.stderr})
}

// send writes one line.
func (p *process) send(ctx context.Context, message []byte) *registry.Error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if ctx.Err() != nil {
		return registry.Errorf(registry.ReasonTimeout, "the server did not read its input in time")
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = p.stdin.SetWriteDeadline(time.Now())
	})
	_, err := p.stdin.Write(append(message, '\n'))
	if !stop() {
		<-cut
		_ = p.stdin.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return registry.Errorf(registry.ReasonTimeout, "the server did not read its input in time")
	}
	return registry.Errorf(registry.ReasonUnreachable, "the server reads no input any more")
}

// hear has the pulse note what comes from now on. It is called before any line
// is read.
func (p *process) hear(pulse *pulse) {
	p.pulse = pulse
	p.lines.Reset(&heardBody{p.stdout, pulse})
}

// next gives the next message, masked; lines that are none are counted.
func (p *process) next() ([]byte, *registry.Error) {
	for {
		last := p.pulse.last.Load()
		line, err := p.line()
		switch {
		case err != nil && len(line) == 0:
			return nil, registry.Errorf(registry.ReasonUnreachable, "the server ended its output before its answer")
		case len(line) > maxLine:
			return nil, tooMuch(maxLine, "one line of output", "line")
		case p.read > p.limits.TotalBytes:
			return nil, tooMuch(p.limits.TotalBytes, "its output", "total")
		}
		line = bytes.TrimSpace(line)
		masked := p.command.Mask.Bytes(line)
		switch {
		case isMessage(masked):
			return masked, nil
		case !bytes.Equal(masked, line) && isMessage(line):
			return nil, registry.Errorf(registry.ReasonProtocolError, "a message of the server cannot be masked: %w", errSecretOutsideText).
				WithNext("make sure that what the command takes for secrets are some: a number or a common word occurs in every message")
		case len(line) > 0:
			p.noise.add(masked)
			p.pulse.last.Store(last) // however much of it comes, it is no answer
		}
	}
}

func tooMuch(limit int64, what, scope string) *registry.Error {
	return registry.Errorf(registry.ReasonTooLarge, "the server writes more than %d bytes in %s", limit, what).
		With("limit_bytes", strconv.FormatInt(limit, 10)).With("scope", scope)
}

// line reads one line, or as much of one as is over a limit.
func (p *process) line() ([]byte, error) {
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		p.read += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine || p.read > p.limits.TotalBytes {
			return line, err
		}
	}
}

// stop ends the process and all that belongs to it. A patient stop gives it the
// time to end by itself.
func (p *process) stop(patient bool) {
	term := hastyTerm
	if patient {
		term = graceTerm
	}
	p.stopping.Store(true)
	p.writing.Lock()
	_ = p.stdin.Close()
	p.writing.Unlock()
	if patient && p.gone(graceEOF) || p.gone(0) {
		return
	}
	// Signals short of SIGKILL do not reach into the sandbox.
	if p.command.Sandbox == registry.SandboxNone || p.command.contained() {
		p.supervised.Terminate()
		if p.gone(term) {
			return
		}
	}
	p.supervised.Kill()
	p.gone(graceKill) // a process that the kernel does not let go of is left to its supervisor
}

// gone waits for the end of all.
func (p *process) gone(wait time.Duration) bool { return closes(p.ended, wait) }

// closes waits until a channel is closed.
func closes(c <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// close closes our ends of the pipes. What still holds the others, holds them
// for nobody.
func (p *process) close(ctx context.Context) {
	_ = p.stdout.Close()
	_ = p.stderr.Close()
	<-p.tailDone
	p.supervised.Close()
	if p.kept.container != "" {
		p.kept.by.removeContainer(ctx, p.command.Sandbox, p.kept.container)
	}
}

// lastWords is how long an ended output may be ahead of the end of the process.
const lastWords = time.Second

// explain adds to a fault what the process tells of it: whether it ended, what it
// wrote to standard error, and what on standard output was no message.
func (p *process) explain(fault *registry.Error) *registry.Error {
	if fault.Reason == registry.ReasonUnreachable && closes(p.dead, lastWords) {
		closes(p.tailDone, lastWords)
	}
	stderr := p.tail.text()
	if closes(p.dead, 0) && p.byItself {
		fault = p.died(fault, stderr)
	}
	if stderr != "" {
		fault.With("stderr", outbound.Excerpt(stderr, tailBytes))
	}
	if lines, first := p.noise.seen(); lines > 0 {
		fault.With("noise_lines", strconv.Itoa(lines)).With("noise", first)
		if fault.Next == "" {
			fault = fault.WithNext("%s of its output were no messages; a server must write its log to standard error", plural(lines))
		}
	}
	return fault
}

// died words the end of a process.
func (p *process) died(fault *registry.Error, stderr string) *registry.Error {
	var facts []registry.Detail
	signal, code := p.state.Signal(), p.state.ExitStatus()
	how := "ended with exit code " + strconv.Itoa(code)
	if !p.state.Signaled() {
		facts = append(facts, registry.Detail{Key: "exit_code", Value: strconv.Itoa(code)})
	}
	if !p.state.Signaled() && p.command.Sandbox != registry.SandboxNone && code > 128 {
		signal = syscall.Signal(code - 128) // the sandbox hands on a signal like a shell
	}
	if name := unix.SignalName(signal); name != "" {
		how = "was ended by " + name
		facts = append(facts, registry.Detail{Key: "signal", Value: name})
	}
	if p.over != (supervisor.Usage{}) {
		return p.overLimit(fault)
	}
	if failed, why := p.sandboxFailed(stderr); failed {
		return registry.Errorf(registry.ReasonSandboxUnavailable, "the sandbox cannot be made: %s", outbound.Excerpt(why, excerptBytes)).
			WithNext("let this process make user namespaces, or configure the command to run without a sandbox")
	}
	if fault.Reason == registry.ReasonUnreachable {
		known := fault.Facts
		fault = registry.Errorf(registry.ReasonUnreachable, "the server's process %s before it had answered", how).
			WithNext("look at its standard error; programs often end at once when a variable is missing")
		fault.Facts = known
	}
	fault.Facts = append(fault.Facts, facts...)
	return fault
}

// overLimit words the end of a process that used too much.
func (p *process) overLimit(fault *registry.Error) *registry.Error {
	limits := p.command.Limits.Defaults()
	what, key, limit, used := "processes and threads", "limits.tasks", strconv.Itoa(limits.Tasks), strconv.FormatInt(p.over.Tasks, 10)
	if p.over.Memory > 0 {
		what, key = "MiB of memory", "limits.memory_mib"
		limit, used = strconv.FormatInt(limits.Memory>>20, 10), strconv.FormatInt(p.over.Memory>>20, 10)
	}
	known := fault.Facts
	fault = registry.Errorf(registry.ReasonProcessLimit, "the server's process was ended: with all that it started it used more than %s %s", limit, what).
		WithNext("if the server needs it, have the operator raise %s of its command", key)
	fault.Facts = known
	return fault.With("limit", key).With("limit_value", limit).With("used", used)
}

// tail keeps the last bytes that were written to it, and as many more as a secret
// takes: where the beginning is cut, a secret may be, and its rest is not known.
type tail struct {
	mask *secrets.Mask
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, most := len(b), tailBytes+t.mask.Longest()
	b = b[max(0, n-most):]
	if over := len(t.kept) + len(b) - most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, b...)
	return n, nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.mask.Tail(t.kept, tailBytes)))
}

// noise counts the lines that are no messages and keeps the first.
type noise struct {
	mu    sync.Mutex
	lines int
	first string
}

func (n *noise) add(line []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lines++; n.lines == 1 {
		n.first = outbound.Excerpt(line, excerptBytes)
	}
}

func (n *noise) seen() (int, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines, n.first
}
