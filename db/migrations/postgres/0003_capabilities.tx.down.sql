ALTER TABLE probes DROP COLUMN server_version;
ALTER TABLE definitions DROP COLUMN args;
