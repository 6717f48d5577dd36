package mcptest

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Fault is one way to misbehave. It says whether it answered; if not, the
// server goes on as if nothing had happened.
type Fault func(*Exchange) (answered bool)

// Times lets a fault meet the first n calls of its method only.
func Times(n int, fault Fault) Fault {
	return func(x *Exchange) bool { return x.Call.Nth <= n && fault(x) }
}

// After lets a fault meet only the calls of its method after the first n.
func After(n int, fault Fault) Fault {
	return func(x *Exchange) bool { return x.Call.Nth > n && fault(x) }
}

// When lets a fault meet the calls that match.
func When(match func(Call) bool, fault Fault) Fault {
	return func(x *Exchange) bool { return match(x.Call) && fault(x) }
}

// Status answers with a status, headers and a body.
func Status(status int, header http.Header, body string) Fault {
	return func(x *Exchange) bool {
		maps.Copy(x.W.Header(), header)
		x.W.WriteHeader(status)
		_, _ = io.WriteString(x.W, body)
		return true
	}
}

// Body answers 200 with a body of a content type.
func Body(contentType, body string) Fault {
	return Status(http.StatusOK, http.Header{"Content-Type": {contentType}}, body)
}

// Result answers with a raw result, framed and with the right id.
func Result(raw string) Fault {
	return func(x *Exchange) bool {
		x.Reply(raw)
		return true
	}
}

// Message answers with a whole message, framed, after "$ID" in it became the
// request's id.
func Message(message string) Fault {
	return func(x *Exchange) bool {
		x.Send(withID(message, x.Call))
		return true
	}
}

// Error answers with a JSON-RPC error; data is raw JSON or "".
func Error(status, code int, message, data string) Fault {
	return func(x *Exchange) bool {
		body := `{"jsonrpc":"2.0","id":$ID,"error":{"code":` + strconv.Itoa(code) + `,"message":` + quote(message)
		if data != "" {
			body += `,"data":` + data
		}
		x.W.Header().Set("Content-Type", "application/json")
		x.W.WriteHeader(status)
		_, _ = io.WriteString(x.W, withID(body+"}}", x.Call))
		return true
	}
}

// Delay waits before the honest answer, at most until the client goes away.
func Delay(d time.Duration) Fault {
	return func(x *Exchange) bool { return !wait(x, d) }
}

// Hang never answers.
func Hang() Fault {
	return func(x *Exchange) bool {
		<-x.R.Context().Done()
		return true
	}
}

// Drip answers with a body of a content type, one byte per interval.
func Drip(contentType, body string, interval time.Duration) Fault {
	return func(x *Exchange) bool {
		x.W.Header().Set("Content-Type", contentType)
		for i := range len(body) {
			if _, err := io.WriteString(x.W, body[i:i+1]); err != nil {
				break
			}
			x.flush()
			if !wait(x, interval) {
				break
			}
		}
		return true
	}
}

// Forever repeats a chunk of a body until the client goes away.
func Forever(contentType, chunk string) Fault {
	return func(x *Exchange) bool {
		x.W.Header().Set("Content-Type", contentType)
		for x.R.Context().Err() == nil {
			if _, err := io.WriteString(x.W, chunk); err != nil {
				break
			}
			x.flush()
		}
		return true
	}
}

// Events answers with an event stream of exactly these bytes, after "$ID" in
// them became the request's id, and keeps it open if told to.
func Events(stream string, keepOpen bool) Fault {
	return func(x *Exchange) bool {
		x.W.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(x.W, withID(stream, x.Call))
		x.flush()
		if keepOpen {
			<-x.R.Context().Done()
		}
		return true
	}
}

// Bomb answers with JSON white space that is size bytes long and travels
// compressed.
func Bomb(size int) Fault {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	spaces := bytes.Repeat([]byte(" "), 64<<10)
	for written := 0; written < size; written += len(spaces) {
		_, _ = z.Write(spaces) // a buffer takes everything
	}
	_ = z.Close()
	return Status(http.StatusOK, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, packed.String())
}

// Reset closes the connection without an answer.
func Reset() Fault {
	return func(*Exchange) bool { panic(http.ErrAbortHandler) }
}

// Redirect answers 307 to another place.
func Redirect(location string) Fault {
	return Status(http.StatusTemporaryRedirect, http.Header{"Location": {location}}, "")
}

// wait says whether the time passed before the client went away.
func wait(x *Exchange, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.R.Context().Done():
		return false
	}
}

func withID(message string, call Call) string {
	return strings.ReplaceAll(message, "$ID", call.id())
}
