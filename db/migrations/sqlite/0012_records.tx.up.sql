-- What decides whether a tool may be called, as it was from each change on: what is to be known of the past. Rows are only
-- ever added, and not for what was before.
CREATE TABLE fact_records (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant_id TEXT NOT NULL,
  kind      TEXT NOT NULL CHECK (kind IN ('server', 'provider', 'tool', 'assignment')),
  item_key  TEXT NOT NULL,
  at        TIMESTAMP NOT NULL,
  facts     TEXT NOT NULL -- JSON
);
CREATE INDEX fact_records_item ON fact_records (tenant_id, kind, item_key, at, id);
CREATE TRIGGER fact_records_no_update BEFORE UPDATE ON fact_records BEGIN SELECT RAISE(ABORT, 'fact_records is append-only'); END;
CREATE TRIGGER fact_records_no_delete BEFORE DELETE ON fact_records BEGIN SELECT RAISE(ABORT, 'fact_records is append-only'); END;

-- By whatever way a provider is switched.
CREATE TRIGGER providers_recorded AFTER UPDATE OF enabled ON providers WHEN OLD.enabled <> NEW.enabled BEGIN
  INSERT INTO fact_records (tenant_id, kind, item_key, at, facts)
  VALUES (NEW.tenant_id, 'provider', NEW.provider_id, strftime('%Y-%m-%d %H:%M:%f+00:00', 'now'),
    json_object('enabled', json(CASE WHEN NEW.enabled THEN 'true' ELSE 'false' END)));
END;
