package mcpclient_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"countersign/mcpclient"
	"countersign/registry"
	"countersign/secrets"
)

// canary is what a process is given and tells: as it is, escaped, in base64 with
// something before it, and percent-encoded. Each line of the shell is one way.
const (
	canary = `Tök/en+4711-canary`
	tells  = `
raw=$TOKEN
escaped=$(printf %s "$TOKEN" | sed 's,/,\\/,g')
base64=$(printf %s "user:$TOKEN" | base64 -w0)
percent=$(printf %s "$TOKEN" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g')
all="$raw $escaped $base64 $percent"
`
	// told is all of it, masked: what is left in base64 is of the user.
	told = "[masked] [masked] dXNlcj[masked] [masked]"
)

// telling gives a shell that knows the canary.
func telling(script string) mcpclient.Command {
	command := shell(tells + script)
	command.Env = []string{"TOKEN=" + canary, "PATH=/usr/bin:/bin"}
	command.Mask = secrets.NewMask(secrets.Secret(canary))
	return command
}

// leaks gives the notations of the canary that are in something, as JSON and as Go
// prints it.
func leaks(anything ...any) []string {
	encoded, _ := json.Marshal(anything)
	printed := fmt.Sprintf("%s %q %v", anything, anything, anything)
	var found []string
	for _, form := range []string{
		canary, strings.ReplaceAll(canary, "/", `\/`), "en+4711", "4711-can",
		base64.StdEncoding.EncodeToString([]byte("user:" + canary))[10:28],
		"%6b%2f%65%6e", url.QueryEscape(canary),
	} {
		if strings.Contains(string(encoded), form) || strings.Contains(printed, form) {
			found = append(found, form)
		}
	}
	return found
}

const (
	// serves answers the handshake and then, from $tools, the list.
	serves = `
while read -r line; do case $line in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"instructions":"use '"$all"'","serverInfo":{"name":"peer '"$raw"'","version":"1"}}}';;
*tools/list*) printf '%s\n' "$tools";;
esac; done
`
)

// TestASecretIsMaskedWhereItEnters, in whatever a process says that goes well.
func TestASecretIsMaskedWhereItEnters(t *testing.T) {
	t.Parallel()
	for name, sandbox := range bothSandboxes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needBubblewrap(t)
			command := telling(`echo "starting with $all"; echo "and $all" >&2
tools='{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a","description":"call it with '"$all"'"}]}}'` + serves)
			command.Sandbox = sandbox
			surface, report, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
			if err != nil {
				t.Fatal(err)
			}
			if found := leaks(surface, report); len(found) > 0 {
				t.Errorf("%v in %s %+v", found, surface.Tools, surface)
			}
			if got, want := string(surface.Tools[0]), `{"name":"a","description":"call it with `+told+`"}`; got != want {
				t.Errorf("%s\nis not\n%s", got, want)
			}
			if surface.Instructions != "use "+told || surface.Name != "peer [masked]" {
				t.Errorf("%q %q", surface.Instructions, surface.Name)
			}
		})
	}
}

// TestASecretIsMaskedInWhatFails: in errors, noise and standard error.
func TestASecretIsMaskedInWhatFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		facts        map[string]string
	}{
		{
			"the handshake is refused", `read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"bad token '"$all"'","data":"'"$all"'"}}'; cat >/dev/null`,
			map[string]string{"rpc_message": "bad token " + told},
		},
		{
			"a list is refused", `tools='{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"bad token '"$all"'"}}'` + serves,
			map[string]string{"rpc_message": "bad token " + told},
		},
		{
			"it says other things", `echo "token: $all"; echo '{"token":"'"$all"'"}'; echo "last words, no newline, $all" >&2; printf %s "$all"; exit 3`,
			map[string]string{"noise": "token: " + told, "noise_lines": "3", "stderr": "last words, no newline, " + told, "exit_code": "3"},
		},
		{
			"the sandbox fails", `echo "bwrap: no such $all" >&2; exit 1`, map[string]string{},
		},
		{
			"a version is unknown", `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"'"$all"'","capabilities":{}}}'; cat >/dev/null`,
			map[string]string{"offered": told},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			needBubblewrap(t)
			surface, report, err := starter(telling(tt.script), nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
			e, ok := registry.AsError(err)
			if !ok {
				t.Fatal(err)
			}
			if found := leaks(surface, report, e, e.Facts, e.Message, e.Next); len(found) > 0 {
				t.Errorf("%v in %+v", found, e)
			}
			for key, want := range tt.facts {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is\n%s, not\n%s", key, got, want)
				}
			}
			if !strings.Contains(fmt.Sprint(e.Message, e.Facts), secrets.Masked) {
				t.Errorf("nothing is masked in %+v", e)
			}
		})
	}
}

// TestASecretAtTheCutIsMasked: standard error is kept from the middle of a secret
// on, or from anywhere around it.
func TestASecretAtTheCutIsMasked(t *testing.T) {
	t.Parallel()
	reach := telling("").Mask.Longest()
	for form, masked := range map[string]string{"raw": secrets.Masked, "escaped": secrets.Masked, "base64": "dXNlcj" + secrets.Masked, "percent": secrets.Masked} {
		for _, after := range []int{3000, 4032, 4050, 4070, 4080, 4090, 4095, 4096, 4096 + reach - 40, 4096 + reach - 10, 4096 + reach} {
			t.Run(fmt.Sprintf("%s before %d bytes", form, after), func(t *testing.T) {
				t.Parallel()
				command := telling(fmt.Sprintf(`{ printf 'password: %%s' "$%s"; head -c %d /dev/zero | tr '\0' .; } >&2; exit 1`, form, after))
				command.Sandbox = registry.SandboxNone
				report, err := starter(command, nil).Probe(t.Context(), overStdio, mcpclient.EraLegacy)
				e, ok := registry.AsError(err)
				if !ok {
					t.Fatal(err)
				}
				stderr, all := e.Fact("stderr"), "password: "+masked+strings.Repeat(".", after)
				if !strings.HasSuffix(all, stderr) || len(stderr) < min(after, 4096) {
					t.Errorf("%d bytes: %.60s", len(stderr), stderr)
				}
				if found := leaks(report, e, e.Facts); len(found) > 0 {
					t.Error(found)
				}
			})
		}
	}
}

// TestAValueThatIsNoSecretIsFound: it occurs where nothing can be masked.
func TestAValueThatIsNoSecretIsFound(t *testing.T) {
	t.Parallel()
	command := telling(`tools=''` + serves)
	command.Sandbox, command.Mask = registry.SandboxNone, secrets.NewMask(secrets.Secret("jsonrpc"))
	_, _, err := starter(command, nil).Discover(t.Context(), overStdio, mcpclient.EraLegacy, nil)
	e, _ := registry.AsError(err)
	if e == nil || e.Reason != registry.ReasonProtocolError || !strings.Contains(e.Next, "what the command takes for secrets") {
		t.Errorf("%+v", e)
	}
}

// TestArgumentsAreMasked in what is said about a program that cannot be started.
func TestArgumentsAreMasked(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/nowhere/" + canary, canary} {
		command := telling("")
		command.Argv, command.Sandbox = []string{program}, registry.SandboxNone
		_, report, err := starter(command, nil).Discover(t.Context(), overStdio, "", nil)
		e, ok := registry.AsError(err)
		if found := leaks(report, e, e.Facts, e.Message); !ok || len(found) > 0 {
			t.Errorf("%v in %+v", found, e)
		}
	}
}
