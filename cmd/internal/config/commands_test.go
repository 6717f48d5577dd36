package config_test

import (
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
    limits: {start: 30s}
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
		Sandbox: registry.SandboxBubblewrap, Start: 30 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if open, err := list.Find("globex", "open"); err != nil || open.Sandbox != registry.SandboxNone {
		t.Errorf("%+v %v", open, err)
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
		"an unknown sandbox": {"{name: x, argv: [/bin/true], sandbox: docker}", "sandbox"},
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
