package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzEnvelope: our parser never panics, agrees with encoding/json on what an
// array holds, and gives out bytes of the input only.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `[1,"a",{"b":[]}]`, ` [ { "name" : "\ud800" } , 1e999 ] `, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}],"nextCursor":""}}`,
		`{"a":1,"a":2}`, `[1,]`, `[1]x`, "\ufeff[]", `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, strings.Repeat("[", 20000), "[\"\xff\"]", `{"ſ":1,"s":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = parseMessage(raw)
		_, _ = members(raw, "tools", "nextCursor", "s")
		_ = hasName(raw, "name")
		got, err := elements(raw)
		var want []json.RawMessage
		if json.Unmarshal(raw, &want) != nil || len(bytes.TrimSpace(raw)) == 0 || bytes.TrimSpace(raw)[0] != '[' {
			if err == nil {
				t.Fatalf("%q was read as %q", raw, got)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q has %d elements, not %d", raw, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("element %d is %q, not %q", i, got[i], want[i])
			}
		}
	})
}

// FuzzEvents: however a stream is cut into reads, its events are the same, and
// no line end is part of them but for those between data lines.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"", "data: a\n\n", "data: a\r\rdata: b\r\n\r\n", "event: ping\ndata: x\n\ndata: y", ": c\n\n\n\n", "data\n\n", "\ufeffdata: a\n\n", "id: 1\n\ndata: a\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, one, half := drain(t, bytes.NewReader(stream)), drain(t, iotest.OneByteReader(bytes.NewReader(stream))), drain(t, iotest.HalfReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(whole, one); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(whole, half); diff != "" {
			t.Error(diff)
		}
		for _, event := range whole {
			if event == "" || strings.Contains(event, "\r") {
				t.Errorf("%q", event)
			}
		}
	})
}

func drain(t *testing.T, r io.Reader) []string {
	t.Helper()
	e := newEvents(r)
	var out []string
	for {
		data, err := e.next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
}

// TestEventsDoNotWaitForMore: a stream that stays open behind an event does not
// hold it back, whatever its line ends.
func TestEventsDoNotWaitForMore(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r\n", "data: a\r\n\r"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, stream) }()
		data, err := newEvents(r).next()
		if string(data) != "a" || err != nil {
			t.Errorf("%q: %q, %v", stream, data, err)
		}
		_ = r.Close()
	}
}

func TestAReadFaultEndsTheEvents(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	if _, err := newEvents(io.MultiReader(strings.NewReader("data: a\n"), iotest.ErrReader(boom))).next(); !errors.Is(err, boom) {
		t.Error(err)
	}
}
