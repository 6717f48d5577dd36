ALTER TABLE tools DROP COLUMN origin;
DROP TABLE provider_contributions, provider_servers;
ALTER TABLE providers DROP CONSTRAINT providers_one_family;
ALTER TABLE providers
  DROP COLUMN refresh, DROP COLUMN config, DROP COLUMN version, DROP COLUMN created_by, DROP COLUMN governance_policy_ref,
  DROP COLUMN exception_reason, DROP COLUMN authentication, DROP COLUMN extension_id, DROP COLUMN base_url, DROP COLUMN description;
