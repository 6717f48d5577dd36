package mcpclient

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"countersign/outbound"
	"countersign/registry"
)

// bubblewrap wraps a command. Options, with the environment, go through a file.
func bubblewrap(command *Command) (argv, options []string, fault *registry.Error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, nil, registry.Errorf(registry.ReasonSandboxUnavailable, "bubblewrap, which makes the sandbox, is not installed here").
			WithNext("install the package bubblewrap (apt-get install bubblewrap), or configure the command to run without a sandbox")
	}
	if fault := checkImage(command.Image); fault != nil {
		return nil, nil, fault
	}
	options = []string{
		"--unshare-all", "--die-with-parent", "--new-session",
		"--ro-bind", cmp.Or(command.Image, "/"), "/", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev",
		"--chdir", command.dir(),
	}
	if command.Network {
		options = append(options, "--share-net")
	}
	options = append(options, "--clearenv")
	for _, pair := range command.Env {
		name, value, _ := strings.Cut(pair, "=")
		options = append(options, "--setenv", name, value)
	}
	return append([]string{path, "--args", "3", "--"}, command.Argv...), options, nil
}

// checkImage says what is wrong with the root of a sandbox. It must have the
// directories that others are mounted on, since nothing can be made in it.
func checkImage(image string) *registry.Error {
	if image == "" {
		return nil
	}
	info, err := os.Stat(image)
	why := "does not exist"
	if err == nil {
		why = "is no directory"
	} else if !errors.Is(err, fs.ErrNotExist) {
		why = "cannot be read"
	}
	if err == nil && info.IsDir() {
		why = ""
		for _, dir := range []string{"dev", "proc", "tmp"} {
			if info, err := os.Lstat(filepath.Join(image, dir)); why == "" && (err != nil || !info.IsDir()) {
				why = "has no directory " + dir
			}
		}
	}
	if why == "" {
		return nil
	}
	return registry.Errorf(registry.ReasonSandboxUnavailable, "the image of the command %s where the worker runs: %s", why, outbound.Excerpt(image, urlBytes)).
		WithNext("unpack it there, with the directories /dev, /proc and /tmp in it, or correct image in the configuration")
}

// sandboxFailed says whether it was the sandbox that failed, rather than the
// program in it.
func (p *process) sandboxFailed(stderr string) (bool, string) {
	if p.command.Sandbox == registry.SandboxNone || p.state.ExitStatus() != 1 {
		return false, ""
	}
	why, ours := strings.CutPrefix(strings.TrimSpace(stderr), "bwrap: ")
	return ours && !strings.HasPrefix(why, "execvp ") && !strings.HasPrefix(why, "Can't chdir"), why
}
