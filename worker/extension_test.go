package worker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"countersign/db"
	"countersign/registry"
	"countersign/workflows"
)

// extension is an AEP extension whose descriptor can be edited while it runs.
type extension struct {
	*httptest.Server

	mu       sync.Mutex
	servers  [][2]string // id, endpoint
	tools    [][3]string // contribution, server, tool
	identity string
	hold     chan struct{} // when not nil, an answer waits for it
	asked    int
}

func extends(t testing.TB) *extension {
	e := &extension{identity: "acme.tools"}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		hold := e.hold
		e.asked++
		e.mu.Unlock()
		if hold != nil {
			<-hold
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(e.descriptor())
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *extension) descriptor() []byte {
	type object = map[string]any
	servers, tools := []object{}, []object{}
	for _, s := range e.servers {
		servers = append(servers, object{"id": s[0], "endpoint": s[1]})
	}
	for _, c := range e.tools {
		tools = append(tools, object{"id": c[0], "displayName": "The " + c[0], "mcp": object{"server": c[1], "tool": c[2]}})
	}
	raw, _ := json.Marshal(object{
		"protocolVersion": "2026-08-01", "extension": object{"id": e.identity, "name": "Tools", "version": "1"},
		"contributions": object{"tools": tools}, "mcp": object{"servers": servers},
	})
	return raw
}

func (e *extension) edit(f func(*extension)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e)
}

func (e *extension) config() registry.ProviderConfig {
	return registry.ProviderConfig{
		BaseURL: e.URL, ExtensionID: "acme.tools", Authentication: registry.AuthWorkloadIdentity, GovernancePolicyRef: registry.PolicyDefault,
	}
}

// provides makes a provider and waits for its first refresh.
func (h *house) provides(name string, c registry.ProviderConfig) db.ProviderView {
	h.Helper()
	_, err := h.client.SaveProvider(h.Context(), workflows.SaveProviderInput{Tenant: "default", Name: name, Operation: operation("create_provider"), Create: &c})
	if err != nil {
		h.Fatal(err)
	}
	h.closed(workflows.ProviderWorkflowID("default", name))
	return h.provider(name)
}

func (h *house) provider(name string) db.ProviderView {
	h.Helper()
	v, err := h.store().Provider(h.Context(), name)
	if err != nil {
		h.Fatal(err)
	}
	return v
}

// refreshes asks for a refresh of a provider and waits for the end.
func (h *house) refreshes(name string) db.ProviderView {
	h.Helper()
	_, run, err := h.client.RefreshProvider(h.Context(), workflows.BeginRefreshInput{Tenant: "default", Name: name, Operation: operation("refresh_provider")})
	if err == nil {
		err = h.client.AwaitRun(h.Context(), run)
	}
	if err != nil {
		h.Fatal(err)
	}
	return h.provider(name)
}

func (h *house) editProvider(name string, e registry.ProviderEdit) {
	h.Helper()
	_, err := h.client.SaveProvider(h.Context(), workflows.SaveProviderInput{Tenant: "default", Name: name, Operation: operation("edit_provider"), Edit: e})
	if err != nil {
		h.Fatal(err)
	}
	h.closed(workflows.ProviderWorkflowID("default", name))
}

// issues gives what is wrong with contributions, by id.
func issues(v db.ProviderView) map[string]registry.Reason {
	out := map[string]registry.Reason{}
	for _, c := range v.Contributions {
		if reason, _ := c.Issue(); reason != "" {
			out[c.ID] = reason
		}
	}
	return out
}
