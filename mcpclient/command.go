package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// Command is a server that is started as a process and spoken to over its
// standard input and output.
type Command struct {
	// Argv is the program, by its absolute path, and its arguments. No shell
	// sees them.
	Argv []string
	// Dir is the working directory; "/" when empty.
	Dir string
	// Env is the whole environment, as NAME=value, with secrets resolved. Nothing
	// of our own environment is added.
	Env []string
	// Mask is of all secrets in Env. Whatever the process sends is masked before
	// anything else reads it. So a server that puts a secret into a cursor does not
	// get it back, and its list fails.
	Mask *secrets.Mask
	// Sandbox is how the process is kept from the machine; bubblewrap when empty:
	// namespaces of its own (users, mounts, processes, network, names, shared
	// memory), no privileges, a filter of system calls, and of the machine's files,
	// read-only, its programs and libraries and where its own program is. Whatever is
	// started ends with the process in either case, but without a sandbox it could
	// kill what sees to that.
	Sandbox registry.Sandbox
	// Mounts are more of the machine's files and folders that the sandbox has,
	// read-only, where the machine has them.
	Mounts []string
	// Limits are what it may use, with all that it starts.
	Limits registry.CommandLimits
	// Image is the directory that is the root of the sandbox, read-only; the
	// machine's when empty. It has the directories /dev, /proc and /tmp. Of a
	// container it is the image's name with its digest.
	Image string
	// Network gives the sandbox the machine's network, and a container that of Docker
	// or Podman. Without a sandbox the
	// process has it anyway.
	Network bool
	// Start bounds the time from the start of the process to the end of the
	// handshake, all attempts together; 60 s when 0. Servers were seen to need 26 s
	// on a busy machine.
	Start time.Duration
}

// Bounds of a process.
const (
	startTime = 60 * time.Second
	// maxLine is how long one line of its output may be. What it is allowed
	// altogether is Limits.TotalBytes.
	maxLine = 16 << 20
	// tailBytes is how much of its standard error is kept: the end.
	tailBytes = 4 << 10
	// maxEnv is how large arguments and environment may be together.
	maxEnv = 128 << 10
	// defaultProcesses is how many processes run at once.
	defaultProcesses = 4
)

func (c *Command) check() *registry.Error {
	wrong := func(format string, args ...any) *registry.Error {
		return registry.Errorf(registry.ReasonInvalidArgument, "the command cannot be started: "+format, args...)
	}
	if len(c.Argv) == 0 {
		return wrong("it is empty")
	}
	if !filepath.IsAbs(c.Argv[0]) {
		return wrong("%q is no absolute path", outbound.Excerpt(c.Mask.String(c.Argv[0]), excerptBytes))
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return wrong("its directory is no absolute path")
	}
	switch {
	case c.contained():
		if !registry.PinnedImage(c.Image) {
			return wrong("its image is not named by a digest")
		}
	case c.Sandbox != "" && c.Sandbox != registry.SandboxBubblewrap && c.Sandbox != registry.SandboxNone:
		return wrong("there is no sandbox %q", outbound.Excerpt(string(c.Sandbox), excerptBytes))
	case c.Image != "" && !filepath.IsAbs(c.Image):
		return wrong("its image is no absolute path")
	case c.Image != "" && c.Sandbox == registry.SandboxNone:
		return wrong("an image needs a sandbox")
	}
	for _, mount := range c.Mounts {
		if !filepath.IsAbs(mount) {
			return wrong("a mount is no absolute path")
		}
	}
	size := 0
	for _, arg := range append(append([]string{c.Dir, c.Image}, c.Argv...), slices.Concat(c.Env, c.Mounts)...) {
		if strings.ContainsRune(arg, 0) {
			return wrong("a NUL character is in it")
		}
		size += len(arg) + 1
	}
	if size > maxEnv {
		return wrong("arguments and environment are larger than %d bytes", maxEnv)
	}
	for i, pair := range c.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return wrong("variable %d of its environment has no name", i+1) // not shown: it may be a secret
		}
	}
	return nil
}

// dir is the working directory.
func (c *Command) dir() string { return cmp.Or(c.Dir, "/") }

// where says for people how the process runs.
func (c *Command) where() string {
	switch {
	case c.Sandbox == registry.SandboxNone:
		return "without a sandbox"
	case c.contained() && c.Network:
		return "in a container with network"
	case c.contained():
		return "in a container without network"
	case c.Network:
		return "in a sandbox with network"
	}
	return "in a sandbox without network"
}

// bounds says who keeps its limits.
func (c *Command) bounds(k *Keeper) string {
	if c.contained() {
		return "limits held by " + string(c.Sandbox)
	}
	return k.how()
}

// contained says whether the process is in a container.
func (c *Command) contained() bool { return slices.Contains(registry.Containers, c.Sandbox) }

// slot waits until a process may be started; what it returns gives the slot back.
func (c *Client) slot(ctx context.Context) (release func(), err error) {
	c.once.Do(func() { c.slots = make(chan struct{}, cmp.Or(max(c.Processes, 0), defaultProcesses)) })
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, registry.Errorf(registry.ReasonDeadline, "the call was stopped before one of %d processes at once was free: %w", cap(c.slots), ctx.Err())
	}
}

// tryProcess makes one handshake with a process of its own.
func (v *visit) tryProcess(ctx, parent context.Context, a attempt) (*session, *failure) {
	done, began := v.diary.step("start", 0), time.Now()
	p, fault := start(ctx, v.keeper, v.command, v.limits)
	if fault != nil {
		late := fault.Reason == registry.ReasonTimeout
		if late {
			fault.With("limit_seconds", seconds(v.allowed(parent, a)))
		}
		done(0, 0, fault)
		return nil, &failure{fault: fault, final: !late, late: late}
	}
	v.diary.add(Step{Name: "start", OK: true, Detail: v.command.where() + "; " + v.command.bounds(v.keeper), Duration: time.Since(began)})
	life, end := context.WithCancel(context.WithoutCancel(parent))
	p.hear(v.pulse)
	d := v.duplex(life, a.era, p.send)
	go d.read(p.next) //nolint:contextcheck // the conversation has its life
	leave := func(patient bool) {
		p.stop(patient)
		end()
		p.close(parent)
		<-d.ended
	}
	method := methodInitialize
	if a.era == EraModern {
		method = methodDiscover
	}
	done = v.diary.step(method, 0)
	surface, f := d.greet(ctx, a.era)
	if f != nil {
		f.fault = p.explain(f.fault)
		if f.late {
			f.fault = v.pulse.late(ctx, f.fault, v.allowed(parent, a))
		}
		f.final = f.final || f.fault.Reason == registry.ReasonSandboxUnavailable || f.fault.Reason == registry.ReasonTooLarge || errors.Is(f.fault, errSecretOutsideText)
		leave(false)
		done(0, 0, f.fault)
		return nil, f
	}
	done(0, 0, nil)
	return &session{
		surface: surface,
		era:     EraOf(surface.ProtocolVersion),
		call: func(ctx context.Context, method string, params map[string]any) (message, int64, *registry.Error) {
			m, size, fault := d.call(ctx, method, params)
			if fault != nil {
				fault = p.explain(fault)
			}
			return m, size, fault
		},
		noticed: func() []quirk {
			if lines, _ := p.noise.seen(); lines > 0 {
				return []quirk{quirkNoise}
			}
			return nil
		},
		close: func() { leave(true) },
	}, nil
}

// errSecretOutsideText says that a message was one only as long as it was not
// masked. Every further one of the process will be like that.
var errSecretOutsideText = errors.New("one of the secrets stands elsewhere than in a text")

// isMessage says whether a line is JSON-RPC 2.0. Everything else on standard
// output (banners, logs, also in JSON) is noise.
func isMessage(line []byte) bool {
	fields, err := members(line, "jsonrpc")
	if err != nil {
		return false
	}
	version, _ := text(fields["jsonrpc"])
	return version == "2.0"
}

// plural words a number of lines.
func plural(lines int) string {
	if lines == 1 {
		return "1 line"
	}
	return strconv.Itoa(lines) + " lines"
}
