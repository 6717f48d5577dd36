-- Providers of the family AEP: how an extension is configured, and how its last refresh went. Of the family MCP the server
-- has both.
ALTER TABLE providers ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN base_url TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN extension_id TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN authentication TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN exception_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN governance_policy_ref TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE providers ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);
ALTER TABLE providers ADD COLUMN config INTEGER NOT NULL DEFAULT 0;
ALTER TABLE providers ADD COLUMN refresh TEXT NOT NULL DEFAULT '{}'; -- JSON
CREATE TRIGGER providers_one_family_new BEFORE INSERT ON providers WHEN (NEW.family = 'aep') <> (NEW.base_url <> '')
BEGIN SELECT RAISE(ABORT, 'a provider is of one family'); END;
CREATE TRIGGER providers_one_family BEFORE UPDATE ON providers WHEN (NEW.family = 'aep') <> (NEW.base_url <> '')
BEGIN SELECT RAISE(ABORT, 'a provider is of one family'); END;

-- The servers that an extension declares. A row is there from the refresh that first saw the server; server_id is that of
-- the server that is registered for it.
CREATE TABLE provider_servers (
  tenant_id   TEXT NOT NULL,
  provider_id TEXT NOT NULL,
  external_id TEXT NOT NULL,
  server_id   TEXT NOT NULL,
  name        TEXT NOT NULL,
  url         TEXT NOT NULL,
  declared    BOOLEAN NOT NULL,
  reason      TEXT NOT NULL,
  message     TEXT NOT NULL,
  PRIMARY KEY (tenant_id, provider_id, external_id),
  FOREIGN KEY (tenant_id, provider_id) REFERENCES providers
);
CREATE UNIQUE INDEX provider_servers_server ON provider_servers (tenant_id, server_id);

-- The tools that an extension contributes, as its last descriptor had them.
CREATE TABLE provider_contributions (
  tenant_id          TEXT NOT NULL,
  provider_id        TEXT NOT NULL,
  contribution_id    TEXT NOT NULL,
  server_external_id TEXT NOT NULL,
  mcp_tool           TEXT NOT NULL,
  display_name       TEXT NOT NULL,
  description        TEXT NOT NULL,
  PRIMARY KEY (tenant_id, provider_id, contribution_id),
  FOREIGN KEY (tenant_id, provider_id, server_external_id) REFERENCES provider_servers
);

-- The tool's name at the MCP server, where the external id is that of a contribution.
ALTER TABLE tools ADD COLUMN origin TEXT NOT NULL DEFAULT '';
