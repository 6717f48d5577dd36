ALTER TABLE server_probe_state DROP COLUMN not_before;
ALTER TABLE server_probe_state DROP COLUMN slow;
ALTER TABLE probes DROP COLUMN flaps;
ALTER TABLE probes DROP COLUMN streak;
