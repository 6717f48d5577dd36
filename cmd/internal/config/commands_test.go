package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/cmd/internal/config"
	"countersign/registry"
)

const commands = `
commands:
  - name: files
    argv: [/usr/bin/node, /opt/files.js, --root, "/srv/a b"]
    workdir: /srv
    image: /images/node
    env: {API_KEY: "env:FILES_KEY", lower_case: "file:files/ca.pem", MODE: "plain:a=b c", EMPTY: "plain:"}
    network: true
    mounts: [/srv/shared, /etc/mcp.json]
    limits: {start: 30s, memory_mib: 2048, tmp_mib: 64, tasks: 99, open_files: 100, address_space_mib: 4096, cpu_time: 1m}
    tenants: [acme]
  - name: open
    argv: [/usr/bin/true]
    sandbox: none
`

func TestCommandsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Default(), file(t, commands), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.AllowList()
	if err != nil {
		t.Fatal(err)
	}
	got, err := list.Find("acme", "files")
	if err != nil {
		t.Fatal(err)
	}
	want := registry.Command{
		Ref: "files", Argv: []string{"/usr/bin/node", "/opt/files.js", "--root", "/srv/a b"}, Dir: "/srv", Image: "/images/node",
		Env: map[string]string{"API_KEY": "env:FILES_KEY", "lower_case": "file:files/ca.pem", "MODE": "plain:a=b c", "EMPTY": "plain:"}, Network: true,
		Sandbox: registry.SandboxBubblewrap, Mounts: []string{"/srv/shared", "/etc/mcp.json"}, Start: 30 * time.Second,
		Limits: registry.CommandLimits{Memory: 2 << 30, Tmp: 64 << 20, Tasks: 99, OpenFiles: 100, AddressSpace: 4 << 30, CPUTime: time.Minute},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if open, err := list.Find("globex", "open"); err != nil || open.Sandbox != registry.SandboxNone {
		t.Errorf("%+v %v", open, err)
	}
	if diff := cmp.Diff([]string{"files", "open"}, list.Names("acme")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"open"}, list.Names("globex")); diff != "" {
		t.Error(diff)
	}
	_, foreign := list.Find("globex", "files")
	_, none := list.Find("globex", "fileX")
	if registry.ReasonOf(foreign) != registry.ReasonUnknownCommand || strings.ReplaceAll(foreign.Error(), "files", "fileX") != none.Error() {
		t.Errorf("another tenant's command looks like %v, none like %v", foreign, none)
	}
}

func TestBadCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ entry, want string }{
		"no name":            {"{argv: [/bin/true]}", "name"},
		"a relative program": {"{name: x, argv: [node]}", "argv"},
		"a value for a secret": {
			`{name: x, argv: [/bin/true], env: {KEY: s3cr3t-value}}`, "KEY",
		},
		"a plain text with a NUL character": {
			`{name: x, argv: [/bin/true], env: {KEY: "plain:s3cr3t-value\0"}}`, "KEY",
		},
		"an unknown key":     {"{name: x, argv: [/bin/true], shell: true}", "shell"},
		"an unknown sandbox": {"{name: x, argv: [/bin/true], sandbox: chroot}", "sandbox"},
		"two of a name":      {"{name: x, argv: [/bin/true]}\n  - {name: x, argv: [/bin/false]}", "two"},
	} {
		_, err := config.Load(config.Default(), file(t, "commands:\n  - "+c.entry+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: the error repeats the value: %v", name, err)
		}
	}
}

// TestARefusedCommandIsFoundInItsFile: the line, the reason, and what to write
// instead.
func TestARefusedCommandIsFoundInItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/bin/busybox", dir+"/tool"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		entry string
		want  []string
	}{
		"a package runner":   {"argv: [/usr/bin/npx, -y, evil]", []string{"line 8)", `command "x"`, "(command_not_pinned)", "npm ci"}},
		"a shell":            {"argv: [/bin/sh, -c, id]", []string{"line 8)", "(command_inline_code)", "absolute path"}},
		"a link":             {"argv: [" + dir + "/tool, sh, -c, id]", []string{"line 8)", "(command_inline_code)", "busybox"}},
		"a variable":         {"argv: [/bin/true]\n    env:\n      NODE_OPTIONS: plain:--require=/x", []string{"line 10)", "NODE_OPTIONS", "(command_variable)"}},
		"a line in a line":   {`argv: [/bin/true, "a\nb"]`, []string{"line 8)", "(invalid_argument)"}},
		"the machine":        {"argv: [/bin/true]\n    workdir: /opt/x\n    mounts: [/]", []string{"line 10)", "(invalid_argument)"}},
		"a limit":            {"argv: [/bin/true]\n    limits:\n      tasks: 1", []string{"line 10)", "4 to 32768"}},
		"a memory too large": {"argv: [/bin/true]\n    limits:\n      memory_mib: 9000000000000000", []string{"line 10)", "16 to 1048576"}},
	} {
		_, err := config.Load(config.Default(), file(t, "# the allow-list\ncommands:\n  - name: good\n    argv:\n      - /usr/bin/node\n      - /opt/files.js\n  - name: x\n    "+c.entry+"\n"), nil)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
	}
}
