package mcptest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build compiles the program faulty into a folder and gives its path, for tests
// that start it as a process. It needs the go command and this module, and is
// quick when the build cache has it.
func Build(ctx context.Context, folder string) (string, error) {
	return build(ctx, folder, "faulty")
}

// BuildMalicious compiles the program malicious likewise.
func BuildMalicious(ctx context.Context, folder string) (string, error) {
	return build(ctx, folder, "malicious")
}

func build(ctx context.Context, folder, program string) (string, error) {
	name := filepath.Join(folder, program)
	build := exec.CommandContext(ctx, "go", "build", "-o", name, "countersign/mcptest/cmd/"+program) //nolint:gosec // the folder is the caller's own
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return name, nil
}
