package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestItServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	c := command(writer)
	c.SetArgs([]string{"--listen", "127.0.0.1:0"})
	go func() { ended <- c.ExecuteContext(ctx) }()
	lines := bufio.NewScanner(reader)
	for range 2 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		url := strings.Fields(lines.Text())[1]
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			t.Errorf("there is nothing at %s", url)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	t.Parallel()
	c := command(io.Discard)
	c.SetArgs([]string{"--listen", "127.0.0.1:notaport"})
	if err := c.ExecuteContext(t.Context()); err == nil {
		t.Error("it listens")
	}
}
