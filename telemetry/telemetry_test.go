package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"countersign/registry"
	"countersign/telemetry"
)

func recorded(t *testing.T) (context.Context, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, root := provider.Tracer("test").Start(t.Context(), "root")
	t.Cleanup(func() { root.End() })
	return ctx, spans
}

func TestASpanTellsTheReasonOfAFailureAndNotItsText(t *testing.T) {
	t.Parallel()
	ctx, spans := recorded(t)
	for _, c := range []struct {
		err  error
		want string
	}{
		{registry.Errorf(registry.ReasonTimeout, "a server said hunter2"), string(registry.ReasonTimeout)},
		{errors.New("hunter2"), string(registry.ReasonInternal)},
		{nil, ""},
	} {
		before := len(spans.Ended())
		within, end := telemetry.Start(ctx, "room", "work", trace.SpanKindClient, attribute.Int("n", 1))
		telemetry.About(within, telemetry.KeyTenant.String("alpha"))
		end(c.err)
		span := spans.Ended()[before]
		if span.Status().Description != c.want || (span.Status().Code == codes.Error) != (c.err != nil) {
			t.Errorf("%v: %+v", c.err, span.Status())
		}
		got := attribute.NewSet(span.Attributes()...)
		if v, _ := got.Value(telemetry.KeyReason); v.AsString() != c.want {
			t.Errorf("%v: its reason is %q", c.err, v.AsString())
		}
		if v, _ := got.Value(telemetry.KeyTenant); v.AsString() != "alpha" || got.Len() < 2 || len(span.Events()) != 0 {
			t.Errorf("%v: %v %v", c.err, span.Attributes(), span.Events())
		}
	}
}

func TestWithoutARecorderThereIsNoSpan(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	within, end := telemetry.Start(ctx, "room", "work", trace.SpanKindClient)
	if end(nil); within != ctx || telemetry.Recording(ctx) {
		t.Error("something was begun")
	}
}

// A line has the ids of its span, and whatever a server wrote stays in its line.
func TestLinesHaveTheirTraceAndStayLines(t *testing.T) {
	t.Parallel()
	ctx, _ := recorded(t)
	id := trace.SpanContextFromContext(ctx).TraceID().String()
	const evil = "a\nlevel=ERROR msg=forged \x1b[31m\u202e\x00"
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(telemetry.WithTrace(handler(&out))).With(slog.String("tenant", "alpha"))
		log.InfoContext(ctx, evil, slog.String("server", evil), slog.Any("error", errors.New(evil)))
		text := out.String()
		if strings.Count(text, "\n") != 1 || strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\n\x1b\x00") {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(text, id) || !strings.Contains(text, "span_id") || !strings.Contains(text, "alpha") {
			t.Errorf("%s: %s", name, text)
		}
		out.Reset()
		log.WithGroup("g").InfoContext(t.Context(), "elsewhere")
		if strings.Contains(out.String(), "trace_id") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
