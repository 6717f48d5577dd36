DROP TRIGGER audit_hinted ON audit;
DROP FUNCTION hint_change();
DROP TRIGGER providers_recorded ON providers;
DROP FUNCTION record_provider();
DROP TABLE fact_records;
