package mcpclient_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"countersign/mcpclient"
	"countersign/mcptest"
	"countersign/registry"
)

// footprint is what this program holds of the machine.
type footprint struct {
	routines, descriptors, children int
	resident                        int // bytes
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d child processes, %.1f MB", f.routines, f.descriptors, f.children, float64(f.resident)/(1<<20))
}

// measure gives the footprint after the collection of all garbage.
func measure(t *testing.T) footprint {
	t.Helper()
	debug.FreeOSMemory()
	f := footprint{routines: runtime.NumGoroutine()}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	f.descriptors = len(entries)
	f.children = len(children())
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	f.resident = pages * os.Getpagesize()
	return f
}

// children gives the processes that have this one for a parent, also those that
// have ended and wait for it.
func children() []string {
	var out []string
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// The name, in brackets, may hold anything; the state and the parent follow.
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			out = append(out, string(stat))
		}
	}
	return out
}

// TestAThousandFailuresLeaveNothing: handshakes with failing servers of every
// kind, some of them processes, many at once; then all is as it was before.
func TestAThousandFailuresLeaveNothing(t *testing.T) {
	const total, spared = 1000, 20 << 20
	program := faulty(t)
	var remote, local []meeting
	for _, k := range knobs {
		for _, m := range meetings(t, k) {
			switch {
			case m.want == "" || m.legacy != nil: // some way it is met
			case m.file.Transport == mcptest.OverStdio:
				local = append(local, m)
			default:
				remote = append(remote, m)
			}
		}
	}
	fail := func(n, seed int) {
		order := rand.New(rand.NewPCG(1, uint64(seed))) // the same in every run
		var group errgroup.Group
		group.SetLimit(32)
		for i := range n {
			from := remote
			if i%8 == 0 {
				from = local
			}
			m := from[order.IntN(len(from))]
			sandbox := bothSandboxes[map[bool]string{true: "none", false: "bubblewrap"}[i%16 == 0]]
			group.Go(func() error { return m.fail(t.Context(), program, sandbox) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	fail(200, 1) // what is made once is there then
	before := measure(t)
	began := time.Now()
	fail(total, 2)
	took := time.Since(began)
	var after footprint
	for deadline := time.Now().Add(2 * slack); ; time.Sleep(100 * time.Millisecond) {
		after = measure(t)
		same := after.routines <= before.routines && after.descriptors <= before.descriptors && after.children <= before.children
		if same && (raceDetector || after.resident < before.resident+spared) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("before: %s; after: %s; %v", before, after, children())
			break
		}
	}
	noneLeft(t, filepath.Dir(program))
	t.Logf("%d failures in %s; before: %s; after: %s", total, took.Round(time.Millisecond), before, after)
}

// fail makes the meeting with little patience and small limits.
func (m meeting) fail(ctx context.Context, program string, sandbox registry.Sandbox) error {
	c := client(func(l *registry.Limits) {
		l.Connect, l.Lists = 300*time.Millisecond, 300*time.Millisecond
		l.Pages, l.Items, l.PageBytes, l.TotalBytes = 30, 1000, 1<<20, 4<<20
	})
	to := overStdio
	if m.file.Transport == mcptest.OverStdio {
		command, mark, err := process(program, m.script)
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(mark) }()
		command.Start, command.Sandbox = 500*time.Millisecond, sandbox
		c.Commands = func(context.Context, registry.Target) (mcpclient.Command, error) { return command, nil }
	} else {
		s, err := m.file.Start()
		if err != nil {
			return err
		}
		defer s.Close()
		to = target(s.URL)
		if m.gone {
			s.Close()
		}
	}
	if m.change != nil {
		m.change(c)
	}
	if m.target != nil {
		m.target(&to)
	}
	var err error
	if m.probe {
		_, err = c.Probe(ctx, to, m.known)
	} else {
		_, _, err = c.Discover(ctx, to, m.known, nil)
	}
	if _, ok := registry.AsError(err); !ok {
		return fmt.Errorf("%s: %v", m, err) //nolint:errorlint // it may be nil
	}
	return nil
}
