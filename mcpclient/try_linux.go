package mcpclient

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"

	"countersign/outbound"
	"countersign/registry"
)

// TrySandbox starts a program that does nothing in a sandbox of this machine's own
// root; of Docker and Podman it only asks whether they answer, with what the
// environment says of them. Errors have the reason sandbox_unavailable.
func TrySandbox(ctx context.Context, kind registry.Sandbox, environ []string) error {
	if slices.Contains(registry.Containers, kind) {
		trial := exec.CommandContext(ctx, string(kind), "version") //nolint:gosec // one of two names
		trial.Env = engineEnv(environ)
		return tried(trial, string(kind)+" does not answer")
	}
	argv, texts, fault := bubblewrap(&Command{Argv: []string{"/bin/true"}})
	if fault != nil {
		return fault
	}
	trial := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // what every command is started by
	defer func() { closeAll(trial.ExtraFiles) }()
	for _, text := range texts {
		file, err := inMemory(text)
		if err != nil {
			return registry.Errorf(registry.ReasonInternal, "no memory for what the sandbox is started with: %w", err)
		}
		trial.ExtraFiles = append(trial.ExtraFiles, file)
	}
	return tried(trial, "bubblewrap makes no sandbox here")
}

func tried(trial *exec.Cmd, what string) error {
	var says bytes.Buffer
	trial.Stderr = &says
	err := trial.Run()
	if err == nil {
		return nil
	}
	why := strings.TrimSpace(says.String())
	if why == "" {
		why = err.Error()
	}
	return registry.Errorf(registry.ReasonSandboxUnavailable, "%s: %s", what, outbound.Excerpt(why, urlBytes))
}
