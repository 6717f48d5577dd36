-- What of the machine's files a command's sandbox has besides.
ALTER TABLE commands ADD COLUMN mounts TEXT NOT NULL DEFAULT 'null';
ALTER TABLE commands DROP CONSTRAINT commands_sandbox_check;
ALTER TABLE commands ADD CONSTRAINT commands_sandbox_check CHECK (sandbox IN ('bubblewrap', 'docker', 'podman', 'none'));
