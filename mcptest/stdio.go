package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// processSpec is what a process over stdio does beside the protocol.
type processSpec struct {
	StartDelay duration  `json:"startDelay"`
	Stdout     []content `json:"stdout"`
	Stderr     []content `json:"stderr"`
	Exit       *int      `json:"exit"`
	Deaf       bool      `json:"deaf"`
	IgnoreEOF  bool      `json:"ignoreEOF"`
	IgnoreTerm bool      `json:"ignoreTerm"`
	Fork       *ForkSpec `json:"fork"`
}

// ForkSpec says what a process leaves behind: the child of a child, in a
// session of its own.
type ForkSpec struct {
	Seconds    int  `json:"seconds"`    // it lives, 1 to 3600
	KeepOutput bool `json:"keepOutput"` // it holds stdout and stderr open
	IgnoreTerm bool `json:"ignoreTerm"`
}

func (p *processSpec) check(path string) error {
	if p.Fork != nil && (p.Fork.Seconds < 1 || p.Fork.Seconds > 3600) {
		return at(join(path, "fork.seconds"), "from 1 to 3600, so that nothing stays for ever")
	}
	if p.Exit != nil && (*p.Exit < 0 || *p.Exit > 255) {
		return at(join(path, "exit"), "an exit code is from 0 to 255")
	}
	return nil
}

// Process is the world of a server over stdio.
type Process struct {
	In       io.Reader
	Out, Err io.Writer
	Log      io.Writer // of records, see [Record]; may be nil
	// Exit ends the process; Serve returns the code when it is nil.
	Exit func(code int)
	// Fork leaves a process behind and gives its id; only for scripts that fork.
	Fork func(spec ForkSpec) (pid int, err error)
}

// IgnoresTerm says whether the process of this script lives on when it is told
// to end by a signal.
func (f *File) IgnoresTerm() bool { return f.spec.Process.IgnoreTerm }

// Serve is the life of a server over stdio: until stdin ends, ctx ends, or the
// script says otherwise. It gives the exit code.
func (f *File) Serve(ctx context.Context, p Process) (int, error) {
	if f.Transport != OverStdio {
		return 0, fmt.Errorf("%s: not a script for stdio but for %s", f.Name, f.Transport)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	code := make(chan int, 1)
	exit := func(n int) {
		if p.Exit != nil {
			p.Exit(n)
		}
		select {
		case code <- n:
		default:
		}
		cancel()
	}
	records := newRecorder(p.Log)
	records.start()
	script, err := f.Script()
	if err != nil {
		return 0, err
	}
	if fork := f.spec.Process.Fork; fork != nil {
		pid, err := p.Fork(*fork)
		if err != nil {
			return 0, fmt.Errorf("fork: %w", err)
		}
		records.write(Record{Event: "orphan", PID: pid})
	}
	s := Handler(script)
	s.log, s.stderr = records, p.Err
	s.exit = func(n int) {
		records.write(Record{Event: "exit", Code: n})
		exit(n)
	}
	if f.spec.Process.begin(ctx, s, p) {
		f.spec.Process.listen(ctx, s, p, records)
	}
	select {
	case n := <-code:
		return n, nil
	default:
		return 0, nil
	}
}

// begin is what happens before the first message. It says whether the process
// lives on.
func (p *processSpec) begin(ctx context.Context, s *Server, world Process) bool {
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	same := func(text string) string { return text }
	alive := func(d time.Duration) bool { return d == 0 && ctx.Err() == nil || d > 0 && pause(d) }
	if p.StartDelay > 0 && !pause(time.Duration(p.StartDelay)) {
		return false
	}
	complain := func() {
		for _, c := range p.Stderr {
			_ = c.stream(same, world.Err, alive)
		}
	}
	if p.Exit == nil {
		go complain() // a flood goes on beside the protocol
	}
	for _, c := range p.Stdout {
		_ = c.stream(same, world.Out, alive)
	}
	if p.Exit != nil {
		complain()
		s.exit(*p.Exit)
	}
	return p.Exit == nil
}

// listen answers stdin line by line, each in its own time.
func (p *processSpec) listen(ctx context.Context, s *Server, world Process, records *recorder) {
	if p.Deaf {
		<-ctx.Done()
		return
	}
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		in := bufio.NewReader(world.In)
		for {
			line, err := in.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	var running sync.WaitGroup
	var out sync.Mutex
	calls, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		running.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case line, ok := <-lines:
			if ok {
				call, script := s.note(Call{Body: line})
				running.Go(func() { s.line(calls, call, script, &turn{mu: &out, write: world.Out.Write, lines: true}) })
				continue
			}
		}
		records.write(Record{Event: "eof"})
		if p.IgnoreEOF {
			<-ctx.Done()
			return
		}
		// What is being answered is finished, but a call that hangs has no right to hold the process.
		finished := make(chan struct{})
		go func() {
			running.Wait()
			close(finished)
		}()
		select {
		case <-finished:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return
	}
}

// line answers one line of stdin.
func (s *Server) line(ctx context.Context, call Call, script Script, w *turn) {
	defer w.end()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "stdio:", bytes.NewReader(call.Body))
	if err != nil {
		return // the address is fixed
	}
	x := &Exchange{W: w, R: r, Call: call, Script: script, server: s, kind: stdioCall}
	x.run()
}
