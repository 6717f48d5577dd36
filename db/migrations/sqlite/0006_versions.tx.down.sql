ALTER TABLE mcp_tool_bindings DROP COLUMN doubted;
ALTER TABLE mcp_servers DROP COLUMN doubted;
ALTER TABLE probes DROP COLUMN differing;
DROP TABLE server_versions;
