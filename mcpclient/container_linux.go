package mcpclient

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/outbound"
	"countersign/registry"
)

// containerUser is who the process is in its container: nobody that an image knows.
const containerUser = "65532:65532"

// containerLabel is on each of our containers; its value is the worker that
// started it.
const containerLabel = "countersign.worker"

// containerPatience bounds what is asked of Docker or Podman besides: to remove.
const containerPatience = 15 * time.Second

// engineVariables are those of our environment that say how Docker and Podman are
// reached and where they have their files. Their programs get them and no others.
var engineVariables = []string{
	"PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
	"DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
	"CONTAINER_HOST", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF",
}

// engineEnv picks those of an environment.
func engineEnv(environ []string) []string {
	out := []string{} // nil would be our whole environment
	for _, pair := range environ {
		if name, _, _ := strings.Cut(pair, "="); slices.Contains(engineVariables, name) {
			out = append(out, pair)
		}
	}
	return out
}

// engine gives the program of Docker or Podman.
func engine(sandbox registry.Sandbox) (string, *registry.Error) {
	path, err := exec.LookPath(string(sandbox))
	if err != nil {
		return "", registry.Errorf(registry.ReasonSandboxUnavailable, "the program %s, which runs the container, is not installed here", sandbox).
			WithNext("install it where the worker runs, or configure the command to run in another sandbox")
	}
	return path, nil
}

// container wraps a command: what starts its container, by that name, and the
// file of its environment, which is the wrapped program's descriptor 3. Values of
// variables are in no argument.
func container(k *Keeper, name string, command *Command) (argv []string, env []byte, fault *registry.Error) {
	program, fault := engine(command.Sandbox)
	if fault != nil {
		return nil, nil, fault
	}
	if env, fault = envFile(command.Env); fault != nil {
		return nil, nil, fault
	}
	return append([]string{program}, containerArgs(k.owner(), name, command)...), env, nil
}

func containerArgs(owner, name string, command *Command) []string {
	l := command.Limits.Defaults()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	both := func(kind string, n int64) string { return kind + "=" + number(n) + ":" + number(n) }
	args := []string{
		"run", "--interactive", "--rm", "--pull", "never", "--name", name, "--label", containerLabel + "=" + owner, "--log-driver", "none",
		"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", containerUser, "--hostname", "sandbox", "--ipc", "private",
		"--memory", number(l.Memory), "--memory-swap", number(l.Memory), // together: no swap
		"--pids-limit", strconv.Itoa(l.Tasks), "--cpus", strconv.FormatFloat(l.CPUs, 'f', -1, 64),
		"--ulimit", both("nofile", int64(l.OpenFiles)), "--ulimit", both("fsize", l.Tmp), "--ulimit", both("core", 0), "--ulimit", both("cpu", int64(l.CPUTime.Seconds())),
		"--tmpfs", "/tmp:rw,nosuid,nodev,mode=1777,size=" + number(l.Tmp), "--shm-size", number(l.Tmp),
		"--env-file", "/proc/self/fd/3",
	}
	if command.Sandbox == registry.SandboxPodman {
		// It would make more folders that can be written, and hand on our proxies.
		args = append(args, "--read-only-tmpfs=false", "--http-proxy=false")
	}
	if !command.Network {
		args = append(args, "--network", "none")
	}
	if command.Dir != "" {
		args = append(args, "--workdir", command.Dir)
	}
	for _, path := range command.Mounts {
		args = append(args, "--mount", "type=bind,source="+path+",target="+path+",readonly")
	}
	args = append(args, "--entrypoint", command.Argv[0], command.Image)
	return append(args, command.Argv[1:]...)
}

// envFile is the environment as a file that Docker and Podman read: lines of
// NAME=value, without a way to write the end of a line.
func envFile(env []string) ([]byte, *registry.Error) {
	const longest = 60 << 10 // they read lines of up to 64 KiB
	var out []byte
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(pair, "\n\r") || len(pair) > longest {
			return nil, registry.Errorf(registry.ReasonSandboxUnavailable, "the variable %s cannot be given to a container: its value has an end of a line, or more than %d bytes", outbound.Excerpt(name, excerptBytes), longest).
				WithNext("give the server a file, by mounts, and its path in the variable")
		}
		out = append(append(out, pair...), '\n')
	}
	return out, nil
}

// removeContainer removes a container with what runs in it; that there is none any
// more is what is wanted.
func (k *Keeper) removeContainer(ctx context.Context, sandbox registry.Sandbox, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), containerPatience)
	defer cancel()
	_, _ = ask(ctx, k.engineEnv, sandbox, "rm", "--force", "--volumes", name)
}

// reapContainers removes the containers of a dead worker.
func reapContainers(ctx context.Context, env []string, sandbox registry.Sandbox, owner string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, containerPatience)
	defer cancel()
	ids, err := ask(ctx, env, sandbox, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+containerLabel+"="+owner)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if _, err := ask(ctx, env, sandbox, append([]string{"rm", "--force", "--volumes"}, ids...)...); err != nil {
		return nil, err
	}
	var removed []string
	for _, id := range ids {
		removed = append(removed, "container "+id)
	}
	return removed, nil
}

// ask runs Docker or Podman and gives the words that it answers.
func ask(ctx context.Context, env []string, sandbox registry.Sandbox, args ...string) ([]string, error) {
	program, fault := engine(sandbox)
	if fault != nil {
		return nil, fault
	}
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // Docker or Podman, with arguments of ours
	command.Env, command.WaitDelay = env, time.Second
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", sandbox, args[0], err)
	}
	return strings.Fields(string(out)), nil
}

// forContainer gives the name of the next container, when dead workers' can be
// removed.
func (k *Keeper) forContainer(sandbox registry.Sandbox) (string, *registry.Error) {
	if k == nil {
		return "", registry.Errorf(registry.ReasonSandboxUnavailable, "nothing would remove the container if this process died").
			WithNext("configure worker.state_dir, then restart the worker")
	}
	if err := k.remember(string(sandbox), "containers"); err != nil {
		return "", registry.Errorf(registry.ReasonSandboxUnavailable, "the container cannot be noted in the worker's state directory: %w", err)
	}
	return groupName(k.id) + "-" + strconv.FormatInt(k.count.Add(1), 10), nil
}
