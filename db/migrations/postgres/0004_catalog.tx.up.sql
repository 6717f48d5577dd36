ALTER TABLE tools ADD COLUMN requires_approval BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE mcp_resource_bindings ADD COLUMN unbound_by TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_prompt_bindings ADD COLUMN unbound_by TEXT NOT NULL DEFAULT '';
CREATE INDEX mcp_tool_bindings_descriptor ON mcp_tool_bindings (tenant_id, tool_id, tool_version);

-- What tools are found by: words in lower case between single blanks, made by the program.
CREATE TABLE tool_search (
  id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id    TEXT COLLATE "C" NOT NULL,
  server_id    TEXT COLLATE "C" NOT NULL,
  external_key TEXT COLLATE "C" NOT NULL,
  names        TEXT NOT NULL,
  titles       TEXT NOT NULL,
  words        TEXT NOT NULL,
  UNIQUE (tenant_id, server_id, external_key),
  FOREIGN KEY (tenant_id, server_id, external_key) REFERENCES tools ON DELETE CASCADE
);
CREATE INDEX tool_search_words ON tool_search USING gin (array_to_tsvector(string_to_array(words, ' ')));

ALTER TABLE descriptors ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE descriptors ADD COLUMN published_at TIMESTAMPTZ;
ALTER TABLE descriptors ADD COLUMN published_by TEXT NOT NULL DEFAULT '';
ALTER TABLE descriptors ADD COLUMN deprecated_at TIMESTAMPTZ;
ALTER TABLE descriptors ADD COLUMN deprecated_by TEXT NOT NULL DEFAULT '';
UPDATE descriptors SET published_at = created_at, published_by = created_by WHERE status = 'published';
CREATE FUNCTION descriptors_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'versions of descriptors are immutable';
END $$;
CREATE TRIGGER descriptors_keep BEFORE DELETE ON descriptors FOR EACH ROW EXECUTE FUNCTION descriptors_immutable();
CREATE TRIGGER descriptors_immutable BEFORE UPDATE ON descriptors FOR EACH ROW WHEN (
  (OLD.tenant_id, OLD.descriptor_id, OLD.version, OLD.class, OLD.description, OLD.server_id, OLD.schema_hash, OLD.created_at, OLD.created_by)
  IS DISTINCT FROM
  (NEW.tenant_id, NEW.descriptor_id, NEW.version, NEW.class, NEW.description, NEW.server_id, NEW.schema_hash, NEW.created_at, NEW.created_by)
  OR NOT (OLD.status = 'draft' OR OLD.status = 'published' AND NEW.status = 'deprecated')
) EXECUTE FUNCTION descriptors_immutable();

CREATE TABLE assignments (
  tenant_id     TEXT COLLATE "C" NOT NULL,
  agent         TEXT COLLATE "C" NOT NULL CHECK (agent <> ''),
  tool_key      TEXT COLLATE "C" NOT NULL, -- tool_id, made short enough for an index
  workspace     TEXT COLLATE "C" NOT NULL, -- a label; empty: everywhere
  tool_id       TEXT COLLATE "C" NOT NULL,
  assignment_id TEXT COLLATE "C" NOT NULL,
  created_at    TIMESTAMPTZ NOT NULL,
  created_by    TEXT NOT NULL,
  PRIMARY KEY (tenant_id, agent, tool_key, workspace),
  UNIQUE (tenant_id, assignment_id)
);
CREATE INDEX assignments_tool ON assignments (tenant_id, tool_key);

-- The last number given to an event of what is no server.
CREATE TABLE event_sequences (
  tenant_id TEXT COLLATE "C" NOT NULL,
  aggregate TEXT COLLATE "C" NOT NULL,
  seq       BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, aggregate)
);

-- When a discovery last saw what the snapshot holds, to the day.
ALTER TABLE snapshots ADD COLUMN seen_at TIMESTAMPTZ;
UPDATE snapshots SET seen_at = created_at;
CREATE INDEX snapshots_seen ON snapshots (seen_at, tenant_id, digest);
CREATE INDEX snapshot_items_definition ON snapshot_items (tenant_id, definition_digest);
CREATE INDEX decisions_snapshot ON decisions (tenant_id, snapshot_digest);
