DROP TRIGGER providers_recorded;
DROP TABLE fact_records;
