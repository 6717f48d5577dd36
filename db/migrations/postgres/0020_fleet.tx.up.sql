-- All that decides how well a server is, in one row and one text of it, so that a fleet is summed up, and searched by health, from
-- one index. What the last probe said is written with the probe, what is of the server's own row by triggers. A program before this
-- one does not write what a probe said: what it records counts in these numbers from the next window on.
ALTER TABLE server_probe_state ADD COLUMN outcome TEXT NOT NULL DEFAULT '';
ALTER TABLE server_probe_state ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE server_probe_state ADD COLUMN probed_at TIMESTAMPTZ;
ALTER TABLE server_probe_state ADD COLUMN target_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE server_probe_state ADD COLUMN no_tools BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE server_probe_state ADD COLUMN server_facts TEXT NOT NULL DEFAULT '';
ALTER TABLE server_probe_state ADD COLUMN server_target TEXT NOT NULL DEFAULT '';
ALTER TABLE server_probe_state ADD COLUMN discovered_at TIMESTAMPTZ;
INSERT INTO server_probe_state (server_id, tenant_id, era)
SELECT s.server_id, s.tenant_id, '' FROM mcp_servers AS s WHERE NOT EXISTS (SELECT 1 FROM server_probe_state AS ps WHERE ps.server_id = s.server_id);
UPDATE server_probe_state SET outcome = pr.outcome, reason = pr.reason, probed_at = pr.probed_at, target_digest = pr.target_digest,
  no_tools = pr.tools_digest = 'sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945'
FROM probes AS pr WHERE pr.server_id = server_probe_state.server_id AND pr.probe_window = server_probe_state.probe_window;
UPDATE server_probe_state SET server_target = s.target_digest, discovered_at = s.discovery_finished_at, server_facts =
    s.state || '|' ||
    CASE WHEN s.transport = 'stdio' AND (s.launch_status <> 'approved' OR s.launch_target <> s.target_digest) THEN 'pending' ELSE '' END || '|' ||
    s.discovery_status || '|' || s.discovery_reason || '|' || s.review_status || '|' ||
    CASE WHEN s.approved_snapshot <> '' AND (s.approved_snapshot <> s.snapshot_digest OR s.approved_target <> s.target_digest) THEN 'drifted' ELSE '' END || '|' ||
    s.causes
FROM mcp_servers AS s WHERE s.server_id = server_probe_state.server_id;
ALTER TABLE server_probe_state ADD COLUMN health_facts TEXT GENERATED ALWAYS AS (
  CASE WHEN outcome <> '' AND target_digest = server_target THEN
    outcome || '|' || reason || '|' || CASE WHEN probed_at > discovered_at THEN 'after' ELSE '' END || '|' || CASE WHEN no_tools THEN 'empty' ELSE '' END
  ELSE '|||' END || '|' || server_facts
) STORED;
CREATE INDEX server_probe_state_health ON server_probe_state (tenant_id, health_facts, server_id);
CREATE INDEX mcp_servers_state ON mcp_servers (tenant_id, state);

CREATE FUNCTION mcp_servers_health() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO server_probe_state (server_id, tenant_id, era, server_facts, server_target, discovered_at)
  VALUES (NEW.server_id, NEW.tenant_id, '',
    NEW.state || '|' ||
    CASE WHEN NEW.transport = 'stdio' AND (NEW.launch_status <> 'approved' OR NEW.launch_target <> NEW.target_digest) THEN 'pending' ELSE '' END || '|' ||
    NEW.discovery_status || '|' || NEW.discovery_reason || '|' || NEW.review_status || '|' ||
    CASE WHEN NEW.approved_snapshot <> '' AND (NEW.approved_snapshot <> NEW.snapshot_digest OR NEW.approved_target <> NEW.target_digest) THEN 'drifted' ELSE '' END || '|' ||
    NEW.causes,
    NEW.target_digest, NEW.discovery_finished_at)
  ON CONFLICT (server_id) DO UPDATE SET server_facts = EXCLUDED.server_facts, server_target = EXCLUDED.server_target, discovered_at = EXCLUDED.discovered_at;
  RETURN NULL;
END $$;
CREATE TRIGGER mcp_servers_health_begins AFTER INSERT ON mcp_servers FOR EACH ROW EXECUTE FUNCTION mcp_servers_health();
CREATE TRIGGER mcp_servers_health_changes AFTER UPDATE ON mcp_servers FOR EACH ROW WHEN (
  OLD.state IS DISTINCT FROM NEW.state
  OR OLD.transport IS DISTINCT FROM NEW.transport
  OR OLD.launch_status IS DISTINCT FROM NEW.launch_status
  OR OLD.launch_target IS DISTINCT FROM NEW.launch_target
  OR OLD.target_digest IS DISTINCT FROM NEW.target_digest
  OR OLD.discovery_status IS DISTINCT FROM NEW.discovery_status
  OR OLD.discovery_reason IS DISTINCT FROM NEW.discovery_reason
  OR OLD.discovery_finished_at IS DISTINCT FROM NEW.discovery_finished_at
  OR OLD.review_status IS DISTINCT FROM NEW.review_status
  OR OLD.approved_snapshot IS DISTINCT FROM NEW.approved_snapshot
  OR OLD.approved_target IS DISTINCT FROM NEW.approved_target
  OR OLD.snapshot_digest IS DISTINCT FROM NEW.snapshot_digest
  OR OLD.causes IS DISTINCT FROM NEW.causes
) EXECUTE FUNCTION mcp_servers_health();
