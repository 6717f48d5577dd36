package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"countersign/outbound"
	"countersign/registry"
)

// testify calls tools where the suite can learn only from calls what became of a list. The product calls none, so it
// is the SDK that speaks, as an executor would; what it says is what the registry keeps of the list.
func testify(ctx context.Context, guard *outbound.Guard, target registry.Target, scenario string, surface registry.Surface) error {
	calls, err := callsOf(scenario, surface)
	if err != nil || len(calls) == 0 {
		return err
	}
	client := guard.Client(outbound.ClientOptions{})
	defer client.CloseIdleConnections()
	transport := &mcp.StreamableClientTransport{Endpoint: target.URL, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true}
	executor, err := mcp.NewClient(&mcp.Implementation{Name: "executor", Version: "conformance"}, nil).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: surface.ProtocolVersion})
	if err != nil {
		return err
	}
	defer func() { _ = executor.Close() }()
	for _, call := range calls {
		if _, err := executor.CallTool(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// callsOf gives the calls that a scenario waits for.
func callsOf(scenario string, surface registry.Surface) ([]*mcp.CallToolParams, error) {
	kept, err := registry.NewSnapshot(surface, registry.DefaultLimits(), time.Now())
	if err != nil {
		return nil, err
	}
	var calls []*mcp.CallToolParams
	switch scenario {
	case "http-invalid-tool-headers": // every tool that may be bound
		for _, tool := range kept.Of(registry.KindTool) {
			if !tool.Quarantined() {
				calls = append(calls, &mcp.CallToolParams{Name: tool.Name, Arguments: struct{}{}})
			}
		}
	case "json-schema-2020-12-preservation": // one tool's schema, told to another
		tool, _ := kept.Find(registry.KindTool, "json_schema_2020_12_tool")
		var definition struct {
			Schema json.RawMessage `json:"inputSchema"`
		}
		if err := json.Unmarshal(tool.Raw, &definition); err != nil {
			return nil, err
		}
		calls = append(calls, &mcp.CallToolParams{Name: "json_schema_echo", Arguments: map[string]any{"schema": definition.Schema}})
	}
	return calls, nil
}
