-- Commands in containers cannot be told before this version.
DELETE FROM commands WHERE sandbox IN ('docker', 'podman');
ALTER TABLE commands DROP CONSTRAINT commands_sandbox_check;
ALTER TABLE commands ADD CONSTRAINT commands_sandbox_check CHECK (sandbox IN ('bubblewrap', 'none'));
ALTER TABLE commands DROP COLUMN mounts;
