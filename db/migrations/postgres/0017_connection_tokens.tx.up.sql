-- Where an issuer gives tokens, if not at its own origin, and which scopes may be asked for besides.
ALTER TABLE connections
  ADD COLUMN token_endpoint TEXT NOT NULL DEFAULT '',
  ADD COLUMN step_up_scopes TEXT;
