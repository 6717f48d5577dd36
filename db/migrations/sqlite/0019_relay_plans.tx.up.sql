-- What waits in the order in which it came, so that the oldest is found without looking at what was delivered.
CREATE INDEX event_deliveries_waiting ON event_deliveries (id) WHERE state = 'pending';
