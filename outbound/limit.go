package outbound

import (
	"io"
	"strconv"
	"sync/atomic"

	"countersign/registry"
)

// budget is what all responses of one client may still bring.
type budget struct {
	limit int64
	spent atomic.Int64
}

// limited is a response body that ends with an error when the server sends
// more than it may. It stands outside Go's transparent gunzip, so it counts
// what is kept, not what travels.
type limited struct {
	io.ReadCloser
	limit   int64
	read    int64
	total   *budget
	explain func(error) error
	failed  error
}

func (l *limited) Read(p []byte) (int, error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if room := l.limit - l.read + 1; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := l.ReadCloser.Read(p)
	l.read += int64(n)
	switch {
	case l.read > l.limit:
		l.failed = tooLarge("an answer", l.limit, "response")
	case l.total.spent.Add(int64(n)) > l.total.limit:
		l.failed = tooLarge("all answers together", l.total.limit, "total")
	case err == nil || err == io.EOF:
		return n, err
	default:
		l.failed = l.explain(err)
	}
	return 0, l.failed
}

func tooLarge(what string, limit int64, scope string) *registry.Error {
	return registry.Errorf(registry.ReasonTooLarge, "the server sends more than %d bytes in %s", limit, what).
		With("limit_bytes", strconv.FormatInt(limit, 10)).With("scope", scope)
}
