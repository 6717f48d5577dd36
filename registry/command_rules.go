package registry

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// What a person approves is the command; so the command must say what runs. It
// does not when the program is fetched at its start, when its code stands in the
// arguments, when the program only runs another one, or when a variable has it
// load something else (threats B8, B25).

// CheckProgram says whether the command says what it runs. leads are the further
// paths that its program is known by: where its links lead.
func (c Command) CheckProgram(leads ...string) error {
	if len(c.Argv) == 0 {
		return nil
	}
	kind, name := kindOf(c.Argv[0])
	for _, path := range leads {
		if kind != programOther {
			break // sh that is a link to busybox is a shell
		}
		if k, n := kindOf(path); k != programOther {
			kind, name = k, n+", to which it leads"
		}
	}
	switch kind {
	case programFetches:
		return c.refuse(ReasonCommandNotPinned, "argv", "runs %s, which fetches what it runs when it is started", name).WithNext(
			"install the package from a lock file that has its integrity (npm ci, uv sync --locked), and write the program by its absolute path: [/usr/bin/node, /opt/NAME/node_modules/PACKAGE/dist/index.js]")
	case programContainer:
		return c.refuse(ReasonCommandNotPinned, "argv", "runs %s itself", name).WithNext(
			"write sandbox: docker or podman, image: NAME@sha256:DIGEST, and in argv the program in it; or unpack the image, by its digest, into a directory that only the operator can change, and write image: DIRECTORY")
	case programWraps:
		return c.refuse(ReasonCommandInline, "argv", "runs %s, which runs another program", name).WithNext(
			"write the program that is to run by its absolute path; variables go to env, the directory to workdir")
	case programInterprets:
		return c.checkInterpreter()
	case programOther:
	}
	return nil
}

// kind is what a program is known to do.
type kind int

const (
	programOther      kind = iota
	programFetches         // a package runner
	programContainer       // starts containers
	programWraps           // runs its arguments, or runs what it reads, and has no other use as a server
	programInterprets      // runs a script
)

var (
	versioned = regexp.MustCompile(`^([a-z][a-z_+]*?)[-.]?[0-9][0-9.]*$`) // python3.12

	programs = map[kind][]string{
		programFetches: {
			"npx", "npm", "pnpx", "pnpm", "yarn", "yarnpkg", "bunx", "corepack", "uvx", "uv", "pip", "pipx", "poetry", "pdm", "hatch", "rye",
			"conda", "mamba", "go", "cargo", "gem", "bundle", "nix", "nix-shell", "brew", "curl", "wget", "git", "jbang", "coursier",
		},
		programContainer: {"docker", "podman", "nerdctl", "ctr", "crictl", "runc", "crun", "docker-compose", "podman-compose"},
		programWraps: {
			"env", "busybox", "toybox", "coreutils", "nohup", "nice", "ionice", "chrt", "taskset", "timeout", "time", "xargs", "setsid", "stdbuf",
			"sudo", "su", "doas", "runuser", "setpriv", "chroot", "unshare", "nsenter", "bwrap", "firejail", "systemd-run", "strace", "ltrace", "gdb",
			"script", "expect", "flock", "watch", "parallel", "find", "ssh", "socat", "nc", "ncat", "tmux", "screen", "make", "awk", "gawk", "mawk",
			"nawk", "sed", "ed", "vi", "vim", "emacs", "jshell", "ld.so", "prlimit", "cpulimit", "entr", "catatonit", "tini", "dumb-init",
		},
		programInterprets: {
			"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "python", "pypy", "node", "nodejs", "deno", "bun",
			"perl", "ruby", "php", "lua", "luajit", "tclsh", "wish", "r", "rscript", "julia", "elixir", "erl", "escript", "groovy", "scala",
			"osascript", "ts-node", "tsx", "qjs", "guile", "racket", "sbcl", "ghci", "runhaskell", "java", "dotnet",
		},
	}
)

func kindOf(program string) (kind, string) {
	name := strings.ToLower(path.Base(program))
	name = strings.TrimSuffix(name, ".exe")
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		return programWraps, name
	}
	plain := unversioned(name)
	for k, names := range programs {
		if slices.Contains(names, name) || slices.Contains(names, plain) {
			return k, name
		}
	}
	return programOther, name
}

// unversioned is the name of a program without its version.
func unversioned(name string) string {
	if m := versioned.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// interpreter is what is known of one besides that its script stands behind its
// options.
type interpreter struct {
	verbs  []string // that may stand before the script
	flags  string   // letters of short options that may
	values []string // options that may, followed by an absolute path
	never  []string // long options that may not: they run code or load files
}

var interpreters = map[string]interpreter{
	"sh": {flags: "eux"}, "bash": {flags: "eux", never: []string{"init-file", "rcfile", "login"}},
	"python": {flags: "bBdEIOPqsSuvx"},
	"node": {
		values: []string{"-r", "--require", "--import"},
		never: []string{
			"eval", "print", "interactive", "input-type", "run", "env-file", "env-file-if-exists", "loader", "experimental-loader",
			"experimental-config-file", "experimental-default-config-file", "build-snapshot", "test", "watch-path",
		},
	},
	"deno": {verbs: []string{"run"}, flags: "Aqrn", never: []string{"eval", "preload", "require", "import-map", "config", "env-file"}},
	"bun":  {verbs: []string{"run"}, never: []string{"eval", "print", "preload", "require", "import", "env-file", "config", "shell"}},
	"perl": {flags: "wWtTX"}, "ruby": {flags: "w", never: []string{"encoding"}},
	"php":  {flags: "nqH", values: []string{"-f"}},
	"java": {values: []string{"-jar", "-cp", "-classpath", "--class-path", "-p", "--module-path"}, never: []string{"source"}},
	"pwsh": {values: []string{"-File", "-f"}, never: []string{"command", "encodedcommand"}},
}

// modules of Python that run what they are given, or fetch something.
var modules = []string{
	"pip", "pipx", "uv", "ensurepip", "venv", "virtualenv", "code", "codeop", "pdb", "bdb", "timeit", "trace", "profile", "cProfile", "runpy", "idlelib",
	"doctest", "unittest", "IPython", "poetry", "zipapp", "site", "asyncio", "http.server",
}

// fetchers are scripts of package runners, run by their interpreter.
var fetchers = []string{
	"npx-cli.js", "npm-cli.js", "npx", "npm", "pnpm.cjs", "pnpm.js", "pnpx.cjs", "yarn.js", "yarn.cjs", "corepack.js", "pip", "pipx", "uvx",
}

// checkInterpreter wants an interpreter to be given a file by its absolute path,
// with no option before it that runs anything else.
func (c Command) checkInterpreter() error {
	_, name := kindOf(c.Argv[0])
	plain := unversioned(name)
	if to, ok := aliases[plain]; ok {
		plain = to
	}
	rules := interpreters[plain]
	inline := func(what string) error {
		return c.refuse(ReasonCommandInline, "argv", "gives %s %s", name, what).WithNext(
			"write the code to a file that only the operator can change, and give its absolute path: [%s, /opt/NAME/server]", c.Argv[0])
	}
	args := c.Argv[1:]
	for i := 0; i < len(args); i++ {
		arg := args[i]
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case arg == "--":
			continue
		case arg == "-":
			return inline("its standard input")
		case slices.Contains(rules.verbs, arg) && i == 0:
			continue
		case slices.Contains(rules.values, arg):
			if !isFile(next) {
				return inline(arg + " without the absolute path of a file")
			}
			if arg == "-jar" || arg == "-File" || arg == "-f" {
				return nil
			}
			i++
		case plain == "python" && arg == "-m":
			if slices.Contains(modules, strings.SplitN(next, ".", 2)[0]) || slices.Contains(modules, next) || next == "" {
				return inline("-m " + next + ", which runs what it is given")
			}
			return nil
		case strings.HasPrefix(arg, "--"):
			option, value, has := strings.Cut(strings.ToLower(arg[2:]), "=")
			if slices.Contains(rules.values, "--"+option) && has {
				if !isFile(value) {
					return inline(arg)
				}
				continue
			}
			if slices.Contains(rules.never, option) || slices.Contains(always, option) {
				return inline("--" + option)
			}
		case strings.HasPrefix(arg, "-"):
			if plain == "java" && tuning.MatchString(arg) {
				continue
			}
			if strings.Trim(arg[1:], rules.flags) != "" {
				return inline("the option " + arg)
			}
		case !isFile(arg):
			if plain == "java" && i > 0 {
				return nil // the class, behind a class path
			}
			return inline("something else than the absolute path of a file")
		case slices.Contains(fetchers, path.Base(arg)):
			return c.refuse(ReasonCommandNotPinned, "argv", "runs %s, which fetches what it runs when it is started", path.Base(arg)).WithNext(
				"install the package from a lock file that has its integrity (npm ci), and write its own file by the absolute path")
		default:
			return nil
		}
	}
	return inline("no file to run, so it runs its standard input")
}

// aliases are interpreters that take the options of another.
var aliases = map[string]string{"nodejs": "node", "pypy": "python", "dash": "sh", "ash": "sh", "zsh": "sh", "ksh": "sh", "mksh": "sh"}

// tuning are the options of Java that name neither code nor commands.
var tuning = regexp.MustCompile(`^-(D|Xm|Xs|XX:[+-]|XX:Max|ea$|da$|server$)`)

// always are long options that no interpreter may have.
var always = []string{"eval", "exec", "execute", "command", "print", "interactive"}

// isFile says whether an argument is the absolute path of a file with a content of
// its own: what is below /dev and /proc is what the process is given.
func isFile(arg string) bool {
	first, _, _ := strings.Cut(arg, ":") // class paths
	clean := path.Clean(first)
	return path.IsAbs(first) && !strings.HasPrefix(clean, "/dev/") && !strings.HasPrefix(clean, "/proc/")
}

// Variables that change which code a program runs: by prefix and by name. They
// load libraries, agents and modules, or are run by shells.
var (
	loaderPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "NPM_CONFIG_", "COR_", "CORECLR_", "GIT_SSH", "PYTHONUSER", "COUNTERSIGN_"}
	loaders        = []string{
		"NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE", "BUN_OPTIONS", "DENO_REPL_HISTORY", "TS_NODE_PROJECT",
		"PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONBREAKPOINT", "PYTHONCASEOK", "PYTHONWARNINGS",
		"PERL5LIB", "PERLLIB", "PERL5OPT", "PERL5DB", "RUBYLIB", "RUBYOPT", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE",
		"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "ZDOTDIR", "CDPATH",
		"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH",
		"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "PHPRC", "PHP_INI_SCAN_DIR",
		"LUA_PATH", "LUA_CPATH", "LUA_INIT", "TCLLIBPATH", "R_PROFILE", "R_PROFILE_USER", "JULIA_LOAD_PATH", "ERL_AFLAGS", "ERL_FLAGS", "ELIXIR_ERL_OPTIONS",
		"GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
		"GIT_EXEC_PATH", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_PAGER", "PAGER", "EDITOR", "VISUAL", "BROWSER",
	}
	// Lists of directories, which a person can look at: as a text that is shown, of
	// absolute paths.
	searched = []string{"PATH", "PYTHONPATH", "NODE_PATH"}
)

// checkVariable says what is wrong with a variable of the command.
func (c Command) checkVariable(name, holds string) error {
	upper := strings.ToUpper(name)
	loads := slices.Contains(loaders, upper) || slices.ContainsFunc(loaderPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) })
	if loads {
		return c.refuse(ReasonCommandVariable, "env", "has %s, which changes what its program runs", name).
			WithNext("leave it out; options of an interpreter stand in argv before the script, where they are seen and approved")
	}
	if !slices.Contains(searched, upper) {
		return nil
	}
	text, plain := strings.CutPrefix(holds, "plain:")
	if !plain || text == "" || slices.ContainsFunc(strings.Split(text, ":"), func(dir string) bool { return !path.IsAbs(dir) || !isFile(dir) }) {
		return c.refuse(ReasonCommandVariable, "env", "has %s, which says where programs are looked for, and is not a fixed list of absolute paths", name).
			WithNext("write the list itself: %s: plain:/usr/local/bin:/usr/bin:/bin", name)
	}
	for dir := range strings.SplitSeq(text, ":") {
		if slices.Contains([]string{"/tmp", "/var/tmp"}, path.Clean(dir)) || strings.HasPrefix(path.Clean(dir), "/tmp/") {
			return c.refuse(ReasonCommandVariable, "env", "has %s, in which programs are looked for where the server itself can write", name).
				WithNext("leave %s out of the list", dir)
		}
	}
	return nil
}
