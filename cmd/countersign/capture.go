package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/cmd/internal/app"
	"countersign/mcpclient"
	"countersign/outbound"
	"countersign/registry"
	"countersign/secrets"
)

// captureFlags are those of "capture".
type captureFlags struct {
	file, sandbox, dialAddress string
	env, networks, headers     []string
	bearer                     string
	network                    bool
	timeout                    time.Duration
}

func newCaptureCommand(c *cli) *cobra.Command {
	var f captureFlags
	command := &cobra.Command{
		Use: "capture (URL | -- COMMAND [ARGS...])", Short: "Write down what an MCP server offers, without a running Countersign",
		Long: `Shakes hands with an MCP server, reads every list to its end, and writes what it
said to a file that "countersign diff" reads. No API is asked and nothing is
registered.

A URL on this machine (loopback) or in public is reached at once; a network in
between has to be allowed by --allow-network.

A server that wants credentials is shown header fields by --header, whose whole
value is a secret, or a token by --bearer. Both name where it is, env:NAME for a
variable or file:NAME for a file below the directory that you are in, never the
secret itself: arguments can be read by everybody on a machine. It is masked in what
the server says, and not written down. A connection of Countersign can get tokens from
an issuer, and this command cannot.

A command is started in a sandbox (bubblewrap) that sees of the machine's files
its programs and libraries, where the command is, and the directory that you are
in, all read-only, and no network but with --network. It gets no
environment but the variables that --env names; values of those that are not
plainly harmless are masked in what the server says. Programs that install
others, such as npx, have to write, and need --sandbox none.`,
		Example: `  countersign capture https://mcp.example.com/mcp -o now.json
  countersign capture --bearer env:GITHUB_TOKEN https://api.githubcopilot.com/mcp/ -o now.json
  countersign capture --env PATH -o now.json -- node server.js
  countersign capture --sandbox none --env PATH --env HOME -o now.json -- npx -y @modelcontextprotocol/server-everything`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash > 0:
				return usagef("give either a URL or a command behind --")
			case dash < 0 && len(args) != 1, dash == 0 && len(args) == 0:
				return usagef("give the URL of a server, or its command behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.capture(cmd.Context(), args, cmd.ArgsLenAtDash() == 0, &f)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&f.file, "output", "o", "-", "`FILE` to write; - is standard output")
	flags.StringArrayVar(&f.headers, "header", nil, "`NAME=REFERENCE`: a header whose whole value is that secret, such as X-Key=env:SEARCH_KEY; may be repeated")
	flags.StringVar(&f.bearer, "bearer", "", "`REFERENCE` to a token that is sent as Authorization: Bearer")
	flags.StringArrayVar(&f.env, "env", nil, "`NAME` of a variable that the command gets; may be repeated")
	flags.StringVar(&f.sandbox, "sandbox", string(registry.SandboxBubblewrap), "how the command is kept from the machine: bubblewrap or none")
	flags.BoolVar(&f.network, "network", false, "the command gets the machine's network")
	flags.StringArrayVar(&f.networks, "allow-network", nil, "`CIDR` that a URL may lead to besides loopback and public addresses; may be repeated")
	flags.StringVar(&f.dialAddress, "dial-address", "", "`HOST:PORT` to connect to instead of the URL's")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "give up after this `DURATION`")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "no notes on standard error, only errors")
	completeWords(command, "sandbox", []string{string(registry.SandboxBubblewrap), string(registry.SandboxNone)})
	return command
}

func (c *cli) capture(ctx context.Context, args []string, isCommand bool, f *captureFlags) error {
	if f.timeout <= 0 {
		return usagef("--timeout %s is not a time to wait", f.timeout)
	}
	guard, err := f.guard()
	if err != nil {
		return err
	}
	target := registry.Target{Transport: registry.TransportStreamableHTTP, DialAddress: f.dialAddress, Authentication: registry.AuthNoneException}
	client := &mcpclient.Client{Guard: guard, Limits: registry.DefaultLimits, Name: "countersign", Version: app.ReadBuild().Version}
	headers, err := c.captureHeaders(ctx, f)
	if err != nil {
		return err
	}
	if isCommand {
		if headers != nil {
			return usagef("--header and --bearer are for a URL; a command gets variables, by --env")
		}
		command, err := c.command(args, f)
		if err != nil {
			return err
		}
		target.Transport = registry.TransportStdio
		client.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) { return command, nil }
	} else {
		target.URL = args[0]
	}
	if headers != nil {
		client.Credentials = func(context.Context, registry.Target) (mcpclient.Credential, error) { return headers, nil }
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	surface, report, err := client.Discover(ctx, target, "", nil)
	if err != nil {
		return c.captureFailure(err)
	}
	document, err := encodeSurface(surface)
	if err != nil {
		return err
	}
	if err := c.writeFile(f.file, document); err != nil {
		return err
	}
	c.notef("%s: %d tools, %d resources, %d templates, %d prompts, protocol %s, in %s", some(" ", surface.Name, surface.Version),
		len(surface.Tools), len(surface.Resources), len(surface.Templates), len(surface.Prompts), surface.ProtocolVersion,
		report.Duration.Round(time.Millisecond))
	if len(surface.Quirks) > 0 {
		c.notef("tolerated: %s", strings.Join(surface.Quirks, ", "))
	}
	if f.file != "-" {
		c.nextf("countersign diff %s NEW", f.file)
	}
	return nil
}

// guard lets through what the person at this machine can reach anyway and named:
// public addresses, loopback, and the networks of the flag.
func (f *captureFlags) guard() (*outbound.Guard, error) {
	allowed := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, text := range f.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usagef("--allow-network %s: not a network such as 10.20.0.0/16", text)
		}
		allowed = append(allowed, network)
	}
	return outbound.NewGuard(outbound.Options{AllowNetworks: allowed}), nil
}

// command makes the command that the arguments name.
func (c *cli) command(args []string, f *captureFlags) (mcpclient.Command, error) {
	sandbox := registry.Sandbox(f.sandbox)
	if sandbox != registry.SandboxBubblewrap && sandbox != registry.SandboxNone {
		return mcpclient.Command{}, usagef("--sandbox %s: there is bubblewrap and none", f.sandbox)
	}
	program, err := exec.LookPath(args[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return mcpclient.Command{}, usagef("%s", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return mcpclient.Command{}, err
	}
	command := mcpclient.Command{
		Argv: append([]string{program}, args[1:]...), Dir: dir, Sandbox: sandbox, Network: f.network, Start: f.timeout,
	}
	var hidden []secrets.Value
	for _, name := range f.env {
		value := c.getenv(name)
		if value == "" {
			return mcpclient.Command{}, usagef("--env %s: the variable is not set", name)
		}
		command.Env = append(command.Env, name+"="+value)
		if !harmless(name) {
			hidden = append(hidden, secrets.Secret(value))
		}
	}
	command.Mask = secrets.NewMask(hidden...)
	return command, nil
}

// harmless says whether a variable is known to hold no secret. Their values are
// common words, so masking them would spoil what the server says.
func harmless(name string) bool {
	known := []string{"HOME", "LANG", "LOGNAME", "NODE_ENV", "NODE_PATH", "PATH", "PWD", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
	return slices.Contains(known, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_")
}

// captureFailure shows how far it came, which for other commands the API keeps.
func (c *cli) captureFailure(err error) error {
	f := c.failureOf(err)
	if e, ok := registry.AsError(err); ok {
		if e.Reason == registry.ReasonAuthRequired {
			f.Next = "name a token that the server takes by --bearer env:NAME, or a header by --header NAME=env:NAME"
		}
		for _, fact := range e.Facts {
			if f.Facts == nil {
				f.Facts = map[string]string{}
			}
			f.Facts[fact.Key] = fact.Value
		}
	}
	return f
}

// writeFile writes a result to a file, whole or not at all, or to standard
// output.
func (c *cli) writeFile(name string, text []byte) error {
	if name == "-" {
		return c.emit(text)
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".countersign-*")
	if err != nil {
		return usagef("%s", err)
	}
	_, err = file.Write(text)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644) //nolint:gosec // it is meant to be shared
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
