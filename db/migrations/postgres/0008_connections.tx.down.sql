DROP TABLE server_targets;
DROP INDEX mcp_servers_connection;
DROP TRIGGER connections_append_only ON connections;
ALTER TABLE connections
  DROP COLUMN description, DROP COLUMN allowed_networks, DROP COLUMN ca_bundle, DROP COLUMN auth_kind, DROP COLUMN issuer,
  DROP COLUMN client_id, DROP COLUMN secret_ref, DROP COLUMN scopes, DROP COLUMN headers, DROP COLUMN client_certificate_ref,
  DROP COLUMN client_key_ref, DROP COLUMN deleted;
