DROP TABLE inbound_events;
DROP TABLE event_lanes;
DROP TABLE event_deliveries;
DROP TABLE event_subscriptions;
DROP INDEX outbox_of_tenant;
DROP INDEX outbox_age;
DROP INDEX outbox_unrelayed;
ALTER TABLE outbox DROP COLUMN relayed;
ALTER TABLE outbox DROP COLUMN traceparent;
