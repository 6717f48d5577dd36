DROP INDEX mcp_servers_pending;
ALTER TABLE mcp_servers DROP COLUMN review_withdrawn;
