package events_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/events"
	"countersign/registry"
)

const revoked = `{"specversion":"1.0","id":"e1","source":"/agent-registry","type":"agent-registry.asset-releases.v1.asset-release-revoked","data":{"releaseId":"r1"}}`

func signed(t *testing.T, secret, body string, at time.Time) http.Header {
	t.Helper()
	hook, err := webhooks.NewWebhook(known[secret])
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hook.Sign("msg", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{
		"Webhook-Id": {"msg"}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {"v2,x v1,!! " + signature},
	}
}

// What a public implementation of Standard Webhooks signs is taken in, and only
// when one of the two secrets signed exactly that, about now.
func TestOnlySignedEventsAreTakenIn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := registry.Subscription{TenantID: "acme", SubscriptionID: "in", Direction: registry.SubscriptionReceive, Secret: "env:NEW", PreviousSecret: "env:OLD"}
	r := events.Receiver{Secrets: resolver(), Now: func() time.Time { return now }}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   registry.Reason
	}{
		"the new secret":   {signed(t, "NEW", revoked, now), revoked, ""},
		"the old secret":   {signed(t, "OLD", revoked, now.Add(-4*time.Minute)), revoked, ""},
		"another secret":   {signed(t, "SHORT", revoked, now), revoked, registry.ReasonUnauthenticated},
		"another body":     {signed(t, "NEW", revoked, now), revoked + " ", registry.ReasonUnauthenticated},
		"too old":          {signed(t, "NEW", revoked, now.Add(-6*time.Minute)), revoked, registry.ReasonUnauthenticated},
		"from the future":  {signed(t, "NEW", revoked, now.Add(6*time.Minute)), revoked, registry.ReasonUnauthenticated},
		"without a header": {http.Header{}, revoked, registry.ReasonUnauthenticated},
	} {
		e, err := r.Receive(t.Context(), u, c.header, []byte(c.body))
		if (err != nil || c.want != "") && registry.ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if c.want == "" && (e.EventID != "e1" || e.SubscriptionID != "in" || e.Type != registry.EventAssetReleaseRevoked || string(e.Data) != `{"releaseId":"r1"}`) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	u.Secret, u.PreviousSecret = "env:NOWHERE", ""
	if _, err := r.Receive(t.Context(), u, signed(t, "NEW", revoked, now), []byte(revoked)); registry.ReasonOf(err) != registry.ReasonSecretRefUnresolved {
		t.Error(err)
	}
}

func TestReceivedEventsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	u := registry.Subscription{SubscriptionID: "in", Direction: registry.SubscriptionReceive}
	for body, field := range map[string]string{
		revoked: "",
		`{"specversion":"0.3","id":"e","source":"s","type":"agent-registry.asset-releases.v1.asset-release-revoked","data":{"releaseId":"r"}}`:                                 "specversion",
		`{"specversion":"1.0","source":"s","type":"agent-registry.asset-releases.v1.asset-release-revoked","data":{"releaseId":"r"}}`:                                          "id",
		`{"specversion":"1.0","id":"e","source":"s","type":"agent-registry.asset-releases.v1.asset-release-revoked","data":{}}`:                                                "data",
		`{"specversion":"1.0","id":"e","source":"s","type":"agent-registry.asset-releases.v1.asset-release-revoked"}`:                                                          "data",
		`{"specversion":"1.0","id":"e","source":"s","type":"tool-execution.mcp-servers.v1.mcp-server-registered","data":{}}`:                                                   "type",
		`{"specversion":"1.0","id":"e","source":"s","type":"agent-registry.asset-releases.v1.asset-release-published","data":{"releaseId":"r","name":"n","authentication":1}}`: "data",
	} {
		_, err := events.Parse(u, []byte(body))
		e, _ := registry.AsError(err)
		switch {
		case field == "" && err != nil, field != "" && (e == nil || len(e.Fields) != 1 || e.Fields[0].Path != field):
			t.Errorf("%s: %+v, want %s", body, e, field)
		}
	}
	u.Types = []registry.EventType{registry.EventAssetReleasePublished}
	if _, err := events.Parse(u, []byte(revoked)); err == nil {
		t.Error("a type that the subscription does not take is taken")
	}
	if _, err := events.Parse(u, []byte(`[]`)); registry.ReasonOf(err) != registry.ReasonInvalidArgument {
		t.Error(err)
	}
}
