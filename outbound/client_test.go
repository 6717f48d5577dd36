package outbound_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/outbound"
	"countersign/registry"
)

func loopback(o outbound.Options) *outbound.Guard {
	o.AllowNetworks = append(o.AllowNetworks, netip.MustParsePrefix("127.0.0.0/8"))
	return outbound.NewGuard(o)
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// TestRedirectsAreHandedBack, and what was sent is not sent elsewhere (threats B7).
func TestRedirectsAreHandedBack(t *testing.T) {
	var reached atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(status)
		})
		client := loopback(outbound.Options{}).Client(outbound.ClientOptions{})
		t.Cleanup(client.CloseIdleConnections)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
		req.Header.Set("Authorization", "Bearer not-for-others")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status || resp.Header.Get("Location") != other.URL {
			t.Errorf("%d became %d", status, resp.StatusCode)
		}
	}
	if reached.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	proxy := newCanary(t)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+proxy.port)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:"+proxy.port)
	t.Setenv("ALL_PROXY", "http://127.0.0.1:"+proxy.port)
	guard := loopback(outbound.Options{Resolver: names{}})
	_, err := get(t, guard, "http://example.com/", outbound.ClientOptions{})
	if registry.ReasonOf(err) != registry.ReasonDNS || proxy.count.Load() != 0 {
		t.Errorf("%v, %d connections", err, proxy.count.Load())
	}
}

// TestTheDialAddressChangesOnlyWhereWeConnect (R32).
func TestTheDialAddressChangesOnlyWhereWeConnect(t *testing.T) {
	var host, name atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		name.Store(r.TLS.ServerName)
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	guard := loopback(outbound.Options{RootCAs: pool, Resolver: names{}})
	// httptest's certificate is for example.com.
	if _, err := get(t, guard, "https://example.com/mcp", outbound.ClientOptions{DialAddress: s.Listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"example.com", "example.com"}, []any{host.Load(), name.Load()}); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresHaveReasons(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	pool := x509.NewCertPool()
	pool.AddCert(untrusted.Certificate())
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	old.Config.ErrorLog = quiet
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	t.Cleanup(old.Close)
	silent := serve(t, hang)
	hungUp := rawServer(t, "")
	other := rawServer(t, "SSH-2.0-OpenSSH_9.2p1\r\n")
	headers := rawServer(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")

	for _, tt := range []struct {
		name, url string
		guard     outbound.Options
		want      registry.Reason
		facts     map[string]string
	}{
		{"nobody listens", "http://" + nobody, outbound.Options{}, registry.ReasonUnreachable, map[string]string{"phase": "connect", "address": nobody}},
		{"the name is unknown", "http://gone.example", outbound.Options{Resolver: names{}}, registry.ReasonDNS, map[string]string{"host": "gone.example"}},
		{"the name has no address", "http://void.example", outbound.Options{Resolver: names{"void.example": {{}}}}, registry.ReasonDNS, nil},
		{"the authority is unknown", untrusted.URL, outbound.Options{}, registry.ReasonTLS, map[string]string{"phase": "tls", "certificate_names": "example.com,*.example.com"}},
		{
			"the certificate is for another name", strings.Replace(untrusted.URL, "127.0.0.1", "other.example", 1),
			outbound.Options{RootCAs: pool, Resolver: names{"other.example": {{"127.0.0.1"}}}},
			registry.ReasonTLS, nil,
		},
		{"TLS is too old", old.URL, outbound.Options{}, registry.ReasonTLS, nil},
		{"no TLS is spoken", strings.Replace(plain.URL, "http:", "https:", 1), outbound.Options{}, registry.ReasonTLS, map[string]string{"phase": "tls"}},
		{"no header comes", silent.URL, outbound.Options{}, registry.ReasonTimeout, nil},
		{"the connection is closed", hungUp, outbound.Options{}, registry.ReasonUnreachable, nil},
		{"no HTTP is spoken", other, outbound.Options{}, registry.ReasonProtocolError, nil},
		{"headers are endless", headers, outbound.Options{}, registry.ReasonTooLarge, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var options outbound.ClientOptions
			if tt.want == registry.ReasonTimeout {
				options.HeaderTimeout = 200 * time.Millisecond
			}
			_, err := get(t, loopback(tt.guard), tt.url, options)
			e, ok := registry.AsError(err)
			if !ok || e.Reason != tt.want {
				t.Fatalf("%v", err)
			}
			for key, want := range tt.facts {
				if got := e.Fact(key); got != want {
					t.Errorf("%s is %q, not %q", key, got, want)
				}
			}
			t.Log(e.Message)
		})
	}
}

// hang never answers. It reads the request first, since a server that has not
// does not see its client go.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// rawServer answers every connection with some bytes and closes it.
func rawServer(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestCancellingIsNotTheServersFault(t *testing.T) {
	s := serve(t, hang)
	client := loopback(outbound.Options{}).Client(outbound.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if _, ok := registry.AsError(err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestBytesAreCounted(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 32 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	payload := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // no Content-Length
			_, _ = w.Write(bytes.Repeat([]byte("x"), n))
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    registry.Reason
		got     int
	}{
		{"exactly the limit passes", payload(1 << 20), "", 1 << 20},
		{"one byte more does not", payload(1<<20 + 1), registry.ReasonTooLarge, 0},
		{"an announced length is believed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999")
			_, _ = w.Write([]byte("x"))
		}, registry.ReasonTooLarge, 0},
		{"a gzip bomb counts what it becomes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, registry.ReasonTooLarge, 0},
		{"broken gzip is a broken protocol", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("this is not gzip"))
		}, registry.ReasonProtocolError, 0},
		{"an endless body ends", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, registry.ReasonTooLarge, 0},
		{"a body that breaks off is unreachable", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
		}, registry.ReasonUnreachable, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := get(t, loopback(outbound.Options{}), serve(t, tt.handler).URL, outbound.ClientOptions{ResponseBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			runtime.ReadMemStats(&after)
			if tt.want == "" {
				if err != nil || len(body) != tt.got {
					t.Errorf("%d bytes, %v", len(body), err)
				}
				return
			}
			if registry.ReasonOf(err) != tt.want {
				t.Errorf("%v", err)
			}
			if _, again := resp.Body.Read(make([]byte, 1)); registry.ReasonOf(again) != tt.want {
				t.Errorf("the next read says %v", again)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
}

func TestAllAnswersTogetherAreCounted(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) })
	client := loopback(outbound.Options{}).Client(outbound.ClientOptions{TotalBytes: 2500})
	t.Cleanup(client.CloseIdleConnections)
	var reasons []registry.Reason
	for range 4 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var reason registry.Reason
		if err != nil {
			reason = registry.ReasonOf(err)
		}
		reasons = append(reasons, reason)
	}
	if diff := cmp.Diff([]registry.Reason{"", "", registry.ReasonTooLarge, registry.ReasonTooLarge}, reasons); diff != "" {
		t.Error(diff)
	}
}

func TestATrickleEndsAtTheDeadline(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			w.(http.Flusher).Flush()
			<-tick.C
		}
	})
	client := loopback(outbound.Options{}).Client(outbound.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if registry.ReasonOf(err) != registry.ReasonTimeout || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestExcerptsAreSafeToPrint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{`say "hi"`, 20, `say "hi"`},
		{"\x1b[2J\x07\r\n\x00", 20, `\x1b[2J\a\r\n\x00`},
		{"a\u202eb\u200bc\U000e0041", 40, `a\u202eb\u200bc\U000e0041`},
		{"bad \xff", 20, `bad \xff`},
		{`back\slash`, 20, `back\\slash`},
		{"long enough", 4, "long…"},
		{"né", 2, "n…"},
		{"été", 3, "ét…"},
		{"", 5, ""},
	} {
		if got := outbound.Excerpt(tt.in, tt.limit); got != tt.want {
			t.Errorf("%q becomes %q, not %q", tt.in, got, tt.want)
		}
	}
}
