DROP TABLE audit_checkpoints, audit_heads;
DROP INDEX audit_unsealed, audit_name;
DROP TRIGGER audit_append_only ON audit;
UPDATE audit SET position = NULL, prev_hash = NULL, hash = NULL WHERE position IS NOT NULL;
ALTER TABLE audit DROP COLUMN object_name;
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit FOR EACH ROW WHEN (
  OLD.hash IS NOT NULL OR
  (OLD.id, OLD.tx, OLD.audit_id, OLD.tenant_id, OLD.at, OLD.actor, OLD.roles, OLD.origin, OLD.action, OLD.object_kind, OLD.object_id,
   OLD.operation_id, OLD.outcome, OLD.reason, OLD.version_before, OLD.version_after, OLD.digest_before, OLD.digest_after, OLD.note, OLD.detail)
  IS DISTINCT FROM
  (NEW.id, NEW.tx, NEW.audit_id, NEW.tenant_id, NEW.at, NEW.actor, NEW.roles, NEW.origin, NEW.action, NEW.object_kind, NEW.object_id,
   NEW.operation_id, NEW.outcome, NEW.reason, NEW.version_before, NEW.version_after, NEW.digest_before, NEW.digest_after, NEW.note, NEW.detail)
) EXECUTE FUNCTION append_only();
