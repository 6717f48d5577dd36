package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/mcptest"
)

// A process is left behind in two steps, as daemons do it: fork starts this
// program as orphanFlag+"start", which starts it as orphanFlag+"stay" in a
// session of its own, says the id on file 3, and ends.
const orphanFlag = "-orphan="

func fork(spec mcptest.ForkSpec) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("this program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	child := exec.Command(self, orphanFlag+"start", strconv.Itoa(spec.Seconds), strconv.FormatBool(spec.IgnoreTerm)) //nolint:gosec,noctx // itself; meant to outlive us
	child.ExtraFiles = []*os.File{write}
	if spec.KeepOutput {
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
	}
	err = child.Run()
	_ = write.Close()
	if err != nil {
		return 0, fmt.Errorf("child: %w", err)
	}
	text, err := io.ReadAll(read)
	if err != nil {
		return 0, fmt.Errorf("child: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("child said %q: %w", text, err)
	}
	return pid, nil
}

// orphan is the life of the two processes that fork makes. It gives the exit
// code.
func orphan(args []string) int {
	if len(args) != 3 {
		return 2
	}
	seconds, err := strconv.Atoi(args[1])
	if err != nil {
		return 2
	}
	if args[0] == orphanFlag+"stay" {
		if args[2] == "true" {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		return 0
	}
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	syscall.CloseOnExec(3)                                                // fork waits for its end
	grandchild := exec.Command(self, orphanFlag+"stay", args[1], args[2]) //nolint:gosec,noctx // itself; meant to outlive us
	grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
	grandchild.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := grandchild.Start(); err != nil {
		return 1
	}
	if _, err := fmt.Fprintln(os.NewFile(3, "id"), grandchild.Process.Pid); err != nil {
		return 1
	}
	return 0
}
