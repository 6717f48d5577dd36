DROP TABLE idempotency_keys, applied_operations, audit, outbox, server_probe_state, probes, decisions, descriptors,
  mcp_prompt_bindings, mcp_resource_bindings, mcp_tool_bindings, tools, snapshot_items, snapshots, definitions, mcp_servers,
  connections, providers;
DROP FUNCTION append_only();
