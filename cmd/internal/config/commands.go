package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"countersign/registry"
	"countersign/secrets"
)

// Command is one entry of the allow-list of commands.
type Command struct {
	Name    string            `koanf:"name"`
	Argv    []string          `koanf:"argv"`
	Image   string            `koanf:"image"`
	Workdir string            `koanf:"workdir"`
	Env     map[string]string `koanf:"env"` // variable → reference, or plain:TEXT
	Network bool              `koanf:"network"`
	Mounts  []string          `koanf:"mounts"`
	Sandbox string            `koanf:"sandbox"` // empty: bubblewrap
	Limits  CommandLimits     `koanf:"limits"`
	Tenants []string          `koanf:"tenants"` // empty: all
}

// CommandLimits bound one process.
type CommandLimits struct {
	Start time.Duration `koanf:"start"` // until the handshake is done; 0: 60 s
	// Of registry.CommandLimits, where the defaults stand.
	MemoryMiB       int64         `koanf:"memory_mib"`
	TmpMiB          int64         `koanf:"tmp_mib"`
	Tasks           int           `koanf:"tasks"`
	OpenFiles       int           `koanf:"open_files"`
	AddressSpaceMiB int64         `koanf:"address_space_mib"`
	CPUTime         time.Duration `koanf:"cpu_time"`
	CPUs            float64       `koanf:"cpus"`
}

func (l CommandLimits) limits() registry.CommandLimits {
	bytes := func(mib int64) int64 { return max(-1, min(mib, 1<<40)) << 20 } // what is out of bounds stays so
	return registry.CommandLimits{
		Memory: bytes(l.MemoryMiB), Tmp: bytes(l.TmpMiB), Tasks: l.Tasks, OpenFiles: l.OpenFiles,
		AddressSpace: bytes(l.AddressSpaceMiB), CPUTime: l.CPUTime, CPUs: l.CPUs,
	}
}

// AllowList holds the commands by name.
type AllowList map[string]allowed

type allowed struct {
	command registry.Command
	tenants []string
}

func (k allowed) serves(tenant string) bool {
	return len(k.tenants) == 0 || slices.Contains(k.tenants, tenant)
}

// AllowList checks the configured commands.
func (c Config) AllowList() (AllowList, error) {
	list := AllowList{}
	for i, k := range c.Commands {
		command := registry.Command{
			Ref: k.Name, Argv: k.Argv, Image: k.Image, Dir: k.Workdir, Env: k.Env, Network: k.Network,
			Sandbox: registry.Sandbox(k.Sandbox), Mounts: k.Mounts, Start: k.Limits.Start, Limits: k.Limits.limits(),
		}
		if command.Sandbox == "" {
			command.Sandbox = registry.SandboxBubblewrap
		}
		err := command.Check()
		if err == nil {
			err = command.CheckProgram(leads(command.Image, command.Argv[0])...)
		}
		if err != nil {
			return nil, refused(i, err)
		}
		for name, holds := range k.Env {
			if err := secrets.CheckVariable(holds); err != nil {
				return nil, fmt.Errorf("commands: command %q: env: %s: %w", k.Name, name, err)
			}
		}
		if _, twice := list[k.Name]; twice {
			return nil, fmt.Errorf("commands: there are two of the name %q", k.Name)
		}
		list[k.Name] = allowed{command, k.Tenants}
	}
	return list, nil
}

// Find gives the command of that name, as a tenant may use it. One that is for
// other tenants looks like one that is not there.
func (l AllowList) Find(tenant, ref string) (registry.Command, error) {
	k, known := l[ref]
	if !known || !k.serves(tenant) {
		return registry.Command{}, registry.Errorf(registry.ReasonUnknownCommand, "the operator's allow-list has no command %q for tenant %s", ref, tenant).
			WithNext("have the operator add it to commands in the configuration of the workers")
	}
	return k.command, nil
}

// Names gives the names of the commands that a tenant may use, in order.
func (l AllowList) Names(tenant string) []string {
	var out []string
	for name, k := range l {
		if k.serves(tenant) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// leads gives where the links lead from a program, in the root that it has. Where
// the program is not there, as in a process that starts none, it is known by its
// name alone.
func leads(image, program string) []string {
	if registry.PinnedImage(image) {
		return nil // it cannot be looked into
	}
	root, err := os.OpenRoot(cmp.Or(image, "/"))
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	var out []string
	for range 16 {
		to, err := root.Readlink(strings.TrimPrefix(program, "/"))
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(program), to)
		}
		program = filepath.Clean(to)
		out = append(out, program)
	}
	return out
}

// commandError is why an entry of the allow-list is refused.
type commandError struct {
	entry int // from 0
	err   error
}

func refused(entry int, err error) error { return &commandError{entry, err} }

func (r *commandError) Unwrap() error { return r.err }

// Error has what an operator needs: what is wrong, its reason, and what to write
// instead.
func (r *commandError) Error() string {
	text := "commands: " + r.err.Error()
	e, ok := registry.AsError(r.err)
	if !ok {
		return text
	}
	text += " (" + string(e.Reason) + ")"
	if e.Next != "" {
		text += "; instead, " + e.Next
	}
	return text
}

// line gives the line of a configuration file on which the entry has what is
// refused; 0 when it is not found.
func (r *commandError) line(file []byte) int {
	key := ""
	if e, ok := registry.AsError(r.err); ok {
		key = e.Fact("key")
	}
	var document yaml.Node
	if err := yaml.Unmarshal(file, &document); err != nil || len(document.Content) == 0 {
		return 0
	}
	list := under(document.Content[0], "commands")
	if list == nil || r.entry >= len(list.Content) {
		return 0
	}
	at := list.Content[r.entry]
	for name := range strings.SplitSeq(key, ".") {
		if node := under(at, name); node != nil {
			at = node
		}
	}
	return at.Line
}

// under gives the value of a key.
func under(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}
