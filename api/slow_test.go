package api

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// A caller that sends its request a byte at a time, or none of it, is left when its
// time is over, and one with endless headers at once (threats B19). The times are those
// of the product, divided.
func TestCallersThatAreSlowAreLeft(t *testing.T) {
	t.Parallel()
	const faster = 50
	h := open(t)
	server := newServer(h.api)
	server.ReadHeaderTimeout /= faster
	server.ReadTimeout /= faster
	server.IdleTimeout /= faster
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	const line = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	post := "POST " + doRegister + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + admin(alpha) + "\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
	for name, c := range map[string]struct {
		once, drip string
		limit      time.Duration
		status     string
	}{
		"says nothing":                 {"", "", server.ReadHeaderTimeout, ""},
		"drips its headers":            {line, "x", server.ReadHeaderTimeout, ""},
		"sends headers without an end": {line + "X: " + strings.Repeat("x", 2*maxHeader), "", time.Second, "431 "},
		"drips its body":               {post, " ", server.ReadTimeout, ""},
		"stays after its answer":       {line + "\r\n", "", server.IdleTimeout, "200 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			begin, done := time.Now(), make(chan struct{})
			defer close(done)
			go func() {
				for text := c.once; ; text = c.drip {
					if _, err := io.WriteString(conn, text); err != nil {
						return
					}
					select {
					case <-time.After(10 * time.Millisecond):
					case <-done:
						return
					}
				}
			}()
			// It is not let hang: a minute is for machines that have much else to do.
			if err := conn.SetReadDeadline(begin.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it is still there after %s, and its time is %s", time.Since(begin), c.limit)
			}
			if !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.status) && c.status != "" {
				t.Errorf("%.100q", answer)
			}
			if c.drip != "" && time.Since(begin) < c.limit/2 {
				t.Errorf("it is left after %s of %s: %.200q", time.Since(begin), c.limit, answer)
			}
		})
	}
}
