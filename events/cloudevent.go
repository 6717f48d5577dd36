package events

import (
	"encoding/json"
	"fmt"
	"time"

	"countersign/registry"
)

// ContentType is that of a CloudEvent in structured mode.
const ContentType = "application/cloudevents+json"

// CloudEvent is an event as others get it: CloudEvents 1.0, structured mode, its
// type the topic and its data exactly the payload (R160, R161).
type CloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	TenantID        string          `json:"tenantid,omitempty"`
	Sequence        string          `json:"sequence,omitempty"` // 20 digits, so that text sorts as numbers do
	TraceParent     string          `json:"traceparent,omitempty"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	CausationID     string          `json:"causationid,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// Source is the source of events when the installation names none.
const Source = "/countersign"

// Envelope makes the CloudEvent of an outbox event. The same event gives the same
// bytes, however often it is delivered.
func Envelope(e registry.OutboxEvent, source string) ([]byte, error) {
	return json.Marshal(CloudEvent{
		SpecVersion: "1.0", ID: e.EventID, Source: source, Type: string(e.Type), Subject: e.Aggregate, Time: e.OccurredAt.UTC(),
		DataContentType: "application/json", TenantID: e.TenantID, Sequence: fmt.Sprintf("%020d", e.Seq), TraceParent: e.TraceParent,
		CorrelationID: e.CorrelationID, CausationID: e.CausationID, Data: e.Data,
	})
}
