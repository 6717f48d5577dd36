-- Commands by which servers are started, under the digest of the target that each makes.
CREATE TABLE commands (
  tenant_id     TEXT NOT NULL,
  target_digest TEXT NOT NULL,
  ref           TEXT NOT NULL,
  argv          TEXT NOT NULL,
  image         TEXT NOT NULL,
  dir           TEXT NOT NULL,
  env           TEXT NOT NULL,
  network       BOOLEAN NOT NULL,
  sandbox       TEXT NOT NULL CHECK (sandbox IN ('bubblewrap', 'none')),
  created_at    TIMESTAMP NOT NULL,
  PRIMARY KEY (tenant_id, target_digest)
);

ALTER TABLE mcp_servers ADD COLUMN launch_status TEXT NOT NULL DEFAULT '' CHECK (launch_status IN ('', 'pending', 'approved'));
ALTER TABLE mcp_servers ADD COLUMN launch_target TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_servers ADD COLUMN launch_approved_by TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_servers ADD COLUMN launch_approved_at TIMESTAMP;
ALTER TABLE mcp_servers ADD COLUMN launch_decision_id TEXT NOT NULL DEFAULT '';
