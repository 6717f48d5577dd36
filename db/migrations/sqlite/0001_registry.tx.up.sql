-- Times are text in UTC as '2006-01-02 15:04:05.999999+00:00', which sorts as time does; TIMESTAMP makes the driver read them so.

CREATE TABLE providers (
  tenant_id   TEXT NOT NULL,
  provider_id TEXT NOT NULL,
  name        TEXT NOT NULL,
  family      TEXT NOT NULL CHECK (family IN ('mcp', 'aep')),
  enabled     BOOLEAN NOT NULL,
  created_at  TIMESTAMP NOT NULL,
  live        BOOLEAN NOT NULL,
  PRIMARY KEY (tenant_id, provider_id)
);
-- The provider of a retired server does not block its name.
CREATE UNIQUE INDEX providers_live_name ON providers (tenant_id, name) WHERE live;

CREATE TABLE connections (
  tenant_id      TEXT NOT NULL,
  name           TEXT NOT NULL,
  version        INTEGER NOT NULL CHECK (version > 0),
  url            TEXT NOT NULL,
  dial_address   TEXT NOT NULL,
  authentication TEXT NOT NULL,
  created_at     TIMESTAMP NOT NULL,
  created_by     TEXT NOT NULL,
  PRIMARY KEY (tenant_id, name, version)
);

CREATE TABLE mcp_servers (
  server_id              TEXT NOT NULL PRIMARY KEY,
  tenant_id              TEXT NOT NULL,
  name                   TEXT NOT NULL,
  direction              TEXT NOT NULL CHECK (direction IN ('consumed', 'exposed')),
  transport              TEXT NOT NULL CHECK (transport IN ('streamable_http', 'stdio')),
  endpoint_ref           TEXT NOT NULL,
  command_ref            TEXT NOT NULL,
  authentication         TEXT NOT NULL CHECK (authentication IN ('oauth2_protected_resource', 'workload_identity', 'none_exception')),
  governance_policy_ref  TEXT NOT NULL CHECK (governance_policy_ref <> ''),
  protocol_version       TEXT NOT NULL,
  state                  TEXT NOT NULL CHECK (state IN ('registered', 'verified', 'active', 'degraded', 'retired')),
  release_id             TEXT NOT NULL,
  last_handshake_at      TIMESTAMP,
  version                INTEGER NOT NULL CHECK (version > 0),
  revision               INTEGER NOT NULL CHECK (revision >= version),
  provider_id            TEXT NOT NULL,
  description            TEXT NOT NULL,
  owner                  TEXT NOT NULL,
  labels                 TEXT NOT NULL,
  product_version        TEXT NOT NULL,
  exposed_url            TEXT NOT NULL,
  causes                 TEXT NOT NULL,
  suspect                TEXT NOT NULL,
  kinds                  TEXT NOT NULL,
  server_name            TEXT NOT NULL,
  server_version         TEXT NOT NULL,
  server_text_digest     TEXT NOT NULL,
  target_digest          TEXT NOT NULL CHECK (target_digest <> ''),
  snapshot_digest        TEXT NOT NULL,
  tools_digest           TEXT NOT NULL,
  approved_target        TEXT NOT NULL,
  approved_snapshot      TEXT NOT NULL,
  approved_text          TEXT NOT NULL,
  review_status          TEXT NOT NULL CHECK (review_status IN ('none', 'pending', 'approved', 'rejected', 'expired')),
  review_digest          TEXT NOT NULL,
  review_snapshot        TEXT NOT NULL,
  review_target          TEXT NOT NULL,
  review_requested_by    TEXT NOT NULL,
  review_opened_at       TIMESTAMP,
  review_expires_at      TIMESTAMP,
  review_decided_at      TIMESTAMP,
  review_decided_by      TEXT NOT NULL,
  review_decision_id     TEXT NOT NULL,
  discovery_number       INTEGER NOT NULL,
  discovery_status       TEXT NOT NULL CHECK (discovery_status IN ('never', 'running', 'succeeded', 'failed')),
  discovery_reason       TEXT NOT NULL,
  discovery_message      TEXT NOT NULL,
  discovery_requested_by TEXT NOT NULL,
  discovery_finished_at  TIMESTAMP,
  discovery_succeeded_at TIMESTAMP,
  discovery_counts_new         INTEGER NOT NULL,
  discovery_counts_changed     INTEGER NOT NULL,
  discovery_counts_unchanged   INTEGER NOT NULL,
  discovery_counts_unavailable INTEGER NOT NULL,
  discovery_counts_total       INTEGER NOT NULL,
  exception_reason       TEXT NOT NULL,
  exception_approved_by  TEXT NOT NULL,
  exception_approved_at  TIMESTAMP,
  exception_expires_at   TIMESTAMP,
  created_at             TIMESTAMP NOT NULL,
  created_by             TEXT NOT NULL,
  updated_at             TIMESTAMP NOT NULL,
  retired_at             TIMESTAMP,
  -- endpoint_ref in two columns, to join by; empty for stdio.
  connection_name        TEXT,
  connection_version     INTEGER,
  -- The last number given to an event of this server.
  event_seq              INTEGER NOT NULL,
  UNIQUE (tenant_id, server_id),
  CHECK ((transport = 'stdio') = (command_ref <> '')),
  CHECK ((transport = 'stdio') = (endpoint_ref = '')),
  CHECK ((endpoint_ref = '') = (connection_name IS NULL)),
  CHECK ((state = 'degraded') = (causes NOT IN ('null', '[]') AND state <> 'retired')),
  CHECK ((state = 'retired') = (retired_at IS NOT NULL)),
  FOREIGN KEY (tenant_id, provider_id) REFERENCES providers,
  FOREIGN KEY (tenant_id, connection_name, connection_version) REFERENCES connections
);
-- What makes a live name unique; a retired server's name is free.
CREATE UNIQUE INDEX mcp_servers_live_name ON mcp_servers (tenant_id, name) WHERE state <> 'retired';
CREATE INDEX mcp_servers_name ON mcp_servers (tenant_id, name, server_id);
CREATE INDEX mcp_servers_created ON mcp_servers (tenant_id, created_at, server_id);
CREATE INDEX mcp_servers_updated ON mcp_servers (tenant_id, updated_at, server_id);
CREATE INDEX mcp_servers_probed ON mcp_servers (tenant_id, server_id) WHERE state IN ('active', 'degraded');

CREATE TABLE definitions (
  tenant_id TEXT NOT NULL,
  digest    TEXT NOT NULL,
  raw       BLOB NOT NULL,
  PRIMARY KEY (tenant_id, digest)
);

CREATE TABLE snapshots (
  tenant_id        TEXT NOT NULL,
  digest           TEXT NOT NULL,
  protocol_version TEXT NOT NULL,
  server_name      TEXT NOT NULL,
  server_version   TEXT NOT NULL,
  instructions     TEXT NOT NULL,
  text_digest      TEXT NOT NULL,
  kinds            TEXT NOT NULL,
  quirks           TEXT NOT NULL,
  created_at       TIMESTAMP NOT NULL,
  PRIMARY KEY (tenant_id, digest)
);

CREATE TABLE snapshot_items (
  tenant_id         TEXT NOT NULL,
  snapshot_digest   TEXT NOT NULL,
  kind              TEXT NOT NULL,
  item_key          TEXT NOT NULL, -- the name, made short enough for an index
  name              TEXT NOT NULL,
  definition_digest TEXT NOT NULL,
  contract_digest   TEXT NOT NULL,
  text_digest       TEXT NOT NULL,
  behaviour_digest  TEXT NOT NULL,
  meta_digest       TEXT NOT NULL,
  verdict           TEXT NOT NULL,
  detail            TEXT NOT NULL,
  title             TEXT NOT NULL,
  body              TEXT NOT NULL,
  PRIMARY KEY (tenant_id, snapshot_digest, kind, item_key),
  FOREIGN KEY (tenant_id, snapshot_digest) REFERENCES snapshots ON DELETE CASCADE
);

CREATE TABLE tools (
  tenant_id         TEXT NOT NULL,
  server_id         TEXT NOT NULL,
  external_key      TEXT NOT NULL, -- external_id, made short enough for an index
  external_id       TEXT NOT NULL,
  tool_key          TEXT NOT NULL, -- tool_id, made short enough for an index
  tool_id           TEXT NOT NULL,
  title             TEXT NOT NULL,
  description       TEXT NOT NULL,
  definition_digest TEXT NOT NULL,
  contract_digest   TEXT NOT NULL,
  text_digest       TEXT NOT NULL,
  behaviour_digest  TEXT NOT NULL,
  meta_digest       TEXT NOT NULL,
  enabled           BOOLEAN NOT NULL,
  available         BOOLEAN NOT NULL,
  verdict           TEXT NOT NULL,
  detail            TEXT NOT NULL,
  first_seen_at     TIMESTAMP NOT NULL,
  last_seen_at      TIMESTAMP NOT NULL,
  live              BOOLEAN NOT NULL, -- the server is not retired
  PRIMARY KEY (tenant_id, server_id, external_key),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id),
  CHECK (NOT available OR verdict = '')
);
-- Tool ids are unique among live servers; the tools of a retired one do not block those of a successor of its name.
CREATE UNIQUE INDEX tools_live_id ON tools (tenant_id, tool_key) WHERE live;
CREATE INDEX tools_id ON tools (tenant_id, tool_key, live, server_id);
CREATE INDEX tools_seen ON tools (tenant_id, first_seen_at, tool_key);

CREATE TABLE mcp_tool_bindings (
  tenant_id        TEXT NOT NULL,
  server_id        TEXT NOT NULL,
  tool_name        TEXT NOT NULL,
  schema_hash      TEXT NOT NULL,
  text_digest      TEXT NOT NULL,
  behaviour_digest TEXT NOT NULL,
  target_digest    TEXT NOT NULL,
  tool_id          TEXT NOT NULL,
  tool_version     TEXT NOT NULL,
  declared_class   TEXT NOT NULL,
  bound            BOOLEAN NOT NULL,
  unbound_by       TEXT NOT NULL,
  decision_id      TEXT NOT NULL,
  PRIMARY KEY (tenant_id, server_id, tool_name),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id),
  CONSTRAINT bound_means_approved CHECK (NOT bound OR (
    tool_id <> '' AND tool_version <> '' AND schema_hash <> '' AND text_digest <> '' AND behaviour_digest <> ''
    AND target_digest <> '' AND decision_id <> '' AND declared_class IN ('read', 'sandbox', 'shared_write', 'publication')))
);

CREATE TABLE mcp_resource_bindings (
  tenant_id       TEXT NOT NULL,
  server_id       TEXT NOT NULL,
  resource_key    TEXT NOT NULL, -- resource_uri, made short enough for an index
  resource_uri    TEXT NOT NULL,
  source_id       TEXT NOT NULL,
  classification  TEXT NOT NULL CHECK (classification <> ''),
  scope           TEXT NOT NULL,
  contract_digest TEXT NOT NULL,
  text_digest     TEXT NOT NULL,
  bound           BOOLEAN NOT NULL,
  decision_id     TEXT NOT NULL,
  PRIMARY KEY (tenant_id, server_id, resource_key),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);

CREATE TABLE mcp_prompt_bindings (
  tenant_id         TEXT NOT NULL,
  server_id         TEXT NOT NULL,
  prompt_key        TEXT NOT NULL, -- prompt_name, made short enough for an index
  prompt_name       TEXT NOT NULL,
  skill_id          TEXT NOT NULL,
  workflow_step_ref TEXT NOT NULL,
  contract_digest   TEXT NOT NULL,
  text_digest       TEXT NOT NULL,
  bound             BOOLEAN NOT NULL,
  decision_id       TEXT NOT NULL,
  PRIMARY KEY (tenant_id, server_id, prompt_key),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id),
  CHECK ((skill_id = '') <> (workflow_step_ref = ''))
);

CREATE TABLE descriptors (
  tenant_id     TEXT NOT NULL,
  descriptor_id TEXT NOT NULL,
  version       INTEGER NOT NULL CHECK (version > 0),
  class         TEXT NOT NULL CHECK (class IN ('read', 'sandbox', 'shared_write', 'publication')),
  status        TEXT NOT NULL,
  server_id     TEXT NOT NULL,
  schema_hash   TEXT NOT NULL,
  created_at    TIMESTAMP NOT NULL,
  created_by    TEXT NOT NULL,
  PRIMARY KEY (tenant_id, descriptor_id, version)
);

CREATE TABLE decisions (
  decision_id     TEXT NOT NULL PRIMARY KEY,
  tenant_id       TEXT NOT NULL,
  server_id       TEXT NOT NULL,
  verb            TEXT NOT NULL,
  digest          TEXT NOT NULL,
  snapshot_digest TEXT NOT NULL,
  target_digest   TEXT NOT NULL,
  subject         TEXT NOT NULL,
  roles           TEXT NOT NULL,
  comment         TEXT NOT NULL,
  origin          TEXT NOT NULL,
  approval        TEXT,
  applied         BOOLEAN NOT NULL,
  reason          TEXT NOT NULL,
  decided_at      TIMESTAMP NOT NULL,
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);
CREATE INDEX decisions_server ON decisions (tenant_id, server_id, decided_at, decision_id);

CREATE TABLE probes (
  server_id        TEXT NOT NULL,
  probe_window     TIMESTAMP NOT NULL,
  tenant_id        TEXT NOT NULL,
  outcome          TEXT NOT NULL,
  reason           TEXT NOT NULL,
  message          TEXT NOT NULL,
  attempts         INTEGER NOT NULL,
  protocol_version TEXT NOT NULL,
  target_digest    TEXT NOT NULL,
  tools_digest     TEXT NOT NULL,
  duration_ns      INTEGER NOT NULL,
  probed_at        TIMESTAMP NOT NULL,
  same_since       TIMESTAMP NOT NULL,
  PRIMARY KEY (server_id, probe_window),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);
CREATE INDEX probes_window ON probes (probe_window);

-- What is known of a server besides its row, and changes without moving its version.
CREATE TABLE server_probe_state (
  server_id    TEXT NOT NULL PRIMARY KEY,
  tenant_id    TEXT NOT NULL,
  era          TEXT NOT NULL,
  probe_window TIMESTAMP, -- of the latest probe
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);

-- With one writer ids commit in order, so tx, which orders rows on Postgres, is always 0.
CREATE TABLE outbox (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  tx             INTEGER NOT NULL DEFAULT 0,
  event_id       TEXT NOT NULL UNIQUE,
  event_type     TEXT NOT NULL,
  tenant_id      TEXT NOT NULL,
  aggregate      TEXT NOT NULL,
  seq            INTEGER NOT NULL,
  data           TEXT NOT NULL,
  occurred_at    TIMESTAMP NOT NULL,
  correlation_id TEXT NOT NULL,
  causation_id   TEXT NOT NULL,
  UNIQUE (tenant_id, aggregate, seq)
);
CREATE INDEX outbox_position ON outbox (tx, id);

-- position, prev_hash and hash are filled when the tenant's chain is sealed up to the row.
CREATE TABLE audit (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  tx             INTEGER NOT NULL DEFAULT 0,
  audit_id       TEXT NOT NULL UNIQUE,
  tenant_id      TEXT NOT NULL,
  at             TIMESTAMP NOT NULL,
  actor          TEXT NOT NULL,
  roles          TEXT NOT NULL,
  origin         TEXT NOT NULL,
  action         TEXT NOT NULL,
  object_kind    TEXT NOT NULL,
  object_id      TEXT NOT NULL,
  operation_id   TEXT NOT NULL,
  outcome        TEXT NOT NULL CHECK (outcome IN ('applied', 'refused')),
  reason         TEXT NOT NULL,
  version_before INTEGER NOT NULL,
  version_after  INTEGER NOT NULL,
  digest_before  TEXT NOT NULL,
  digest_after   TEXT NOT NULL,
  note           TEXT NOT NULL,
  detail         TEXT NOT NULL,
  position       INTEGER,
  prev_hash      TEXT,
  hash           TEXT,
  UNIQUE (tenant_id, position)
);
CREATE INDEX audit_position ON audit (tx, id);
CREATE INDEX audit_tenant ON audit (tenant_id, id);
CREATE INDEX audit_object ON audit (tenant_id, object_id, id);

CREATE TRIGGER decisions_keep BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions is append-only'); END;
CREATE TRIGGER decisions_append_only BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions is append-only'); END;
CREATE TRIGGER audit_keep BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit WHEN
  OLD.hash IS NOT NULL OR
  (OLD.id, OLD.tx, OLD.audit_id, OLD.tenant_id, OLD.at, OLD.actor, OLD.roles, OLD.origin, OLD.action, OLD.object_kind, OLD.object_id,
   OLD.operation_id, OLD.outcome, OLD.reason, OLD.version_before, OLD.version_after, OLD.digest_before, OLD.digest_after, OLD.note, OLD.detail)
  IS NOT
  (NEW.id, NEW.tx, NEW.audit_id, NEW.tenant_id, NEW.at, NEW.actor, NEW.roles, NEW.origin, NEW.action, NEW.object_kind, NEW.object_id,
   NEW.operation_id, NEW.outcome, NEW.reason, NEW.version_before, NEW.version_after, NEW.digest_before, NEW.digest_after, NEW.note, NEW.detail)
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;

CREATE TABLE applied_operations (
  tenant_id    TEXT NOT NULL,
  server_id    TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  name         TEXT NOT NULL,
  at           TIMESTAMP NOT NULL,
  answer       TEXT NOT NULL,
  result       TEXT, -- the server after the change
  refusal      TEXT, -- the error of a refused one
  PRIMARY KEY (tenant_id, server_id, operation_id),
  CHECK ((result IS NULL) <> (refusal IS NULL))
);
CREATE INDEX applied_operations_at ON applied_operations (at);

CREATE TABLE idempotency_keys (
  tenant_id    TEXT NOT NULL,
  operation    TEXT NOT NULL,
  key          TEXT NOT NULL,
  body_hash    TEXT NOT NULL,
  server_id    TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  answer       TEXT NOT NULL,
  created_at   TIMESTAMP NOT NULL,
  PRIMARY KEY (tenant_id, operation, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
