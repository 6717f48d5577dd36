-- How long an outcome goes on, and how often it turned of late.
ALTER TABLE probes ADD COLUMN streak INTEGER NOT NULL DEFAULT 0;
ALTER TABLE probes ADD COLUMN flaps INTEGER NOT NULL DEFAULT 0;
-- Servers that kept us waiting are probed apart, and not before a time.
ALTER TABLE server_probe_state ADD COLUMN slow BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE server_probe_state ADD COLUMN not_before TIMESTAMP;
