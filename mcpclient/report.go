package mcpclient

import (
	"fmt"
	"sync"
	"time"

	"countersign/registry"
)

// Report tells how a meeting went, step by step, for a connection test and for
// people. It is complete up to the step that failed.
type Report struct {
	Era             string        // to be remembered for the next call; "" when no handshake came about
	ProtocolVersion string        // settled on; "" when no handshake came about
	Duration        time.Duration // without the goodbye
	Steps           []Step
}

// Step is one step: "without credentials" (asking a server that claims an
// authentication without any), "authorize" (the making of credentials), "connect" (name
// look-up, connection and TLS), "start" (of a process), "sse" (the event stream of HTTP+SSE), "server/discover" or
// "initialize", or one page of a list by its method. A first handshake of the
// wrong era is a failed step of a good report.
type Step struct {
	Name     string
	OK       bool
	Page     int   // of a list, from 1; else 0
	Items    int   // on this page
	Bytes    int64 // of this page, decompressed
	Duration time.Duration
	Reason   registry.Reason // of a failed step
	Detail   string          // for people: where, how much, or what went wrong
}

// diary collects the steps. The SDK works in goroutines of its own, so it locks.
type diary struct {
	progress func(string)
	mask     func(string) string // of what steps tell
	began    time.Time

	mu   sync.Mutex
	book Report
}

func newDiary(progress func(string)) *diary {
	if progress == nil {
		progress = func(string) {}
	}
	return &diary{progress: progress, mask: func(text string) string { return text }, began: time.Now()}
}

// step notes the beginning of a step; what it returns notes the end.
func (d *diary) step(name string, page int) (done func(items int, bytes int64, fault *registry.Error)) {
	label := name
	if page > 1 {
		label = fmt.Sprintf("%s page %d", name, page)
	}
	d.progress(label)
	began := time.Now()
	return func(items int, bytes int64, fault *registry.Error) {
		s := Step{Name: name, OK: fault == nil, Page: page, Items: items, Bytes: bytes, Duration: time.Since(began)}
		switch {
		case fault != nil:
			s.Reason, s.Detail = fault.Reason, fault.Message
		case page > 0:
			s.Detail = fmt.Sprintf("page %d: %d items, %d bytes", page, items, bytes)
		}
		d.add(s)
	}
}

// connected notes the first connection; later ones are no news.
func (d *diary) connected(address string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.book.Steps {
		if s.Name == "connect" {
			return
		}
	}
	d.book.Steps = append(d.book.Steps, Step{Name: "connect", OK: true, Duration: took, Detail: address})
}

func (d *diary) add(s Step) {
	s.Detail = d.mask(s.Detail)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.Steps = append(d.book.Steps, s)
}

// met notes the protocol that both sides settled on.
func (d *diary) met(version, era string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.ProtocolVersion, d.book.Era = version, era
	for i := range d.book.Steps {
		if s := &d.book.Steps[i]; s.OK && (s.Name == methodDiscover || s.Name == methodInitialize) {
			s.Detail = "protocol " + version
		}
	}
}

// end stops the clock, once.
func (d *diary) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.book.Duration == 0 {
		d.book.Duration = time.Since(d.began)
	}
}

func (d *diary) report() Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book
}
