-- What a server was at: each pair of snapshot and target, once. Rows outlive the snapshot.
CREATE TABLE server_versions (
  tenant_id        TEXT COLLATE "C" NOT NULL,
  server_id        TEXT COLLATE "C" NOT NULL,
  pair_digest      TEXT COLLATE "C" NOT NULL,
  snapshot_digest  TEXT COLLATE "C" NOT NULL,
  target_digest    TEXT NOT NULL,
  number           BIGINT NOT NULL CHECK (number > 0),
  first_seen_at    TIMESTAMPTZ NOT NULL,
  protocol_version TEXT NOT NULL,
  server_name      TEXT NOT NULL,
  server_version   TEXT NOT NULL,
  tools            INTEGER NOT NULL,
  resources        INTEGER NOT NULL,
  templates        INTEGER NOT NULL,
  prompts          INTEGER NOT NULL,
  faulty           INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, server_id, pair_digest),
  UNIQUE (tenant_id, server_id, number),
  FOREIGN KEY (tenant_id, server_id) REFERENCES mcp_servers (tenant_id, server_id)
);

-- Of the time before, what was decided about and what is under review is known.
INSERT INTO server_versions
SELECT p.tenant_id, p.server_id, p.pair_digest, n.digest, min(p.target_digest),
  row_number() OVER (PARTITION BY p.tenant_id, p.server_id ORDER BY n.created_at, p.pair_digest),
  n.created_at, n.protocol_version, n.server_name, n.server_version,
  (SELECT count(*) FROM snapshot_items AS i WHERE i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest AND i.kind = 'tool'),
  (SELECT count(*) FROM snapshot_items AS i WHERE i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest AND i.kind = 'resource'),
  (SELECT count(*) FROM snapshot_items AS i WHERE i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest AND i.kind = 'template'),
  (SELECT count(*) FROM snapshot_items AS i WHERE i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest AND i.kind = 'prompt'),
  (SELECT count(*) FROM snapshot_items AS i WHERE i.tenant_id = n.tenant_id AND i.snapshot_digest = n.digest AND i.verdict <> '')
FROM (
  SELECT tenant_id, server_id, review_digest AS pair_digest, review_snapshot AS snapshot_digest, review_target AS target_digest
  FROM mcp_servers WHERE review_snapshot <> ''
  UNION
  SELECT tenant_id, server_id, digest, snapshot_digest, target_digest
  FROM decisions WHERE applied AND verb IN ('approve', 'reject') AND snapshot_digest <> ''
) AS p
JOIN snapshots AS n ON n.tenant_id = p.tenant_id AND n.digest = p.snapshot_digest
GROUP BY p.tenant_id, p.server_id, p.pair_digest, n.tenant_id, n.digest, n.created_at, n.protocol_version, n.server_name, n.server_version;

-- Tools that a probe saw otherwise than they were approved.
ALTER TABLE probes ADD COLUMN differing TEXT NOT NULL DEFAULT '[]';
ALTER TABLE mcp_servers ADD COLUMN doubted BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE mcp_tool_bindings ADD COLUMN doubted BOOLEAN NOT NULL DEFAULT FALSE;
