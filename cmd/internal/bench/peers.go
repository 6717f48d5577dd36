package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign/mcptest"
)

func init() { parts["peers"] = peers } //nolint:gochecknoinits // a part is known by its file

// peers is the fault server: at /TOOLS/NAME is an MCP server with so many tools;
// one whose name begins with "dead" answers 503, one with "hang" never.
func peers([]string) error {
	p := &peerage{kinds: map[int]*kind{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = answerLines("http://"+listener.Addr().String(), nil)
	return errors.Join(err, server.Close(), clean(<-ended))
}

func clean(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

type peerage struct {
	mu    sync.Mutex
	kinds map[int]*kind
}

// kind is all servers with so many tools. The peer remembers every call, so
// there is another one from time to time.
type kind struct {
	script mcptest.Script
	peer   atomic.Pointer[mcptest.Server]
	calls  atomic.Int64
}

const callsOfOne = 2000

func (p *peerage) of(tools int) *kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kinds[tools]
	if k == nil {
		k = &kind{}
		k.script.List("tools/list", mcptest.Items(items(tools)...))
		k.peer.Store(mcptest.Handler(k.script))
		p.kinds[tools] = k
	}
	return k
}

// items are tools as offer has them.
func items(tools int) []string {
	out := make([]string, tools)
	for i, raw := range offer(tools).Tools {
		out[i] = string(raw)
	}
	return out
}

// ServeHTTP implements http.Handler.
func (p *peerage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, name, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	tools, err := strconv.Atoi(number)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	switch {
	case strings.HasPrefix(name, "dead"):
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	case strings.HasPrefix(name, "hang"):
		<-r.Context().Done()
		return
	}
	k := p.of(tools)
	if k.calls.Add(1)%callsOfOne == 0 {
		k.peer.Store(mcptest.Handler(k.script))
	}
	r.URL.Path = "/mcp"
	k.peer.Load().ServeHTTP(w, r)
}

// peerURL is where a server is.
func peerURL(at string, tools int, name string) string {
	return fmt.Sprintf("%s/%d/%s", at, tools, name)
}
