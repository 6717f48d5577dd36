-- What of the machine's files a command's sandbox has besides.
CREATE TABLE commands_new (
  tenant_id     TEXT NOT NULL,
  target_digest TEXT NOT NULL,
  ref           TEXT NOT NULL,
  argv          TEXT NOT NULL,
  image         TEXT NOT NULL,
  dir           TEXT NOT NULL,
  env           TEXT NOT NULL,
  network       BOOLEAN NOT NULL,
  sandbox       TEXT NOT NULL CHECK (sandbox IN ('bubblewrap', 'docker', 'podman', 'none')),
  created_at    TIMESTAMP NOT NULL,
  mounts        TEXT NOT NULL DEFAULT 'null',
  PRIMARY KEY (tenant_id, target_digest)
);
INSERT INTO commands_new (tenant_id, target_digest, ref, argv, image, dir, env, network, sandbox, created_at)
  SELECT tenant_id, target_digest, ref, argv, image, dir, env, network, sandbox, created_at FROM commands;
DROP TABLE commands;
ALTER TABLE commands_new RENAME TO commands;
