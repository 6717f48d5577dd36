ALTER TABLE connections DROP COLUMN step_up_scopes, DROP COLUMN token_endpoint;
