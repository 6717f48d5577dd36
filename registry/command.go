package registry

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Command is a command of the operator's allow-list (C11): how a server of the
// transport stdio is started. A server pins the one that it was registered
// with; all of it but its limits is part of the target, and of what a person
// approves before the process is started for the first time.
type Command struct {
	Ref     string            `json:"ref" bun:"ref"`                           // its name in the allow-list
	Argv    []string          `json:"argv" bun:"argv,type:text"`               // the program by its absolute path, and its arguments; no shell sees them
	Image   string            `json:"image,omitempty" bun:"image"`             // directory that is the process's root, read-only; empty: the machine's
	Dir     string            `json:"dir,omitempty" bun:"dir"`                 // working directory; empty: /
	Env     map[string]string `json:"env,omitempty" bun:"env,type:text"`       // variable → secret reference, or plain:TEXT; the whole environment (R28, R29)
	Network bool              `json:"network,omitempty" bun:"network"`         // the machine's network
	Sandbox Sandbox           `json:"sandbox,omitempty" bun:"sandbox"`         // how it is kept from the machine
	Mounts  []string          `json:"mounts,omitempty" bun:"mounts,type:text"` // more of the machine's files that it may read, by their absolute paths
	Start   time.Duration     `json:"-" bun:"-"`                               // bound of start and handshake together; 0: 60 s
	Limits  CommandLimits     `json:"-" bun:"-"`                               // what it may use
}

// CommandLimits are what a process with all that it starts may use. 0 is the
// default, which stands behind each.
type CommandLimits struct {
	Memory       int64         // bytes, all together; 1 GiB
	Tmp          int64         // bytes in /tmp, and in a single file; 512 MiB
	Tasks        int           // processes and threads at once; 256
	OpenFiles    int           // of each process; 1024
	AddressSpace int64         // bytes of each process, reserved ones too; unlimited
	CPUTime      time.Duration // of each process; 10 minutes
	CPUs         float64       // processors, all together, where a cgroup or a container holds it; 2
}

// Defaults gives the limits with what is left open.
func (l CommandLimits) Defaults() CommandLimits {
	return CommandLimits{
		Memory: cmp.Or(l.Memory, 1<<30), Tmp: cmp.Or(l.Tmp, 512<<20), Tasks: cmp.Or(l.Tasks, 256), OpenFiles: cmp.Or(l.OpenFiles, 1024),
		AddressSpace: l.AddressSpace, CPUTime: cmp.Or(l.CPUTime, 10*time.Minute), CPUs: cmp.Or(l.CPUs, 2),
	}
}

// check says what is wrong with the limits: the field, and what it must be.
func (l CommandLimits) check() (field, why string) {
	const mib = 1 << 20
	switch {
	case l.Memory != 0 && (l.Memory < 16*mib || l.Memory > 1<<40):
		return "limits.memory_mib", "must be 16 to 1048576"
	case l.Tmp != 0 && (l.Tmp < mib || l.Tmp > 1<<40):
		return "limits.tmp_mib", "must be 1 to 1048576"
	case l.Tasks != 0 && (l.Tasks < 4 || l.Tasks > 32768):
		return "limits.tasks", "must be 4 to 32768"
	case l.OpenFiles != 0 && (l.OpenFiles < 16 || l.OpenFiles > 1<<20):
		return "limits.open_files", "must be 16 to 1048576"
	case l.AddressSpace != 0 && (l.AddressSpace < 64*mib || l.AddressSpace > 1<<46):
		return "limits.address_space_mib", "must be 64 to 67108864"
	case l.CPUTime != 0 && (l.CPUTime < time.Second || l.CPUTime > 24*time.Hour):
		return "limits.cpu_time", "must be 1s to 24h"
	case l.CPUs != 0 && !(l.CPUs >= 0.05 && l.CPUs <= 1024): // not that of NaN either
		return "limits.cpus", "must be 0.05 to 1024"
	}
	return "", ""
}

// Sandbox is how a process is kept from the machine.
type Sandbox string

// The sandboxes.
const (
	SandboxBubblewrap Sandbox = "bubblewrap" // namespaces of its own, the root read-only
	SandboxDocker     Sandbox = "docker"     // a container of an image, by Docker
	SandboxPodman     Sandbox = "podman"     // likewise by Podman
	SandboxNone       Sandbox = "none"       // none: it sees what this program sees
)

// Containers are the sandboxes that run an image. They keep its root, its name in
// a registry with its digest, and their own limits.
var Containers = []Sandbox{SandboxDocker, SandboxPodman}

// pinned is the name of an image with its digest. A tag may stand before it, and
// says nothing then.
var pinned = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64}$`)

// PinnedImage says whether an image is named by its digest, so that it is the same
// for ever.
func PinnedImage(image string) bool { return pinned.MatchString(image) }

// maxCommand bounds a command in bytes: arguments and references together.
const maxCommand = 64 << 10

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Check says what is wrong with a command of the allow-list, but for its
// references. The error names the field.
func (c Command) Check() error {
	wrong := func(field, format string, args ...any) error {
		return c.refuse(ReasonInvalidArgument, field, format, args...)
	}
	if !ValidName(c.Ref) {
		return wrong("name", "must be 1 to 63 of a-z, 0-9, '_' and '-', beginning and ending with a letter or digit")
	}
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return wrong("argv", "must begin with the absolute path of a program")
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return wrong("workdir", "must be an absolute path")
	}
	if !slices.Contains(append([]Sandbox{SandboxBubblewrap, SandboxNone}, Containers...), c.Sandbox) {
		return wrong("sandbox", "must be bubblewrap, docker, podman or none")
	}
	if contained := slices.Contains(Containers, c.Sandbox); contained {
		if err := c.checkContainer(); err != nil {
			return err
		}
	} else if c.Image != "" && !filepath.IsAbs(c.Image) {
		return wrong("image", "must be the absolute path of a directory")
	}
	if c.Sandbox == SandboxNone && c.Image != "" {
		return wrong("image", "needs a sandbox")
	}
	if c.Start < 0 || c.Start > maxStart {
		return wrong("limits.start", "must be at most %s", maxStart)
	}
	if field, why := c.Limits.check(); field != "" {
		return wrong(field, "%s", why)
	}
	for _, path := range c.Mounts {
		if why := ShowsTooMuch(path); why != "" {
			return wrong("mounts", "has %s, which %s", path, why)
		}
	}
	if len(c.Mounts) > 0 && c.Sandbox == SandboxNone {
		return wrong("mounts", "need a sandbox: without one all files are there")
	}
	if c.Dir != "" && filepath.Clean(c.Dir) != "/" && c.Image == "" && c.Sandbox != SandboxNone {
		if why := ShowsTooMuch(c.Dir); why != "" {
			return wrong("workdir", "is %s, which %s", c.Dir, why)
		}
	}
	size := 0
	for _, text := range slices.Concat(c.Argv, []string{c.Dir, c.Image}, c.Mounts) {
		size += len(text)
		if strings.ContainsAny(text, "\x00\n\r") {
			return wrong("argv", "holds a NUL character or the end of a line")
		}
	}
	for name, reference := range c.Env {
		size += len(name) + len(reference)
		if !variable.MatchString(name) {
			return wrong("env", "has %q, which is no name of a variable", name)
		}
		if err := c.checkVariable(name, reference); err != nil {
			return err
		}
	}
	if size > maxCommand {
		return wrong("argv", "is larger than %d bytes with all else", maxCommand)
	}
	return nil
}

// checkContainer says what is wrong with a command that runs in a container.
func (c Command) checkContainer() error {
	if !PinnedImage(c.Image) {
		return c.refuse(ReasonCommandNotPinned, "image", "does not name an image by its digest").WithNext(
			"pull it where the workers run, and write it with its digest, as %s inspect shows it: image: NAME@sha256:DIGEST; a tag can be another image tomorrow", c.Sandbox)
	}
	for _, path := range c.Mounts {
		if strings.ContainsAny(path, `,"`) {
			return c.refuse(ReasonInvalidArgument, "mounts", "has %s; a container takes no path with a comma or a quotation mark", path)
		}
	}
	if c.Limits.AddressSpace != 0 {
		return c.refuse(ReasonInvalidArgument, "limits.address_space_mib", "is not held by containers")
	}
	return nil
}

// refuse words a refusal. The fact "key" is that of the configuration.
func (c Command) refuse(reason Reason, key, format string, args ...any) *Error {
	return Errorf(reason, "command %q: "+key+" "+format, append([]any{c.Ref}, args...)...).With("key", key)
}

// ShowsTooMuch says why a path of the machine must not be shown in a sandbox;
// empty when it may be.
func ShowsTooMuch(path string) string {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return "is no absolute path in its shortest form"
	}
	whole := []string{"/", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/tmp"}
	if slices.Contains(whole, path) {
		return "has more in it than one server needs"
	}
	for _, never := range []string{"/boot", "/dev", "/proc", "/run", "/sys", "/var/run"} {
		if path == never || strings.HasPrefix(path, never+"/") {
			return "belongs to the machine and its services"
		}
	}
	return ""
}

// maxStart bounds Command.Start: with the lists it must fit into one discovery.
const maxStart = 75 * time.Second

// Launch is the permission to start a server's command at all: of one target,
// by a person, once. A server that needs none has the zero value.
type Launch struct {
	Status     LaunchStatus `json:"status" bun:"status"`
	Target     string       `json:"target" bun:"target"` // target digest that was approved
	ApprovedBy string       `json:"approvedBy" bun:"approved_by"`
	ApprovedAt time.Time    `json:"approvedAt,omitzero" bun:"approved_at,nullzero"`
	DecisionID string       `json:"decisionId" bun:"decision_id"`
}

// LaunchStatus is where the permission stands.
type LaunchStatus string

// The statuses.
const (
	LaunchNotNeeded LaunchStatus = ""
	LaunchPending   LaunchStatus = "pending"
	LaunchApproved  LaunchStatus = "approved"
)

// LaunchPending says whether the server may not be started yet.
func (s *Server) LaunchPending() bool {
	return s.Transport == TransportStdio && (s.Launch.Status != LaunchApproved || s.Launch.Target != s.TargetDigest)
}

// launchPending is the refusal of everything that would start it.
func (s *Server) launchPending() error {
	return Errorf(ReasonLaunchPending, "server %s is not started before a person approved its command", s.Name).
		With("digest", s.TargetDigest).
		WithNext("a %s looks at the command and approves it: countersign server approve-launch %s", RolePlatformAdmin, s.Name)
}

// MayLaunch says whether a server's process may be started as the operator's
// allow-list has its command now: approved, and still the same (design.md §4).
func (s *Server) MayLaunch(now Command) error {
	if s.LaunchPending() {
		return s.launchPending()
	}
	if TargetOf(s, Connection{}, &now).Digest() != s.TargetDigest {
		return Errorf(ReasonCommandChanged, "the operator changed the command %s since server %s took it", s.CommandRef, s.Name).
			WithNext("take the new one, then approve its launch: countersign server update %s --command-ref %s", s.Name, s.CommandRef)
	}
	return nil
}

// approveLaunch lets a command be started. The digest that the ruling names is
// that of the target, so it stands for exactly what was shown.
func (r *Record) approveLaunch(g Ruling, op Operation, now time.Time) error {
	s := &r.Server
	switch {
	case s.Transport != TransportStdio:
		return Errorf(ReasonNoLaunch, "server %s is reached over the network; there is nothing to launch", s.Name)
	case !op.Actor.Has(RolePlatformAdmin):
		return Errorf(ReasonPermissionDenied, "only a %s may approve the launch of a command", RolePlatformAdmin)
	case g.Digest == "":
		return Errorf(ReasonInvalidArgument, "an approval of a launch must name the digest of the target").
			WithField("digest", "is required").WithNext("read the server's command and send its target digest back")
	case g.Digest != s.TargetDigest:
		return Errorf(ReasonSuperseded, "the approval is about %s, but the command is now at %s", short(g.Digest), short(s.TargetDigest)).
			With("digest", s.TargetDigest).With("changed", "target").WithNext("look at the command as it is now")
	case !s.LaunchPending():
		return nil // a repeat finds what it asks for (R125)
	}
	d := g.Decision(s, op, now)
	d.Applied, d.Snapshot, d.Target = true, "", s.TargetDigest
	r.changes.Decision = d
	s.Launch = Launch{Status: LaunchApproved, Target: s.TargetDigest, ApprovedBy: op.Actor.Subject, ApprovedAt: now, DecisionID: d.DecisionID}
	// The first look follows at once; its number comes with this transaction, so
	// that it is not forgotten.
	s.Discovery.Number++
	s.Discovery.Status, s.Discovery.RequestedBy = DiscoveryRunning, op.Actor.Subject
	r.touch()
	r.note("launch approved: " + short(s.TargetDigest))
	return nil
}
