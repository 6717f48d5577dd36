-- What decides whether a tool may be called, as it was from each change on: what is to be known of the past. Rows are only
-- ever added, and not for what was before.
CREATE TABLE fact_records (
  id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id TEXT COLLATE "C" NOT NULL,
  kind      TEXT COLLATE "C" NOT NULL CHECK (kind IN ('server', 'provider', 'tool', 'assignment')),
  item_key  TEXT COLLATE "C" NOT NULL,
  at        TIMESTAMPTZ NOT NULL,
  facts     TEXT NOT NULL -- JSON
);
CREATE INDEX fact_records_item ON fact_records (tenant_id, kind, item_key, at, id);
ALTER TABLE fact_records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE TRIGGER fact_records_append_only BEFORE UPDATE OR DELETE ON fact_records FOR EACH ROW EXECUTE FUNCTION append_only();

-- By whatever way a provider is switched.
CREATE FUNCTION record_provider() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO fact_records (tenant_id, kind, item_key, at, facts)
  VALUES (NEW.tenant_id, 'provider', NEW.provider_id, clock_timestamp(), json_build_object('enabled', NEW.enabled)::text);
  RETURN NULL;
END $$;
CREATE TRIGGER providers_recorded AFTER UPDATE ON providers FOR EACH ROW WHEN (OLD.enabled <> NEW.enabled) EXECUTE FUNCTION record_provider();

-- A hint for those who follow changes: they look at once, and would have looked anyway.
CREATE FUNCTION hint_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('countersign_changes', '');
  RETURN NULL;
END $$;
CREATE TRIGGER audit_hinted AFTER INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION hint_change();
