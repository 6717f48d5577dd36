package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// expected begins the reports that say of a server like this one what is so on purpose, or what its caller is told
// anyway: requests that its limits or a closing workflow refuse.
var expected = []string{
	"HTTP API port has not been set",
	"service failures",
}

// logger is Temporal's logger in front of ours. It drops everything below warn before a tag is looked at.
type logger struct {
	out      *slog.Logger
	silent   atomic.Bool
	firstEnd atomic.Pointer[string] // the first Fatal message
}

var _ log.Logger = (*logger)(nil)

func newLogger(out *slog.Logger) *logger {
	return &logger{out: out.With(slog.String("component", "temporal"))}
}

// silence drops whatever is logged after it.
func (l *logger) silence() { l.silent.Store(true) }

// fatal returns the first report that Temporal called fatal, or nil.
func (l *logger) fatal() error {
	if msg := l.firstEnd.Load(); msg != nil {
		return errors.New(*msg)
	}
	return nil
}

func (l *logger) Debug(string, ...tag.Tag) {}

func (l *logger) Info(string, ...tag.Tag) {}

func (l *logger) Warn(msg string, tags ...tag.Tag) { l.log(slog.LevelWarn, msg, tags) }

func (l *logger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

func (l *logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic panics, as its callers expect: they recover and answer with an error.
func (l *logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal ends the calling goroutine. Its callers expect that it does not return, and a library must not end the
// process; what they guard against is a taken port or an unreadable database at the start, which Start returns.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	full := msg
	for _, t := range tags {
		if t.Key() == "error" {
			full += fmt.Sprintf(": %v", t.Value())
		}
	}
	l.firstEnd.CompareAndSwap(nil, &full)
	runtime.Goexit()
}

func (l *logger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if l.silent.Load() || !l.out.Enabled(ctx, level) {
		return
	}
	if slices.ContainsFunc(expected, func(prefix string) bool { return strings.HasPrefix(msg, prefix) }) {
		return
	}
	attrs := make([]slog.Attr, 0, len(tags))
	for _, t := range tags {
		attrs = append(attrs, slog.Any(t.Key(), t.Value()))
	}
	l.out.LogAttrs(ctx, level, msg, attrs...)
}
