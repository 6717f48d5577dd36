package db

import "sync"

// bell wakes all who wait for it. The zero value is ready.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed when the bell rings the next time.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
