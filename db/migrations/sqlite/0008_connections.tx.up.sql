-- Connections with names, shared by servers: how requests are authorised, whom to trust, which networks may be dialled.
-- Versions never change; that of a deletion says so.
ALTER TABLE connections ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN allowed_networks TEXT;
ALTER TABLE connections ADD COLUMN ca_bundle TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN auth_kind TEXT NOT NULL DEFAULT 'none';
ALTER TABLE connections ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN client_id TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN secret_ref TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN scopes TEXT;
ALTER TABLE connections ADD COLUMN headers TEXT; -- name → reference, as JSON
ALTER TABLE connections ADD COLUMN client_certificate_ref TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN client_key_ref TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN deleted BOOLEAN NOT NULL DEFAULT FALSE;
CREATE TRIGGER connections_append_only BEFORE UPDATE ON connections BEGIN SELECT RAISE(ABORT, 'connections is append-only'); END;
CREATE TRIGGER connections_keep BEFORE DELETE ON connections BEGIN SELECT RAISE(ABORT, 'connections is append-only'); END;
CREATE INDEX mcp_servers_connection ON mcp_servers (tenant_id, connection_name, name) WHERE state <> 'retired';

-- By which version of which connection a server had a target. Of the time before, connections bear the server's id.
CREATE TABLE server_targets (
  tenant_id          TEXT NOT NULL,
  server_id          TEXT NOT NULL,
  target_digest      TEXT NOT NULL,
  connection_name    TEXT NOT NULL,
  connection_version INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, server_id, target_digest),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id),
  FOREIGN KEY (tenant_id, connection_name, connection_version) REFERENCES connections
);
