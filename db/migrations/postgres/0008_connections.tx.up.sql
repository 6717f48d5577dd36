-- Connections with names, shared by servers: how requests are authorised, whom to trust, which networks may be dialled.
-- Versions never change; that of a deletion says so.
ALTER TABLE connections
  ADD COLUMN description TEXT NOT NULL DEFAULT '',
  ADD COLUMN allowed_networks TEXT,
  ADD COLUMN ca_bundle TEXT NOT NULL DEFAULT '',
  ADD COLUMN auth_kind TEXT NOT NULL DEFAULT 'none',
  ADD COLUMN issuer TEXT NOT NULL DEFAULT '',
  ADD COLUMN client_id TEXT NOT NULL DEFAULT '',
  ADD COLUMN secret_ref TEXT NOT NULL DEFAULT '',
  ADD COLUMN scopes TEXT,
  ADD COLUMN headers TEXT, -- name → reference, as JSON
  ADD COLUMN client_certificate_ref TEXT NOT NULL DEFAULT '',
  ADD COLUMN client_key_ref TEXT NOT NULL DEFAULT '',
  ADD COLUMN deleted BOOLEAN NOT NULL DEFAULT FALSE;
CREATE TRIGGER connections_append_only BEFORE UPDATE OR DELETE ON connections FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE INDEX mcp_servers_connection ON mcp_servers (tenant_id, connection_name, name) WHERE state <> 'retired';

-- By which version of which connection a server had a target. Of the time before, connections bear the server's id.
CREATE TABLE server_targets (
  tenant_id          TEXT COLLATE "C" NOT NULL,
  server_id          TEXT COLLATE "C" NOT NULL,
  target_digest      TEXT COLLATE "C" NOT NULL,
  connection_name    TEXT COLLATE "C" NOT NULL,
  connection_version INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, server_id, target_digest),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id),
  FOREIGN KEY (tenant_id, connection_name, connection_version) REFERENCES connections
);
