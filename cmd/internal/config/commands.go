package config

import (
	"fmt"
	"slices"
	"time"

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
	Sandbox string            `koanf:"sandbox"` // empty: bubblewrap
	Limits  CommandLimits     `koanf:"limits"`
	Tenants []string          `koanf:"tenants"` // empty: all
}

// CommandLimits bound one process.
type CommandLimits struct {
	Start time.Duration `koanf:"start"` // until the handshake is done; 0: 60 s
}

// Secrets says where references lead.
type Secrets struct {
	FileRoot string `koanf:"file_root"` // directory of file:NAME; empty: there are none
}

// AllowList holds the commands by name.
type AllowList map[string]allowed

type allowed struct {
	command registry.Command
	tenants []string
}

// AllowList checks the configured commands.
func (c Config) AllowList() (AllowList, error) {
	list := AllowList{}
	for _, k := range c.Commands {
		command := registry.Command{
			Ref: k.Name, Argv: k.Argv, Image: k.Image, Dir: k.Workdir, Env: k.Env, Network: k.Network,
			Sandbox: registry.Sandbox(k.Sandbox), Start: k.Limits.Start,
		}
		if command.Sandbox == "" {
			command.Sandbox = registry.SandboxBubblewrap
		}
		if err := command.Check(); err != nil {
			return nil, fmt.Errorf("commands: %w", err)
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
	if !known || len(k.tenants) > 0 && !slices.Contains(k.tenants, tenant) {
		return registry.Command{}, registry.Errorf(registry.ReasonUnknownCommand, "the operator's allow-list has no command %q for tenant %s", ref, tenant).
			WithNext("have the operator add it to commands in the configuration of the workers")
	}
	return k.command, nil
}
