-- Commands in containers cannot be told before this version.
CREATE TABLE commands_old (
  tenant_id     TEXT NOT NULL,
  target_digest TEXT NOT NULL,
  ref           TEXT NOT NULL,
  argv          TEXT NOT NULL,
  image         TEXT NOT NULL,
  dir           TEXT NOT NULL,
  env           TEXT NOT NULL,
  network       BOOLEAN NOT NULL,
  sandbox       TEXT NOT NULL CHECK (sandbox IN ('bubblewrap', 'none')),
  created_at    TIMESTAMP NOT NULL,
  PRIMARY KEY (tenant_id, target_digest)
);
INSERT INTO commands_old (tenant_id, target_digest, ref, argv, image, dir, env, network, sandbox, created_at)
  SELECT tenant_id, target_digest, ref, argv, image, dir, env, network, sandbox, created_at FROM commands WHERE sandbox IN ('bubblewrap', 'none');
DROP TABLE commands;
ALTER TABLE commands_old RENAME TO commands;
