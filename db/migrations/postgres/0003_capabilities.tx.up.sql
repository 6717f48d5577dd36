-- The arguments of a tool, as a JSON array; NULL: nobody looked yet.
ALTER TABLE definitions ADD COLUMN args TEXT;

-- The version that the server gives itself; empty: none, or nobody looked.
ALTER TABLE probes ADD COLUMN server_version TEXT NOT NULL DEFAULT '';
