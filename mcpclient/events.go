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
	line    []byte
	afterCR bool
	started bool
	read    int64
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

// next gives the data of the next event that can hold a message. An event that
// the end of the stream cuts short counts, as servers forget the last line.
func (e *events) next() ([]byte, error) {
	var data []byte
	name, some := "", false
	for {
		line, err := e.readLine()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return nil, err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) > 0 && string(field) == "data":
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, value...), true
		case len(line) > 0 && string(field) == "event":
			name = string(value)
		}
		if len(line) > 0 && !ended {
			continue
		}
		// A priming event has an id and no data; other names are not messages.
		if some && len(data) > 0 && (name == "" || name == "message") {
			return data, nil
		}
		if ended {
			return nil, io.EOF
		}
		data, name, some = nil, "", false
	}
}

// readLine gives one line without its end; the error comes with the last one.
func (e *events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		if _, err := e.r.Peek(1); err != nil {
			return e.line, err
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
