package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"countersign/cmd/internal/config"
	"countersign/mcpclient"
	"countersign/registry"
)

// sandbox tries what keeps servers' processes from the machine.
func (x *examination) sandbox(ctx context.Context) {
	if len(x.conf.Commands) == 0 {
		x.okf("sandbox", "no commands are configured: this worker starts no servers")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var used []registry.Sandbox
	var open []string
	for _, command := range x.conf.Commands {
		kind := kindOf(command)
		if kind == registry.SandboxNone {
			open = append(open, command.Name)
		} else if !slices.Contains(used, kind) {
			used = append(used, kind)
		}
	}
	for _, kind := range used {
		check := fmt.Sprintf("sandbox %s", kind)
		if err := mcpclient.TrySandbox(ctx, kind, os.Environ()); err != nil {
			x.failed(check, "let the worker's user make user namespaces, or run the worker elsewhere", err)
			continue
		}
		x.okf(check, "a process can be started in it")
	}
	if len(open) > 0 {
		x.warnf("sandbox", "remove sandbox: none from them", "these commands run with everything that this process sees: %s", strings.Join(open, ", "))
	}
	if _, err := os.Stat(x.conf.Worker.StateDir); x.conf.Worker.StateDir != "" && err != nil {
		x.failf("sandbox", "make the directory, owned by the worker's user", "worker.state_dir %s is not there", x.conf.Worker.StateDir)
	}
}

func kindOf(command config.Command) registry.Sandbox {
	if command.Sandbox == "" {
		return registry.SandboxBubblewrap
	}
	return registry.Sandbox(command.Sandbox)
}
