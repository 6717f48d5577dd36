package mcpclient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads server-sent events by the HTML standard, which allows more than
// most servers send: any line end, comments, fields without a colon, a byte
// order mark at the start. Reading never waits for more than it needs, since a
// server may keep the stream open behind its answer.
type events struct {
	r       *bufio.Reader
	limit   int                 // on one event, in bytes; 0 where the reader has one of its own
	mask    func([]byte) []byte // of the data; nil changes nothing
	line    []byte
	afterCR bool
	started bool
	read    int64
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

// errLongEvent is an event beyond its limit.
var errLongEvent = errors.New("an event is longer than the limit")

// next gives the data of the next event that can hold a message. An event that
// the end of the stream cuts short counts, as servers forget the last line.
func (e *events) next() ([]byte, error) {
	for {
		// Other names are not messages.
		if name, data, err := e.event(); err != nil || name == "" || name == "message" {
			return data, err
		}
	}
}

// event gives the next event that has data, with its name. A priming event has
// an id and no data.
func (e *events) event() (name string, data []byte, err error) {
	some := false
	for {
		line, err := e.readLine()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return "", nil, err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) > 0 && string(field) == "data":
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, value...), true
			if e.limit > 0 && len(data) > e.limit {
				return "", nil, errLongEvent
			}
		case len(line) > 0 && string(field) == "event":
			name = string(value)
		}
		if len(line) > 0 && !ended {
			continue
		}
		if some && len(data) > 0 {
			if e.mask != nil {
				data = e.mask(data)
			}
			return name, data, nil
		}
		if ended {
			return "", nil, io.EOF
		}
		name, data, some = "", nil, false
	}
}

// readLine gives one line without its end; the error comes with the last one.
func (e *events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		if _, err := e.r.Peek(1); err != nil {
			return e.line, err
		}
		if e.limit > 0 && len(e.line) > e.limit+len("data: ") {
			return nil, errLongEvent
		}
		ready, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR && ready[0] == '\n' {
			e.skip(1)
			e.afterCR = false
			continue
		}
		e.afterCR = false
		i := bytes.IndexAny(ready, "\r\n")
		if i < 0 {
			e.line = append(e.line, ready...)
			e.skip(len(ready))
			continue
		}
		e.line = append(e.line, ready[:i]...)
		e.afterCR = ready[i] == '\r'
		e.skip(i + 1)
		if !e.started {
			e.started, e.line = true, bytes.TrimPrefix(e.line, []byte("\xef\xbb\xbf"))
		}
		return e.line, nil
	}
}

func (e *events) skip(n int) {
	_, _ = e.r.Discard(n) // they are buffered
	e.read += int64(n)
}
