package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"countersign/events"
	"countersign/registry"
)

// What is published is what the code says; make generate brings it there.
func TestThePublishedDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	documents, err := events.Documents()
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../api/events"
	for name, want := range documents {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the code says; run make generate (%v)", name, err)
		}
	}
	files, err := filepath.Glob(dir + "/*")
	if err != nil || len(files) != len(documents) {
		t.Errorf("%d files, want %d: %v", len(files), len(documents), err)
	}
}

// Payloads as they are sent are what their schemas say, and others are not.
func TestPayloadsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	kinds := map[registry.EventType]registry.EventKind{}
	for _, k := range append(registry.EventKinds(), registry.InboundEventKinds()...) {
		kinds[k.Type] = k
		if s, err := events.PayloadSchema(k); err != nil || len(s.Required) == 0 {
			t.Errorf("%s: %v", k.Type, err)
		}
	}
	for _, c := range []struct {
		kind    registry.EventType
		payload any
		why     string // it does not fit; empty: it does
	}{
		{registry.EventServerRegistered, registry.ServerRegistered{Direction: "consumed", Transport: "stdio", Authentication: "none_exception"}, ""},
		{registry.EventServerRegistered, registry.ServerRegistered{Direction: "sideways", Transport: "stdio", Authentication: "none_exception"}, "direction"},
		{registry.EventServerStateChanged, registry.ServerStateChanged{FromState: "active", ToState: "gone"}, "toState"},
		{registry.EventCapabilitiesDiscovered, registry.CapabilitiesDiscovered{Tools: 3}, ""},
		{registry.EventCapabilitiesDiscovered, map[string]any{"serverId": "s"}, "required"},
		{registry.EventApprovalExpired, registry.ApprovalExpiring{DueAt: time.Now()}, ""},
		{registry.EventBindingsChanged, registry.BindingsChanged{Changes: []registry.BindingChange{{Kind: "tool", Name: "a", Reason: "schema_changed"}}}, ""},
		{registry.EventBindingsChanged, map[string]any{"serverId": "s", "tenantId": "t", "bound": 1, "unbound": 0, "changes": []any{}, "later": 1}, ""},
		{registry.EventAssetReleaseRevoked, registry.AssetReleaseRevoked{ReleaseID: "r"}, ""},
		{registry.EventAssetReleasePublished, registry.AssetReleasePublished{ReleaseID: "r", Name: "n", Authentication: "magic"}, "authentication"},
	} {
		s, err := events.PayloadSchema(kinds[c.kind])
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(plain(t, c.payload)); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s %+v: %v, want %q", c.kind, c.payload, err, c.why)
		}
	}
}

func plain(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every reference of the document leads somewhere.
func TestTheAsyncAPIDocumentIsWhole(t *testing.T) {
	t.Parallel()
	documents, err := events.Documents()
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(documents["asyncapi.json"], &whole); err != nil {
		t.Fatal(err)
	}
	references := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				references++
				var at any = whole
				for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := at.(map[string]any)
					at = m[key]
				}
				if at == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(whole)
	if channels, _ := whole["channels"].(map[string]any); len(channels) != len(registry.EventKinds())+2 || references < 4*len(channels) {
		t.Errorf("%d channels, %d references", len(channels), references)
	}
}

// The envelope is CloudEvents 1.0, the data exactly the payload (R160).
func TestAnEnvelopeIsACloudEvent(t *testing.T) {
	t.Parallel()
	got, err := events.Envelope(registry.OutboxEvent{
		EventID: "0190b8a0-0000-7000-8000-000000000001", Type: registry.EventServerStateChanged, TenantID: "acme", Aggregate: "srv_1", Seq: 7,
		Data: []byte(`{"serverId":"srv_1","tenantId":"acme","fromState":"verified","toState":"active"}`), OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		CorrelationID: "op", CausationID: "op", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}, "/countersign")
	const want = `{"specversion":"1.0","id":"0190b8a0-0000-7000-8000-000000000001","source":"/countersign",` +
		`"type":"tool-execution.mcp-servers.v1.mcp-server-state-changed","subject":"srv_1","time":"2026-01-02T03:04:05.000006Z",` +
		`"datacontenttype":"application/json","tenantid":"acme","sequence":"00000000000000000007",` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","correlationid":"op","causationid":"op",` +
		`"data":{"serverId":"srv_1","tenantId":"acme","fromState":"verified","toState":"active"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s\nwant\n%s (%v)", got, want, err)
	}
	var schema *jsonschema.Schema // of the envelope, as published
	documents, err := events.Documents()
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Components struct {
			Schemas map[string]*jsonschema.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(documents["asyncapi.json"], &whole); err != nil {
		t.Fatal(err)
	}
	schema = whole.Components.Schemas["envelope"]
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(plain(t, json.RawMessage(got))); err != nil {
		t.Error(err)
	}
}
