package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func init() { parts["sdk"] = sdk } //nolint:gochecknoinits // a part is known by its file

// tour is a number of meetings, each a while after the one before.
type tour struct {
	Fleet fleet         `json:"fleet"`
	Pace  time.Duration `json:"pace"`
}

// sdk does the handshakes and lists of a sweep by the SDK alone: no record, no
// comparison, nothing remembered.
func sdk([]string) error {
	return answerLines("ready", map[string]func(string) (any, error){
		"go": func(arg string) (any, error) {
			return answer(arg, func(t tour) (any, error) {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				return nil, t.run(ctx)
			})
		},
	})
}

func (t tour) run(ctx context.Context) error {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		faults []error
	)
	begin := time.Now()
	for n := range t.Fleet.Servers {
		time.Sleep(time.Until(begin.Add(time.Duration(n) * t.Pace)))
		wait.Go(func() {
			got, err := bare(ctx, peerURL(t.Fleet.At, t.Fleet.Tools, fmt.Sprintf("good%06d", n)))
			if err == nil && got != t.Fleet.Tools {
				err = fmt.Errorf("%d tools", got)
			}
			if err != nil {
				mu.Lock()
				faults = append(faults, err)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return errors.Join(faults[:min(3, len(faults))]...)
}

// bare is one handshake and one list, over a connection of its own.
func bare(ctx context.Context, url string) (tools int, err error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bare", Version: "0"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close() }()
	for params := (&mcp.ListToolsParams{}); ; {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return 0, err
		}
		tools += len(page.Tools)
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return tools, nil
		}
	}
}
