package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// confirm asks a question whose answer must be yes. Without a terminal nobody
// could answer, so it is an error there.
func (c *cli) confirm(ctx context.Context, question string) error {
	if c.yes {
		return nil
	}
	if !isTerminal(c.stdin) {
		return (&failure{Exit: exitUsage, Message: "standard input is no terminal, so nobody can be asked: " + question}).
			withNext("add --yes to do it without a question")
	}
	fmt.Fprint(c.stderr, printable(question)+" [y/N] ")
	answers := make(chan string, 1)
	go func() { // it may outlive the question: a read of a terminal cannot be cancelled
		line, err := bufio.NewReader(c.stdin).ReadString('\n')
		if err != nil { // an end without a line is a no
			fmt.Fprintln(c.stderr)
		}
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.stderr)
		return ctx.Err()
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return &failure{Exit: exitUsage, Message: "cancelled; nothing was changed"}
}
