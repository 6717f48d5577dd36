package e2e

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"countersign/mcptest"
)

// peer is an MCP server of five tools that opens and closes its port.
type peer struct {
	address string
	script  mcptest.Script
	server  *mcptest.Server // once started
	http    *http.Server    // nil while closed
}

// newPeer chooses a port, and does not listen yet.
func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{address: address(t)}
	p.script.List("tools/list", mcptest.Items(mcptest.Tools(5)...))
	t.Cleanup(p.stop)
	return p
}

func (p *peer) url() string { return "http://" + p.address + "/mcp" }
func (p *peer) open() bool  { return p.http != nil }

func (p *peer) start() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return err
	}
	if p.server == nil {
		p.server = mcptest.Handler(p.script)
	}
	p.http = &http.Server{Handler: p.server, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.http.Serve(listener) }() // until it is closed
	return nil
}

// stop closes the port and every connection.
func (p *peer) stop() {
	if p.http != nil {
		_ = p.http.Close() // nothing is lost
	}
	p.http = nil
}
