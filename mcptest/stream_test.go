package mcptest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/mcptest"
)

// guarded is a response that notices who uses it after its handler returned.
type guarded struct {
	*httptest.ResponseRecorder
	opened   chan struct{}
	returned atomic.Bool
	late     atomic.Int32
}

func (g *guarded) Write(p []byte) (int, error) {
	g.note()
	return g.ResponseRecorder.Write(p)
}

func (g *guarded) Flush() {
	if g.note() {
		return
	}
	g.ResponseRecorder.Flush()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *guarded) note() bool {
	late := g.returned.Load()
	if late {
		g.late.Add(1)
	}
	return late
}

// TestNothingIsWrittenToAStreamThatEnded while the answer to a POST was still
// being made: net/http forbids it.
func TestNothingIsWrittenToAStreamThatEnded(t *testing.T) {
	t.Parallel()
	life, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s := mcptest.Handler(mcptest.Script{
		Era: mcptest.Legacy, Endpoint: "/messages?session=$SESSION",
		Faults: map[string]mcptest.Fault{"tools/list": func(x *mcptest.Exchange) bool {
			end()
			<-ended
			x.Reply(`{"tools":[]}`)
			return true
		}},
	})
	stream := &guarded{ResponseRecorder: httptest.NewRecorder(), opened: make(chan struct{})}
	go func() {
		s.ServeHTTP(stream, httptest.NewRequestWithContext(life, http.MethodGet, "/sse", nil))
		stream.returned.Store(true)
		close(ended)
	}()
	<-stream.opened
	address := regexp.MustCompile(`data: (\S+)`).FindStringSubmatch(stream.Body.String())[1]
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, address,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)))
	if answer.Code != http.StatusAccepted || stream.late.Load() != 0 {
		t.Errorf("the POST was answered with %d, and %d writes came to the stream after its end", answer.Code, stream.late.Load())
	}
}
