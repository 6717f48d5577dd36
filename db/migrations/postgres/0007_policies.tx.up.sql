-- Versions of governance policy bundles: published once, kept for ever, never changed.
CREATE TABLE policies (
  tenant_id    TEXT COLLATE "C" NOT NULL,
  name         TEXT COLLATE "C" NOT NULL CHECK (name NOT IN ('', 'default')),
  version      INTEGER NOT NULL CHECK (version > 0),
  ref          TEXT COLLATE "C" NOT NULL, -- name@version
  digest       TEXT COLLATE "C" NOT NULL CHECK (digest <> ''),
  description  TEXT NOT NULL,
  document     BYTEA NOT NULL,
  published_at TIMESTAMPTZ NOT NULL,
  published_by TEXT NOT NULL,
  PRIMARY KEY (tenant_id, name, version),
  UNIQUE (tenant_id, ref)
);
CREATE INDEX policies_digest ON policies (tenant_id, digest);
CREATE TRIGGER policies_append_only BEFORE UPDATE OR DELETE ON policies FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE INDEX mcp_servers_policy ON mcp_servers (tenant_id, governance_policy_ref, name) WHERE state <> 'retired';

-- What lets a decision come as a signal; of the token itself only a hash is kept.
CREATE TABLE decision_tokens (
  tenant_id   TEXT COLLATE "C" NOT NULL,
  token_id    TEXT COLLATE "C" NOT NULL,
  token_hash  TEXT COLLATE "C" NOT NULL CHECK (token_hash <> ''),
  server_id   TEXT COLLATE "C" NOT NULL,
  verb        TEXT NOT NULL,
  digest      TEXT NOT NULL,
  subject     TEXT NOT NULL CHECK (subject <> ''),
  roles       TEXT NOT NULL,
  created_at  TIMESTAMPTZ NOT NULL,
  expires_at  TIMESTAMPTZ NOT NULL,
  used_at     TIMESTAMPTZ,
  used_by     TEXT NOT NULL, -- the signal
  PRIMARY KEY (tenant_id, token_id),
  UNIQUE (tenant_id, token_hash),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);

ALTER TABLE mcp_servers ADD COLUMN review_votes TEXT;
ALTER TABLE mcp_servers ADD COLUMN review_tally TEXT;
ALTER TABLE mcp_servers ADD COLUMN terms TEXT;
ALTER TABLE decisions ADD COLUMN evidence TEXT;
ALTER TABLE mcp_tool_bindings ADD COLUMN due_at TIMESTAMPTZ;
ALTER TABLE mcp_tool_bindings ADD COLUMN ends_at TIMESTAMPTZ;
ALTER TABLE mcp_resource_bindings ADD COLUMN ends_at TIMESTAMPTZ;
ALTER TABLE mcp_prompt_bindings ADD COLUMN ends_at TIMESTAMPTZ;
CREATE INDEX mcp_tool_bindings_ends ON mcp_tool_bindings (tenant_id, ends_at) WHERE bound AND ends_at IS NOT NULL;

-- What rules see of a definition's bytes, as JSON; NULL: nobody looked yet.
ALTER TABLE definitions ADD COLUMN stated TEXT;
