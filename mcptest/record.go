package mcptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Record is one line of a record file: what a server saw.
type Record struct {
	Time time.Time `json:"time"`
	// Event is start, call, eof (stdin ended), signal, exit, or orphan (a
	// process that was left behind).
	Event string `json:"event"`
	// Of is "canary" for what its canary saw.
	Of     string   `json:"of,omitempty"`
	PID    int      `json:"pid,omitempty"`
	Args   []string `json:"args,omitempty"`   // of start
	Env    []string `json:"env,omitempty"`    // of start
	Signal string   `json:"signal,omitempty"` // of signal
	Code   int      `json:"code,omitempty"`   // of exit
	Call   *Call    `json:"call,omitempty"`   // of call
}

// ReadRecords reads a record file. A last line that is not whole, of a server
// that was killed, is left out.
func ReadRecords(name string) ([]Record, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer func() { _ = file.Close() }()
	var out []Record
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("record: line %d: %w", len(out)+1, err)
		}
		out = append(out, r)
	}
}

// recorder writes records; nil writes none.
type recorder struct {
	name string // who saw it
	to   *sharedLog
}

type sharedLog struct {
	mu  sync.Mutex
	out io.Writer
}

func newRecorder(out io.Writer) *recorder {
	if out == nil {
		return nil
	}
	return &recorder{to: &sharedLog{out: out}}
}

// of gives a recorder of the same log for another.
func (r *recorder) of(name string) *recorder {
	if r == nil {
		return nil
	}
	return &recorder{name: name, to: r.to}
}

func (r *recorder) write(record Record) {
	if r == nil {
		return
	}
	record.Time, record.Of = time.Now(), r.name
	line, err := json.Marshal(record)
	if err != nil {
		return // params that are no JSON are not in a Call
	}
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	_, _ = r.to.out.Write(append(line, '\n')) // one write, so that lines stay whole
}

func (r *recorder) start() {
	r.write(Record{Event: "start", PID: os.Getpid(), Args: os.Args, Env: os.Environ()})
}

func (r *recorder) call(call Call) { r.write(Record{Event: "call", Call: &call}) }

// RecordSignal notes in a record file that the process got a signal.
func RecordSignal(log io.Writer, signal os.Signal) {
	newRecorder(log).write(Record{Event: "signal", PID: os.Getpid(), Signal: signal.String()})
}
