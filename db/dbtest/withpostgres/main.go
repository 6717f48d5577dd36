// Command withpostgres runs a command while a Postgres server of its own runs, which the tests in it find by the
// environment variable COUNTERSIGN_TEST_POSTGRES. Where that is set already, it only runs the command.
//
//	withpostgres COMMAND [ARGUMENT]...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"countersign/db/dbtest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres COMMAND [ARGUMENT]...")
		os.Exit(2)
	}
	// The terminal sends Ctrl-C to the command as well, which decides what to do; the server outlives it.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	err := run(os.Args[1], os.Args[2:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		os.Exit(1)
	}
}

func run(name string, args []string) error {
	command := exec.Command(name, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if os.Getenv(dbtest.Env) == "" {
		server, err := dbtest.Start()
		if err != nil {
			return err
		}
		command.Env = append(os.Environ(), dbtest.Env+"="+server.DSN)
		err = command.Run()
		return errors.Join(err, server.Stop())
	}
	return command.Run()
}
