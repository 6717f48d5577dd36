DROP INDEX event_deliveries_waiting;
