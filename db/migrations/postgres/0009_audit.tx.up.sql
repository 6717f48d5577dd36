-- The name of what a row is about, as it was then.
DROP TRIGGER audit_append_only ON audit;
ALTER TABLE audit ADD COLUMN object_name TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE audit SET object_name = COALESCE((SELECT s.name FROM mcp_servers AS s
  WHERE s.tenant_id = audit.tenant_id AND s.server_id = audit.object_id), '') WHERE object_kind = 'server';
ALTER TABLE audit ALTER COLUMN object_name DROP DEFAULT;
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit FOR EACH ROW WHEN (
  OLD.hash IS NOT NULL OR
  (OLD.id, OLD.tx, OLD.audit_id, OLD.tenant_id, OLD.at, OLD.actor, OLD.roles, OLD.origin, OLD.action, OLD.object_kind, OLD.object_id, OLD.object_name,
   OLD.operation_id, OLD.outcome, OLD.reason, OLD.version_before, OLD.version_after, OLD.digest_before, OLD.digest_after, OLD.note, OLD.detail)
  IS DISTINCT FROM
  (NEW.id, NEW.tx, NEW.audit_id, NEW.tenant_id, NEW.at, NEW.actor, NEW.roles, NEW.origin, NEW.action, NEW.object_kind, NEW.object_id, NEW.object_name,
   NEW.operation_id, NEW.outcome, NEW.reason, NEW.version_before, NEW.version_after, NEW.digest_before, NEW.digest_after, NEW.note, NEW.detail)
) EXECUTE FUNCTION append_only();
CREATE INDEX audit_name ON audit (tenant_id, object_name, id) WHERE object_name <> '';
CREATE INDEX audit_unsealed ON audit (tenant_id, tx, id) WHERE position IS NULL;

-- Where each tenant's chain ends, and its checkpoints. Sealing goes on from here, whatever became of the rows.
CREATE TABLE audit_heads (
  tenant_id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  position          BIGINT NOT NULL CHECK (position > 0),
  hash              TEXT NOT NULL CHECK (hash <> ''),
  checkpoints       BIGINT NOT NULL, -- how many were issued
  checkpointed      BIGINT NOT NULL, -- rows up to the last one
  checkpoint_digest TEXT NOT NULL
);

CREATE TABLE audit_checkpoints (
  tenant_id TEXT COLLATE "C" NOT NULL,
  number    BIGINT NOT NULL CHECK (number > 0),
  count     BIGINT NOT NULL CHECK (count > 0),
  head      TEXT NOT NULL CHECK (head <> ''),
  at        TIMESTAMPTZ NOT NULL,
  key_id    TEXT NOT NULL CHECK (key_id <> ''),
  prev      TEXT NOT NULL,
  signature BYTEA NOT NULL,
  PRIMARY KEY (tenant_id, number),
  UNIQUE (tenant_id, count)
);
CREATE TRIGGER audit_checkpoints_append_only BEFORE UPDATE OR DELETE ON audit_checkpoints FOR EACH ROW EXECUTE FUNCTION append_only();
