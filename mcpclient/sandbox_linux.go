package mcpclient

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"countersign/outbound"
	"countersign/registry"
)

// Who the process is in its sandbox: nobody that the machine knows.
const (
	sandboxUser = "1000"
	passwd      = "sandbox:x:1000:1000::/tmp:/usr/sbin/nologin\n"
	group       = "sandbox:x:1000:\n"
)

// The descriptors of bubblewrap after the three of the command.
const (
	fdOptions = iota + 3
	fdFilter
	fdPasswd
	fdGroup
)

// bubblewrap wraps a command. What it is told, with the environment, goes through
// files in memory: its descriptors from 3 on.
func bubblewrap(command *Command) (argv []string, texts [][]byte, fault *registry.Error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, nil, registry.Errorf(registry.ReasonSandboxUnavailable, "bubblewrap, which makes the sandbox, is not installed here").
			WithNext("install the package bubblewrap (apt-get install bubblewrap), or configure the command to run without a sandbox")
	}
	if fault := checkImage(command.Image); fault != nil {
		return nil, nil, fault
	}
	program, err := filter()
	if err != nil {
		return nil, nil, registry.Errorf(registry.ReasonSandboxUnavailable, "there is no filter of system calls for this machine: %w", err).
			WithNext("run the worker on amd64 or arm64, or configure the command to run without a sandbox")
	}
	shown, fault := command.shown()
	if fault != nil {
		return nil, nil, fault
	}
	limits := command.Limits.Defaults()
	tmpfs := func(dir string, size int64) []string {
		return []string{"--size", strconv.FormatInt(size, 10), "--tmpfs", dir}
	}
	options := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", sandboxUser, "--gid", sandboxUser, "--hostname", "sandbox", "--cap-drop", "ALL",
		"--die-with-parent", "--new-session", "--seccomp", strconv.Itoa(fdFilter),
	}
	if !command.Network {
		options = append(options, "--unshare-net")
	}
	if command.Image != "" {
		options = append(options, "--ro-bind", command.Image, "/")
	} else {
		options = append(options, systemRoot(command.Network)...)
		options = append(options,
			"--perms", "0444", "--ro-bind-data", strconv.Itoa(fdPasswd), "/etc/passwd",
			"--perms", "0444", "--ro-bind-data", strconv.Itoa(fdGroup), "/etc/group")
		options = append(options, tmpfs("/var/tmp", limits.Tmp)...)
	}
	options = append(options, tmpfs("/tmp", limits.Tmp)...)
	for _, path := range shown {
		options = append(options, "--ro-bind", path, path)
	}
	options = append(options, "--proc", "/proc", "--dev", "/dev")
	options = append(options, tmpfs("/dev/shm", limits.Tmp)...)
	// Of /proc/sys some would be the worker's to write if it runs as the superuser.
	options = append(options, "--remount-ro", "/dev", "--remount-ro", "/proc")
	if command.Image == "" {
		options = append(options, "--remount-ro", "/") // it is a tmpfs, in which bubblewrap made the folders
	}
	options = append(options, "--chdir", command.dir(), "--clearenv")
	for _, pair := range command.Env {
		name, value, _ := strings.Cut(pair, "=")
		options = append(options, "--setenv", name, value)
	}
	argv = append([]string{path, "--args", strconv.Itoa(fdOptions), "--"}, command.Argv...)
	return argv, [][]byte{ended(options), program, []byte(passwd), []byte(group)}, nil
}

// ended ends each text by NUL.
func ended(texts []string) []byte {
	var b bytes.Buffer
	for _, text := range texts {
		b.WriteString(text)
		b.WriteByte(0)
	}
	return b.Bytes()
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
	if p.command.contained() {
		// Docker and Podman end so when they, and not the program, failed.
		return p.state.ExitStatus() == 125, strings.TrimSpace(stderr)
	}
	if p.command.Sandbox == registry.SandboxNone || p.state.ExitStatus() != 1 {
		return false, ""
	}
	why, ours := strings.CutPrefix(strings.TrimSpace(stderr), "bwrap: ")
	return ours && !strings.HasPrefix(why, "execvp ") && !strings.HasPrefix(why, "Can't chdir"), why
}
