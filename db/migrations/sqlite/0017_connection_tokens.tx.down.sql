ALTER TABLE connections DROP COLUMN step_up_scopes;
ALTER TABLE connections DROP COLUMN token_endpoint;
