ALTER TABLE mcp_servers DROP COLUMN launch_decision_id;
ALTER TABLE mcp_servers DROP COLUMN launch_approved_at;
ALTER TABLE mcp_servers DROP COLUMN launch_approved_by;
ALTER TABLE mcp_servers DROP COLUMN launch_target;
ALTER TABLE mcp_servers DROP COLUMN launch_status;
DROP TABLE commands;
