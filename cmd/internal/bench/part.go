package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// part is a process of this program that does one job for a measurement. It is
// asked by lines on its standard input, answers each by one line, and ends when
// there are no more.
type part struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	// Ready is what it said when it was ready.
	Ready string
}

// start runs a part of this program with its arguments and waits until it is
// ready.
func start(ctx context.Context, o options, name string, args any) (*part, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &part{name: name, cmd: exec.CommandContext(ctx, program, name, string(raw))} //nolint:gosec // it is this program
	p.cmd.Stderr = o.log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.Ready, err = p.line(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *part) line() (string, error) {
	if !p.out.Scan() {
		return "", fmt.Errorf("the process %s ended: %w", p.name, errors.Join(p.out.Err(), io.ErrUnexpectedEOF))
	}
	text := p.out.Text()
	if fault, failed := strings.CutPrefix(text, "error: "); failed {
		return "", fmt.Errorf("the process %s: %s", p.name, fault)
	}
	return text, nil
}

// ask sends a line and decodes the answer into a value, if there is one.
func (p *part) ask(into any, question string) error {
	if _, err := fmt.Fprintln(p.in, question); err != nil {
		return err
	}
	text, err := p.line()
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// usage is what a process used up to now.
type usage struct {
	CPU time.Duration `json:"cpu"` // in user and system mode
	RSS int64         `json:"rss"` // bytes, now
	// Heap is what is reachable, in bytes; of "gc" alone.
	Heap int64 `json:"heap,omitempty"`
}

func (p *part) usage() (u usage, err error) { return u, p.ask(&u, "usage") }

func (p *part) close() {
	if p == nil {
		return
	}
	_ = p.in.Close() // it ends by that
	timer := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait() // how it ends is nothing that is measured
}

// answerLines is the part's side: it says that it is ready and answers until
// there are no more questions. "usage" and "gc" are known to all parts.
func answerLines(ready string, answers map[string]func(arg string) (any, error)) error {
	fmt.Println(ready) //nolint:forbidigo // it is the part's way to answer
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		word, arg, _ := strings.Cut(lines.Text(), " ")
		var (
			out any
			err error
		)
		switch answer := answers[word]; {
		case word == "usage":
			out, err = used()
		case word == "gc":
			out, err = collected()
		case word == "profile":
			err = profile(arg)
		case answer == nil:
			err = fmt.Errorf("nobody knows %q", word)
		default:
			out, err = answer(arg)
		}
		if err != nil {
			fmt.Println("error: " + strings.ReplaceAll(err.Error(), "\n", "; ")) //nolint:forbidigo // as above
			continue
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return err
		}
		fmt.Println(string(raw)) //nolint:forbidigo // as above
	}
	pprof.StopCPUProfile()
	return nil
}

// profile writes where the processor's time goes from now on until there are no
// more questions.
func profile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

// used is what this process used.
func used() (usage, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return usage{}, err
	}
	return usage{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), RSS: resident()}, nil
}

// collected is used after all garbage is gone.
func collected() (usage, error) {
	runtime.GC()
	runtime.GC() // what only finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u, err := used()
	u.Heap = int64(m.HeapAlloc)
	return u, err
}

func resident() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// arguments decodes what the parent gave.
func arguments[T any](args []string) (in T, err error) {
	if len(args) != 1 {
		return in, errors.New("a part of a measurement is not started by hand")
	}
	return in, json.Unmarshal([]byte(args[0]), &in)
}
