package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// cli is one run of the program: its streams, its surroundings and the flags
// that every command of the client has.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time

	server, token, tokenFile, context string
	files                             certificateFiles
	output                            string
	quiet, noColor, yes               bool
	timeout                           time.Duration // 0: the command's own

	began bool // the arguments were understood and the command runs
}

func newCLI() *cli {
	return &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, now: time.Now}
}

const (
	callTimeout = 30 * time.Second // one command
	waitTimeout = 2 * time.Minute  // one command that waits for a state
)

func (c *cli) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.server, "server", "", "`URL` of the API (env COUNTERSIGN_SERVER; else the context's, else "+defaultServer+")")
	flags.StringVar(&c.token, "token", "", "bearer `TOKEN` (env COUNTERSIGN_TOKEN, which other processes do not see)")
	flags.StringVar(&c.tokenFile, "token-file", "", "`FILE` that holds the bearer token")
	flags.StringVar(&c.context, "context", "", "`NAME` of the context to use instead of the current one")
	addCertificateFlags(flags, &c.files)
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "no notes on standard error, only errors")
	flags.BoolVar(&c.noColor, "no-color", false, "no colours (env NO_COLOR)")
	flags.BoolVarP(&c.yes, "yes", "y", false, "answer yes to every question")
	flags.DurationVar(&c.timeout, "timeout", 0, "give up after this `DURATION` (default 30s, 2m with --wait)")
	c.addOutputFlag(flags)
}

func (c *cli) addOutputFlag(flags *pflag.FlagSet) {
	flags.StringVarP(&c.output, "output", "o", formatTable, "`FORM` of the result: "+strings.Join(formats(), ", "))
}

// checkFlags refuses values that no command could use.
func (c *cli) checkFlags() error {
	if !slices.Contains(formats(), c.output) {
		wrong := c.output
		c.output = formatTable
		return usagef("-o %s: there is %s", wrong, strings.Join(formats(), ", "))
	}
	if c.timeout < 0 {
		return usagef("--timeout %s is negative", c.timeout)
	}
	if c.token != "" && c.tokenFile != "" {
		return usagef("--token and --token-file exclude each other")
	}
	return c.files.check("--client-cert and --client-key")
}

// within bounds a command, or what a command does between two questions.
func (c *cli) within(ctx context.Context, usual time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.limit(usual))
}

func (c *cli) limit(usual time.Duration) time.Duration {
	if c.timeout > 0 {
		return c.timeout
	}
	return usual
}

// notef writes one line for people to standard error.
func (c *cli) notef(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintln(c.stderr, printable(fmt.Sprintf(format, args...)))
	}
}

// nextf says what to type next, if there is anything.
func (c *cli) nextf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		c.notef("next: %s", text)
	}
}

// colour says whether standard output is a terminal that shows colours to
// somebody who wants them.
func (c *cli) colour() bool {
	if c.noColor || c.getenv("NO_COLOR") != "" || c.getenv("TERM") == "dumb" {
		return false
	}
	if force := c.getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return isTerminal(c.stdout)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
