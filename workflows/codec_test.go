package workflows_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"countersign/registry"
	"countersign/workflows"
)

func key(id string, b byte) workflows.CodecKey {
	return workflows.CodecKey{ID: id, Secret: bytes.Repeat([]byte{b}, 32)}
}

func codec(t *testing.T, keys ...workflows.CodecKey) *workflows.Codec {
	t.Helper()
	c, err := workflows.NewCodec(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheFirstKeyEncryptsAndAllDecrypt(t *testing.T) {
	t.Parallel()
	one, two := key("one", 1), key("two", 2)
	old, rotated := codec(t, one).DataConverter(), codec(t, two, one).DataConverter()
	for name, c := range map[string]struct {
		writes, reads converter.DataConverter
		keyID         string
	}{
		"the same":             {old, old, "one"},
		"written before":       {old, rotated, "one"},
		"written after":        {rotated, rotated, "two"},
		"never encrypted":      {converter.GetDefaultDataConverter(), rotated, ""},
		"never, and no keys":   {converter.GetDefaultDataConverter(), codec(t).DataConverter(), ""},
		"written without keys": {codec(t).DataConverter(), rotated, ""},
	} {
		p, err := c.writes.ToPayload("a text")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(p.GetMetadata()["encryption-key-id"]); got != c.keyID {
			t.Errorf("%s: encrypted with %q", name, got)
		}
		var got string
		if err := c.reads.FromPayload(p, &got); err != nil || got != "a text" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestWhatIsEncryptedShowsNothingAndIsNeverTheSame(t *testing.T) {
	t.Parallel()
	c := codec(t, key("one", 1)).DataConverter()
	a, err := c.ToPayloads("a text", "a text")
	if err != nil {
		t.Fatal(err)
	}
	first, second := a.GetPayloads()[0], a.GetPayloads()[1]
	if bytes.Equal(first.GetData(), second.GetData()) || bytes.Contains(first.GetData(), []byte("text")) || len(first.GetMetadata()) != 2 {
		t.Errorf("%v", first)
	}
}

// read reads as a call does, and shows that whoever is no call panics instead.
func read(t *testing.T, c *workflows.Codec, p *commonpb.Payload, into any) (err error) {
	t.Helper()
	aware, ok := c.DataConverter().(workflow.ContextAware)
	if !ok {
		t.Fatal("the converter does not know where it is")
	}
	answered := aware.WithContext(t.Context()).FromPayload(p, into)
	for _, blocking := range []converter.DataConverter{c.DataConverter(), aware.WithWorkflowContext(nil)} {
		func() {
			defer workflows.Unreadable(&err)
			_ = blocking.FromPayload(p, into)
			t.Error("it did not panic")
		}()
		if err == nil || err.Error() != answered.Error() {
			t.Errorf("%v, %v", err, answered)
		}
	}
	return answered
}

func TestAMissingOrOtherKeyIsNamed(t *testing.T) {
	t.Parallel()
	p, err := codec(t, key("one", 1)).DataConverter().ToPayload("a text")
	if err != nil {
		t.Fatal(err)
	}
	changed := &commonpb.Payload{Metadata: p.GetMetadata(), Data: bytes.Clone(p.GetData())}
	changed.GetData()[len(changed.GetData())-1] ^= 1
	cut := &commonpb.Payload{Metadata: p.GetMetadata(), Data: p.GetData()[:5]}
	renamed := &commonpb.Payload{Metadata: map[string][]byte{"encoding": p.GetMetadata()["encoding"], "encryption-key-id": []byte("two")}, Data: p.GetData()}
	for name, c := range map[string]struct {
		reads   *workflows.Codec
		payload *commonpb.Payload
		key     string
	}{
		"no keys":                 {codec(t), p, "one"},
		"another key":             {codec(t, key("two", 2)), p, "one"},
		"another key of its name": {codec(t, key("one", 2)), p, "one"},
		"changed":                 {codec(t, key("one", 1)), changed, "one"},
		"cut":                     {codec(t, key("one", 1)), cut, "one"},
		"under another name":      {codec(t, key("two", 1), key("one", 1)), renamed, "two"},
	} {
		var got string
		err := read(t, c.reads, c.payload, &got)
		if e, ok := registry.AsError(err); !ok || e.Reason != registry.ReasonWorkflowKeyUnknown || e.Fact("key_id") != c.key {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestFailuresAreEncryptedAndReadBack(t *testing.T) {
	t.Parallel()
	c := codec(t, key("one", 1)).FailureConverter()
	cause := registry.Errorf(registry.ReasonServerExists, "there is a server named marker").With("name", "marker")
	failure := c.ErrorToFailure(cause)
	if text := failure.String(); strings.Contains(text, "marker") || !strings.Contains(text, string(registry.ReasonServerExists)) {
		t.Errorf("%s", text)
	}
	back, ok := registry.AsError(workflows.ErrorOf(c.FailureToError(failure)))
	if !ok || back.Message != cause.Message || back.Fact("name") != "marker" {
		t.Errorf("%+v", back)
	}
	// Who has no key learns that, not that it is an unknown failure.
	err := workflows.ErrorOf(workflows.FailureConverter().FailureToError(failure))
	if registry.ReasonOf(err) != registry.ReasonWorkflowKeyUnknown {
		t.Errorf("%v", err)
	}
	// What was never encrypted is read.
	plain := workflows.FailureConverter().ErrorToFailure(cause)
	if back, ok := registry.AsError(workflows.ErrorOf(c.FailureToError(plain))); !ok || back.Message != cause.Message {
		t.Errorf("%+v", back)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]workflows.CodecKey{
		"no id":     {key("", 1)},
		"an id two": {key("one", 1), key("one", 2)},
		"too short": {{ID: "one", Secret: []byte("short-secret")}},
	} {
		if _, err := workflows.NewCodec(keys...); err == nil || strings.Contains(err.Error(), "short-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAKeyShowsItsIDOnly(t *testing.T) {
	t.Parallel()
	k := workflows.CodecKey{ID: "one", Secret: []byte("sixteen times two bytes, a secret")}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "key", slog.Any("key", k), slog.Any("all", []workflows.CodecKey{k}))
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %x %s", k, k, k, []workflows.CodecKey{k}), string(text), log.String()} {
		if strings.Contains(shown, "secret") || strings.Contains(shown, "7365637265") || strings.Contains(shown, "115 101 99") || !strings.Contains(shown, "one") {
			t.Errorf("shown as %s", shown)
		}
	}
}

func TestTheHandlerDecodesWhatTheUIAsks(t *testing.T) {
	t.Parallel()
	c := codec(t, key("one", 1))
	server := httptest.NewServer(c.Handler())
	defer server.Close()
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: server.URL, Client: http.Client{}})
	viaHTTP := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), remote)
	p, err := c.DataConverter().ToPayload("a text")
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := viaHTTP.FromPayload(p, &got); err != nil || got != "a text" {
		t.Errorf("%q %v", got, err)
	}
	if p, err = viaHTTP.ToPayload("another"); err != nil {
		t.Fatal(err)
	}
	if err := c.DataConverter().FromPayload(p, &got); err != nil || got != "another" {
		t.Errorf("%q %v", got, err)
	}
	if workflows.FailureConverter() == nil || codec(t).Handler() != nil {
		t.Error("without keys there is nothing to serve")
	}
}
