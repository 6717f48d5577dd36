package mcpclient_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/mcpclient"
	"countersign/registry"
)

// oldServer speaks HTTP+SSE, as servers of 2024-11-05 do: /sse gives the stream,
// /messages takes what belongs to it.
type oldServer struct {
	*httptest.Server
	refuses  int                         // status of a POST to /sse; 405 when 0
	endpoint string                      // what the stream names; "/messages?session=1" when empty
	silent   bool                        // the stream names no endpoint
	post     http.HandlerFunc            // instead of the honest answer to a POST
	answers  map[string]func(int) string // raw messages by method and id, instead of the honest ones

	out     chan string
	streams atomic.Int64 // that are open
	open    atomic.Int64 // connections

	mu       sync.Mutex
	requests []string // HTTP method, path and JSON-RPC method
}

func newOldServer(t *testing.T, s *oldServer) *oldServer {
	t.Helper()
	s.out = make(chan string, 100)
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &call)
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+call.Method))
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		s.stream(w, r)
	case r.URL.Path == "/messages" && r.Method == http.MethodPost && s.post != nil:
		s.post(w, r)
	case r.URL.Path == "/messages" && r.Method == http.MethodPost:
		if s.answers[call.Method] != nil {
			var id int
			_ = json.Unmarshal(call.ID, &id)
			s.out <- s.answers[call.Method](id)
		} else if result := oldResults[call.Method]; result != "" {
			s.out <- fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", call.ID, result)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "Accepted")
	case s.refuses != 0:
		w.WriteHeader(s.refuses)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

var oldResults = map[string]string{
	"initialize": `{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"old","version":"1"}}`,
	"tools/list": `{"tools":[{"name":"a","big":9007199254740993}]}`, "prompts/list": `{"prompts":[]}`,
}

func (s *oldServer) stream(w http.ResponseWriter, r *http.Request) {
	s.streams.Add(1)
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	endpoint := "/messages?session=1"
	if s.endpoint != "" {
		endpoint = s.endpoint
	}
	_, _ = io.WriteString(w, ": hello\n\nevent: ping\ndata: {}\n\n")
	if !s.silent {
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case text := <-s.out:
			if text == "" {
				return
			}
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *oldServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// gone waits until no stream and no connection is left.
func (s *oldServer) gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s.streams.Load() == 0 && s.open.Load() == 0 {
			return
		}
	}
	t.Errorf("%d streams and %d connections stay open", s.streams.Load(), s.open.Load())
}

// TestAServerOfHTTPAndSSEIsDiscovered: after both handshakes of streamable HTTP
// when nothing is known, at once when it is.
func TestAServerOfHTTPAndSSEIsDiscovered(t *testing.T) {
	t.Parallel()
	there := []string{"GET /sse", "POST /messages initialize", "POST /messages notifications/initialized", "POST /messages tools/list", "POST /messages prompts/list"}
	first := []string{"POST /sse server/discover", "POST /sse initialize"}
	for _, tt := range []struct {
		name    string
		known   string
		refuses int
		want    []string
	}{
		{"nothing is known", "", 0, append(first, there...)},
		{"404", "", 404, append(first, there...)},
		{"400", "", 400, append(first, there...)},
		{"it was a newer one", mcpclient.EraLegacy, 0, append([]string{"POST /sse initialize", "POST /sse server/discover"}, there...)},
		{"it was the same", mcpclient.EraSSE, 0, there},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newOldServer(t, &oldServer{refuses: tt.refuses})
			surface, report, err := client(nil).Discover(t.Context(), target(s.URL+"/sse"), tt.known, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(registry.Surface{
				ProtocolVersion: "2024-11-05", Name: "old", Version: "1", Kinds: []string{"prompts", "tools"},
				Tools: [][]byte{[]byte(`{"name":"a","big":9007199254740993}`)},
			}, surface); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]any{mcpclient.EraSSE, "2024-11-05", tt.want}, []any{report.Era, report.ProtocolVersion, s.seen()}); diff != "" {
				t.Error(diff)
			}
			for _, step := range report.Steps {
				if step.OK && step.Detail == "" {
					t.Errorf("step %s says nothing", step.Name)
				}
			}
			s.gone(t)
		})
	}
}

func TestAServerThatLeftHTTPAndSSEIsFound(t *testing.T) {
	t.Parallel()
	newer := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return mcp.NewServer(&mcp.Implementation{Name: "newer", Version: "1"}, nil)
	}, nil))
	t.Cleanup(newer.Close)
	_, report, err := client(nil).Discover(t.Context(), target(newer.URL), mcpclient.EraSSE, nil)
	if err != nil || report.Era != mcpclient.EraLegacy {
		t.Errorf("%v: %+v", err, report)
	}
}

// TestAnSDKsHTTPAndSSEIsSpoken, with pages larger than one response may be.
func TestAnSDKsHTTPAndSSEIsSpoken(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{PageSize: 5})
	for i := range 40 {
		server.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool_%02d", i), Description: strings.Repeat("x", 10_000), InputSchema: map[string]any{"type": "object"}}, nil)
	}
	s := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(s.Close)
	c := client(func(l *registry.Limits) { l.PageBytes = 100_000 })
	for _, era := range []string{"", mcpclient.EraSSE} {
		result, err := c.Probe(t.Context(), target(s.URL), era)
		if err != nil || len(result.Tools) != 40 || result.Era != mcpclient.EraSSE {
			t.Errorf("%v: %d tools, %+v", err, len(result.Tools), result.Steps)
		}
	}
}

// TestMessagesGoToTheServersOriginOnly: another origin gets no header, no body
// and no connection.
func TestMessagesGoToTheServersOriginOnly(t *testing.T) {
	t.Parallel()
	var touched atomic.Int64
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			touched.Add(1)
			_ = conn.Close()
		}
	}()
	elsewhere := other.Addr().String()
	_, port, _ := net.SplitHostPort(elsewhere)
	for _, endpoint := range []string{
		"http://" + elsewhere + "/messages", "//" + elsewhere + "/messages", "http://localhost:" + port + "/", "https://$HOST/messages", "http://user:pw@$HOST/messages",
		"http://169.254.169.254/latest", "file:///etc/passwd", "http://[::1%25eth0]/\x01", "/" + strings.Repeat("x", 5000), "\\\\" + elsewhere,
	} {
		s := newOldServer(t, &oldServer{})
		s.endpoint = strings.ReplaceAll(endpoint, "$HOST", strings.TrimPrefix(s.URL, "http://"))
		_, report, err := client(nil).Discover(t.Context(), target(s.URL+"/sse"), "", nil)
		e, ok := registry.AsError(err)
		if strings.HasPrefix(endpoint, "\\\\") {
			// To a URL that is a path of the same server.
			if !ok {
				t.Errorf("%s: %v", endpoint, err)
			}
		} else if !ok || e.Reason != registry.ReasonProtocolError || e.Fact("phase") != "handshake" {
			t.Errorf("%s: %v", endpoint, err)
		}
		if strings.Contains(endpoint, elsewhere) && endpoint[0] != '\\' && e.Fact("endpoint_origin") != "http://"+elsewhere {
			t.Errorf("%s: %v", endpoint, e.Facts)
		}
		if strings.Contains(fmt.Sprint(e, e.Facts, report), "user:pw") {
			t.Errorf("a password is repeated: %v", e.Facts)
		}
		checkPrintable(t, e)
		for _, request := range s.seen() {
			if strings.HasPrefix(request, "POST /messages") {
				t.Errorf("%s: %s", endpoint, request)
			}
		}
		s.gone(t)
	}
	if n := touched.Load(); n > 0 {
		t.Errorf("%d connections to another origin", n)
	}
}

// TestHTTPAndSSEFailsWithAReason, within its time and leaving nothing.
func TestHTTPAndSSEFailsWithAReason(t *testing.T) {
	t.Parallel()
	never := func(int) string { return ": nothing\n\n" }
	for _, tt := range []struct {
		name  string
		peer  *oldServer
		want  registry.Reason
		cause string // of a failed list
		waits bool
	}{
		{"no endpoint is named", &oldServer{silent: true}, registry.ReasonNotMCP, "", true},
		{"the handshake is not answered", &oldServer{answers: map[string]func(int) string{"initialize": never}}, registry.ReasonTimeout, "", true},
		{"the answer has another id", &oldServer{answers: map[string]func(int) string{
			"initialize": func(id int) string {
				return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}\n\n", id+1)
			},
		}}, registry.ReasonProtocolError, "", true},
		{"the answer is garbage", &oldServer{answers: map[string]func(int) string{"initialize": func(int) string { return "data: {garbage\n\n" }}}, registry.ReasonProtocolError, "", false},
		{"the stream ends", &oldServer{answers: map[string]func(int) string{"initialize": func(int) string { return "" }}}, registry.ReasonUnreachable, "", false},
		{"an unknown version", &oldServer{answers: map[string]func(int) string{
			"initialize": func(id int) string {
				return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"protocolVersion\":\"2031-01-01\",\"capabilities\":{}}}\n\n", id)
			},
		}}, registry.ReasonUnsupportedVersion, "", false},
		{"messages are refused", &oldServer{post: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }}, registry.ReasonProtocolError, "", false},
		{"messages want credentials", &oldServer{post: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }}, registry.ReasonAuthRequired, "", false},
		{"messages are redirected", &oldServer{post: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusTemporaryRedirect)
		}}, registry.ReasonRedirected, "", false},
		{"messages are taken for ever", &oldServer{post: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, registry.ReasonTimeout, "", true},
		{"the stream ends in a list", &oldServer{answers: map[string]func(int) string{"tools/list": func(int) string { return "" }}}, registry.ReasonListFailed, "unreachable", false},
		{"a list is not answered", &oldServer{answers: map[string]func(int) string{"tools/list": never}}, registry.ReasonListFailed, "timeout", true},
		{"a list is malformed", &oldServer{answers: map[string]func(int) string{
			"tools/list": func(id int) string {
				return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"tools\":null}}\n\n", id)
			},
		}}, registry.ReasonMalformedList, "", false},
		{"a page is too large", &oldServer{answers: map[string]func(int) string{
			"tools/list": func(int) string { return "data: " + strings.Repeat("x", 2<<20) + "\n\n" },
		}}, registry.ReasonTooLarge, "", false},
		{"a page in many lines is too large", &oldServer{answers: map[string]func(int) string{
			"tools/list": func(int) string { return strings.Repeat("data: xxxxxxxxxxxxxxxxxxx\n", 1<<16) + "\n" },
		}}, registry.ReasonTooLarge, "", false},
		{"all together is too large", &oldServer{answers: map[string]func(int) string{
			"tools/list": func(int) string { return strings.Repeat(": comment\n\n", 1<<19) },
		}}, registry.ReasonTooLarge, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newOldServer(t, tt.peer)
			c := client(func(l *registry.Limits) {
				l.PageBytes, l.TotalBytes = 1<<20, 4<<20
				if tt.waits {
					l.Connect, l.Lists = 2*time.Second, 2*time.Second
				}
			})
			began := time.Now()
			_, _, err := c.Discover(t.Context(), target(s.URL+"/sse"), "", nil)
			checkTime(t, began, tt.waits, time.Second)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != tt.want || e.Fact("cause") != tt.cause {
				t.Fatalf("%v: %v", err, e.Facts)
			}
			checkPrintable(t, e)
			t.Log(e.Message)
			s.gone(t)
		})
	}
}

// TestRequestsOfAServerAreAnswered: a ping in the middle of a handshake must not
// hang either side.
func TestRequestsOfAServerAreAnswered(t *testing.T) {
	t.Parallel()
	var replies sync.Map
	s := &oldServer{}
	s.post = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }
	newOldServer(t, s)
	// The body was read by the peer, so this one reads it first.
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/messages" {
			line, _ := bufio.NewReader(r.Body).ReadString('\n')
			switch {
			case strings.Contains(line, `"initialize"`):
				s.out <- "data: {\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"method\":\"ping\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n"
			case strings.Contains(line, `"p1"`):
				replies.Store("ping", line)
			case strings.Contains(line, `"id":7`):
				replies.Store("roots", line)
				s.out <- "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + oldResults["initialize"] + "}\n\n"
			case strings.Contains(line, `"tools/list"`):
				s.out <- "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":" + oldResults["tools/list"] + "}\n\n"
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		s.ServeHTTP(w, r)
	})
	if _, err := client(nil).Probe(t.Context(), target(s.URL+"/sse"), mcpclient.EraSSE); err != nil {
		t.Fatal(err)
	}
	ping, _ := replies.Load("ping")
	roots, _ := replies.Load("roots")
	if ping != `{"id":"p1","jsonrpc":"2.0","result":{}}` || !strings.Contains(fmt.Sprint(roots), "-32601") {
		t.Errorf("%v, %v", ping, roots)
	}
}
