package mcpclient

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"countersign/registry"
)

// What of the machine every sandbox has, where it is there: programs and
// libraries, and of /etc what they need to find each other, the time zone and
// certificates. No keys, no names of users, no configuration of services.
var (
	systemDirs  = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	systemFiles = []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/mime.types",
		"/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
		"/etc/crypto-policies",
	}
	networkFiles = []string{"/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"}
)

// systemRoot gives the options for the machine's part of a sandbox.
func systemRoot(network bool) []string {
	var options []string
	for _, dir := range systemDirs {
		if to, err := os.Readlink(dir); err == nil { // /bin → usr/bin
			options = append(options, "--symlink", to, dir)
		} else {
			options = append(options, "--ro-bind-try", dir, dir)
		}
	}
	files := systemFiles
	if network {
		files = slices.Concat(systemFiles, networkFiles)
	}
	for _, file := range files {
		if at, err := filepath.EvalSymlinks(file); err == nil { // resolv.conf is often a link into /run
			options = append(options, "--ro-bind", at, file)
		}
	}
	return options
}

// shown gives the paths of the machine that a command's sandbox has besides: where
// its program, its script and its directory are, and its mounts.
func (c *Command) shown() ([]string, *registry.Error) {
	paths := installation(c.Argv[0])
	if script := c.script(); script != "" {
		paths = append(paths, packaged(script)...)
	}
	if dir := filepath.Clean(c.dir()); dir != "/" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() { // else it is told that it is not there
			paths = append(paths, dir)
		}
	}
	for _, mount := range c.Mounts {
		if _, err := os.Stat(mount); err != nil {
			return nil, registry.Errorf(registry.ReasonSandboxUnavailable, "a mount of the command is not there where the worker runs: %s", mount).
				WithNext("put it there, or correct mounts in the configuration")
		}
		paths = append(paths, mount)
	}
	return outermost(paths), nil
}

// script is what an interpreter is given to run: the first argument that is a file
// by its absolute path.
func (c *Command) script() string {
	for _, arg := range c.Argv[1:] {
		if !filepath.IsAbs(arg) {
			continue
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			return filepath.Clean(arg)
		}
		return ""
	}
	return ""
}

// installation gives what a program needs that is not of the system: the file
// itself and where its links lead; and of PREFIX/bin/PROGRAM what is usually
// beside bin, so that an unpacked Node.js or a virtual environment is whole.
func installation(program string) []string {
	var out []string
	for _, path := range links(program) {
		out = append(out, path)
		if dir := filepath.Dir(path); filepath.Base(dir) == "bin" {
			prefix := filepath.Dir(dir)
			for _, part := range []string{"lib", "lib64", "libexec", "share", "pyvenv.cfg"} {
				beside := filepath.Join(prefix, part)
				if _, err := os.Stat(beside); err == nil && registry.ShowsTooMuch(beside) == "" {
					out = append(out, beside)
				}
			}
		}
	}
	return out
}

// packaged gives what a script needs: the folder node_modules that it is in, or
// that of the package, or else the file alone.
func packaged(script string) []string {
	var out []string
	for _, path := range links(script) {
		out = append(out, home(path))
	}
	return out
}

func home(script string) string {
	const modules = "/node_modules/"
	if at := strings.Index(script, modules); at >= 0 {
		return script[:at+len(modules)-1]
	}
	for dir := filepath.Dir(script); registry.ShowsTooMuch(dir) == ""; dir = filepath.Dir(dir) {
		for _, file := range []string{"package.json", "pyproject.toml"} {
			if info, err := os.Stat(filepath.Join(dir, file)); err == nil && info.Mode().IsRegular() {
				return dir
			}
		}
	}
	return script
}

// links gives a path and all that it leads to, link by link.
func links(path string) []string {
	var out []string
	for range 16 {
		if _, err := os.Stat(path); err != nil {
			return out // it is not there; who starts it is told so
		}
		out = append(out, path)
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = filepath.Clean(to)
	}
	if at, err := filepath.EvalSymlinks(path); err == nil { // folders on the way may be links as well
		out = append(out, at)
	}
	return out
}

// outermost leaves out what the system's part or another path has already. A path
// comes after those that it is in.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var out []string
	covered := func(path string) bool {
		for _, dir := range slices.Concat(systemDirs, out) {
			if path == dir || strings.HasPrefix(path, dir+"/") {
				return true
			}
		}
		return false
	}
	for _, path := range paths {
		if !covered(path) {
			out = append(out, path)
		}
	}
	return out
}
