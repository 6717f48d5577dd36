-- Who took an approval back and gave no other since, so that to ask again is no fault.
ALTER TABLE mcp_servers ADD COLUMN review_withdrawn TEXT;

-- The inbox of approvers: what is pending, whatever ends first first.
CREATE INDEX mcp_servers_pending ON mcp_servers (tenant_id, review_expires_at, server_id) WHERE review_status = 'pending';
