ALTER TABLE tools ADD COLUMN requires_approval BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE mcp_resource_bindings ADD COLUMN unbound_by TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_prompt_bindings ADD COLUMN unbound_by TEXT NOT NULL DEFAULT '';
CREATE INDEX mcp_tool_bindings_descriptor ON mcp_tool_bindings (tenant_id, tool_id, tool_version);

-- What tools are found by: words in lower case between single blanks, made by the program.
CREATE TABLE tool_search (
  id           INTEGER PRIMARY KEY,
  tenant_id    TEXT NOT NULL,
  server_id    TEXT NOT NULL,
  external_key TEXT NOT NULL,
  names        TEXT NOT NULL,
  titles       TEXT NOT NULL,
  words        TEXT NOT NULL,
  UNIQUE (tenant_id, server_id, external_key),
  FOREIGN KEY (tenant_id, server_id, external_key) REFERENCES tools ON DELETE CASCADE
);
-- The tokenizer separates at blanks and leaves all that is not ASCII as it is.
CREATE VIRTUAL TABLE tool_words USING fts5 (words, content = 'tool_search', content_rowid = 'id', tokenize = 'ascii', prefix = '2 3', detail = 'none');
CREATE TRIGGER tool_search_insert AFTER INSERT ON tool_search BEGIN INSERT INTO tool_words (rowid, words) VALUES (NEW.id, NEW.words); END;
CREATE TRIGGER tool_search_delete AFTER DELETE ON tool_search BEGIN INSERT INTO tool_words (tool_words, rowid, words) VALUES ('delete', OLD.id, OLD.words); END;
CREATE TRIGGER tool_search_update AFTER UPDATE ON tool_search BEGIN INSERT INTO tool_words (tool_words, rowid, words) VALUES ('delete', OLD.id, OLD.words); INSERT INTO tool_words (rowid, words) VALUES (NEW.id, NEW.words); END;

ALTER TABLE descriptors ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE descriptors ADD COLUMN published_at TIMESTAMP;
ALTER TABLE descriptors ADD COLUMN published_by TEXT NOT NULL DEFAULT '';
ALTER TABLE descriptors ADD COLUMN deprecated_at TIMESTAMP;
ALTER TABLE descriptors ADD COLUMN deprecated_by TEXT NOT NULL DEFAULT '';
UPDATE descriptors SET published_at = created_at, published_by = created_by WHERE status = 'published';
CREATE TRIGGER descriptors_keep BEFORE DELETE ON descriptors BEGIN SELECT RAISE(ABORT, 'versions of descriptors are kept'); END;
CREATE TRIGGER descriptors_immutable BEFORE UPDATE ON descriptors WHEN
  (OLD.tenant_id, OLD.descriptor_id, OLD.version, OLD.class, OLD.description, OLD.server_id, OLD.schema_hash, OLD.created_at, OLD.created_by)
  IS NOT
  (NEW.tenant_id, NEW.descriptor_id, NEW.version, NEW.class, NEW.description, NEW.server_id, NEW.schema_hash, NEW.created_at, NEW.created_by)
  OR NOT (OLD.status = 'draft' OR OLD.status = 'published' AND NEW.status = 'deprecated')
BEGIN SELECT RAISE(ABORT, 'versions of descriptors are immutable'); END;

CREATE TABLE assignments (
  tenant_id     TEXT NOT NULL,
  agent         TEXT NOT NULL CHECK (agent <> ''),
  tool_key      TEXT NOT NULL, -- tool_id, made short enough for an index
  workspace     TEXT NOT NULL, -- a label; empty: everywhere
  tool_id       TEXT NOT NULL,
  assignment_id TEXT NOT NULL,
  created_at    TIMESTAMP NOT NULL,
  created_by    TEXT NOT NULL,
  PRIMARY KEY (tenant_id, agent, tool_key, workspace),
  UNIQUE (tenant_id, assignment_id)
);
CREATE INDEX assignments_tool ON assignments (tenant_id, tool_key);

-- The last number given to an event of what is no server.
CREATE TABLE event_sequences (
  tenant_id TEXT NOT NULL,
  aggregate TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, aggregate)
);

-- When a discovery last saw what the snapshot holds, to the day.
ALTER TABLE snapshots ADD COLUMN seen_at TIMESTAMP;
UPDATE snapshots SET seen_at = created_at;
CREATE INDEX snapshots_seen ON snapshots (seen_at, tenant_id, digest);
CREATE INDEX snapshot_items_definition ON snapshot_items (tenant_id, definition_digest);
CREATE INDEX decisions_snapshot ON decisions (tenant_id, snapshot_digest);
