package mcptest

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answerSpec is an answer in a script file: what is said, and how it travels.
// Without a member that says something the honest answer travels so.
type answerSpec struct {
	// What is said.
	Hang     bool               `json:"hang"`
	Status   int                `json:"status"   on:"http,sse"`
	Headers  map[string]content `json:"headers"  on:"http,sse"`
	Redirect string             `json:"redirect" on:"http,sse"`
	Body     *content           `json:"body"`
	Raw      *content           `json:"raw"      on:"http,sse"`
	Result   json.RawMessage    `json:"result"`
	Message  json.RawMessage    `json:"message"`
	Error    *errorSpec         `json:"error"`

	// How its messages are bent.
	ID     string            `json:"id"`
	Batch  bool              `json:"batch"`
	BOM    bool              `json:"bom"`
	Tail   string            `json:"tail"`
	Before []json.RawMessage `json:"before"`
	Storm  int               `json:"storm"`
	Kind   string            `json:"kind"`

	// How it travels.
	Delay    duration  `json:"delay"`
	Pause    duration  `json:"pause"    on:"http"`
	Drip     duration  `json:"drip"`
	Gzip     bool      `json:"gzip"     on:"http"`
	Cut      *cutSpec  `json:"cut"      on:"http,sse"`
	KeepOpen bool      `json:"keepOpen" on:"http"`
	Forget   bool      `json:"forget"   on:"http"`
	Stdout   []content `json:"stdout"   on:"stdio"`
	Stderr   []content `json:"stderr"   on:"stdio"`
	Exit     *int      `json:"exit"     on:"stdio"`
}

type errorSpec struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

type cutSpec struct {
	By    string `json:"by"`
	After *int   `json:"after"`
}

var (
	idKinds   = []string{"wrong", "other-type", "null", "missing", "twice"}
	cuts      = []string{"close", "reset", "half-close"}
	listKinds = []string{"tools", "resources", "prompts"}
)

// check says what cannot be meant.
func (a *answerSpec) check(path string) error {
	said := 0
	for _, is := range []bool{a.Hang, a.Redirect != "", a.Body != nil, a.Raw != nil, a.Result != nil, a.Message != nil, a.Error != nil} {
		if is {
			said++
		}
	}
	switch {
	case said > 1:
		return at(path, "only one of hang, redirect, body, raw, result, message and error")
	case a.ID != "" && !slices.Contains(idKinds, a.ID):
		return at(join(path, "id"), "%q is none of %s", a.ID, strings.Join(idKinds, ", "))
	case a.Cut != nil && !slices.Contains(cuts, a.Cut.By):
		return at(join(path, "cut.by"), "%q is none of %s", a.Cut.By, strings.Join(cuts, ", "))
	case a.Kind != "" && !slices.Contains(listKinds, a.Kind):
		return at(join(path, "kind"), "%q is none of %s", a.Kind, strings.Join(listKinds, ", "))
	case a.Status != 0 && (a.Status < 200 || a.Status > 999):
		return at(join(path, "status"), "%d is no status of an answer; raw can send it", a.Status)
	case a.Storm < 0:
		return at(join(path, "storm"), "a number of notifications cannot be negative")
	case a.Cut != nil && a.Cut.After != nil && *a.Cut.After < 0:
		return at(join(path, "cut.after"), "a number of bytes cannot be negative")
	}
	return nil
}

// bare says that the answer says nothing by itself.
func (a *answerSpec) bare() bool {
	return !a.Hang && a.Redirect == "" && a.Body == nil && a.Raw == nil && a.Result == nil && a.Message == nil && a.Error == nil && a.Status == 0
}

// atPost says that with HTTP+SSE it answers the POST and not in the stream.
func (a *answerSpec) atPost() bool {
	return a.Status != 0 || a.Headers != nil || a.Redirect != "" || a.Raw != nil || a.Cut != nil
}

func (a *answerSpec) bend() *shape {
	s := &shape{idKind: a.ID, before: texts(a.Before), storm: a.Storm, kind: a.Kind, batch: a.Batch, bom: a.BOM, tail: a.Tail}
	if s.kind == "" {
		s.kind = "tools"
	}
	return s
}

// fault makes the fault of it.
func (a *answerSpec) fault() Fault {
	return func(x *Exchange) bool {
		if a.Forget {
			x.server.forget()
		}
		if a.Delay > 0 && !wait(x, time.Duration(a.Delay)) {
			return true
		}
		if x.kind == stdioCall && !a.noise(x) {
			return true
		}
		stream := x.Call.HTTP == http.MethodGet && x.Script.Endpoint != "" && a.bare() && a.Cut == nil
		switch {
		case stream: // the stream of HTTP+SSE has no end that could be waited for
			return false
		case a.Hang:
			if x.stream != nil && !a.atPost() {
				x.accept()
			}
			<-x.R.Context().Done()
		case a.Raw != nil || a.Cut != nil && a.Cut.After == nil:
			a.takeOver(x)
		default:
			a.deliver(x)
		}
		return true
	}
}

// noise is what a process does beside its answer. It says whether the process
// lives on.
func (a *answerSpec) noise(x *Exchange) bool {
	pause := func(d time.Duration) bool { return d == 0 && x.R.Context().Err() == nil || d > 0 && wait(x, d) }
	for _, c := range a.Stdout {
		_ = c.stream(x.expand, x.W, pause)
	}
	for _, c := range a.Stderr {
		_ = c.stream(x.expand, x.server.stderr, pause)
	}
	if a.Exit == nil {
		return true
	}
	if t, ok := x.W.(*turn); ok {
		t.end()
	}
	x.server.exit(*a.Exit)
	return false
}

// expand fills in what is only known when an answer is made.
func (x *Exchange) expand(text string) string {
	return strings.NewReplacer(`"$ID"`, x.Call.id(), "$ID", x.Call.id(), "$ORIGIN", x.Call.origin()).Replace(text)
}

// say gives the status, the headers and the body of the answer.
func (a *answerSpec) say(x *Exchange) *captured {
	c := &captured{header: http.Header{}}
	inner := *x
	inner.W, inner.shape = c, a.bend()
	if x.stream != nil {
		inner.stream, inner.Script.Framing = nil, SSE // what is captured goes to the stream
	}
	if x.kind == httpCall && inner.shape.several() {
		inner.Script.Framing = SSE
	}
	switch {
	case a.Redirect != "":
		c.status = http.StatusTemporaryRedirect
		c.header.Set("Location", x.expand(a.Redirect))
	case a.Body != nil:
		c.header.Set("Content-Type", "application/json")
		c.long = a.Body
	case a.Result != nil:
		inner.Reply(string(a.Result))
	case a.Message != nil:
		inner.Send(x.expand(string(a.Message)))
	case a.Error != nil:
		inner.Send(a.Error.message(&inner))
	case a.Status != 0:
	default:
		if a.plain() {
			inner.shape = nil // so that an error keeps its status
		}
		inner.honest()
	}
	if a.Status != 0 {
		c.status = a.Status
	}
	for name, value := range a.Headers {
		if value.Text == "" {
			c.header[http.CanonicalHeaderKey(name)] = nil // net/http adds nothing then
			continue
		}
		c.header.Set(name, x.expand(value.all()))
	}
	return c
}

// plain says that messages are not bent.
func (a *answerSpec) plain() bool {
	return a.ID == "" && !a.Batch && !a.BOM && a.Tail == "" && len(a.Before) == 0 && a.Storm == 0
}

func (e *errorSpec) message(x *Exchange) string {
	out := `{"jsonrpc":"2.0",` + x.idMember(x.Call.ID) + `"error":{"code":` + strconv.Itoa(e.Code) + `,"message":` + quote(x.expand(e.Message))
	if e.Data != nil {
		out += `,"data":` + string(e.Data)
	}
	return out + "}}"
}

// captured is an answer that has not travelled yet.
type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
	long   *content // in place of body
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) Write(p []byte) (int, error) { return c.body.Write(p) }

// WriteHeader keeps the first status, as net/http does.
func (c *captured) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

// deliver lets the answer travel.
func (a *answerSpec) deliver(x *Exchange) {
	c := a.say(x)
	w := x.W
	if x.stream != nil && !a.atPost() && x.accept() {
		w = x.stream
	}
	maps.Copy(w.Header(), c.header)
	if a.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if a.Cut != nil && c.long == nil && !a.Gzip {
		w.Header().Set("Content-Length", strconv.Itoa(c.body.Len()))
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	flush := func() { _ = http.NewResponseController(w).Flush() }
	if a.Pause > 0 {
		flush()
		if !wait(x, time.Duration(a.Pause)) {
			return
		}
	}
	out := &wire{x: x, w: w, flush: flush, drip: time.Duration(a.Drip), left: -1}
	if a.Cut != nil {
		out.left = *a.Cut.After
	}
	err := a.write(x, c, out)
	switch {
	case errors.Is(err, errCut):
		flush()
		a.takeOver(x)
	case err == nil && a.KeepOpen:
		flush()
		<-x.R.Context().Done()
	case err == nil && x.stream != nil:
		flush()
	}
}

func (a *answerSpec) write(x *Exchange, c *captured, out *wire) error {
	var to io.Writer = out
	var z *gzip.Writer
	if a.Gzip {
		z = gzip.NewWriter(out)
		to = z
	}
	var err error
	if c.long == nil {
		_, err = to.Write(c.body.Bytes())
	} else {
		err = c.long.stream(x.expand, to, func(d time.Duration) bool {
			if d == 0 {
				return x.R.Context().Err() == nil
			}
			if z != nil {
				_ = z.Flush()
			}
			out.flush()
			return wait(x, d)
		})
	}
	if z != nil && err == nil {
		err = z.Close()
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

var errCut = errors.New("the answer is cut off here")

// wire carries the body, slowly if it must, and breaks where it must.
type wire struct {
	x     *Exchange
	w     io.Writer
	flush func()
	drip  time.Duration
	left  int // bytes until it breaks; -1 = it does not
}

// Write implements [io.Writer].
func (w *wire) Write(p []byte) (int, error) {
	whole := len(p)
	if w.left >= 0 && len(p) >= w.left {
		p = p[:w.left]
	}
	if w.drip == 0 {
		if _, err := w.w.Write(p); err != nil {
			return 0, err
		}
	} else {
		for i := range p {
			if _, err := w.w.Write(p[i : i+1]); err != nil {
				return i, err
			}
			w.flush()
			if !wait(w.x, w.drip) {
				return i, io.ErrClosedPipe
			}
		}
	}
	if w.left >= 0 {
		w.left -= len(p)
		if w.left == 0 {
			return len(p), errCut
		}
	}
	return whole, nil
}

// takeOver takes the connection from net/http: to write bytes that are no HTTP,
// and to break it.
func (a *answerSpec) takeOver(x *Exchange) {
	conn, buffer, err := http.NewResponseController(x.W).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has no connection to take
	}
	x.server.keep(conn)
	defer x.server.drop(conn)
	if a.Raw != nil && a.Status != 0 {
		_, _ = fmt.Fprintf(buffer, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	}
	_ = buffer.Flush()
	if a.Raw != nil {
		_ = a.Raw.stream(x.expand, conn, func(d time.Duration) bool {
			time.Sleep(d) // a client that left is seen by the next write
			return true
		})
	}
	by := "close"
	switch {
	case a.Cut != nil:
		by = a.Cut.By
	case a.KeepOpen:
		by = "open"
	}
	switch by {
	case "reset": // what was not sent is thrown away, and the peer sees RST
		below := conn
		if secure, ok := conn.(*tls.Conn); ok {
			below = secure.NetConn()
		}
		if tcp, ok := below.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	case "half-close":
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, conn)
	case "open":
		_, _ = io.Copy(io.Discard, conn)
	}
}
