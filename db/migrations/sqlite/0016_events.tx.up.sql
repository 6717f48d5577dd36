-- Who wants to be told: subscriptions; what is told to whom: deliveries, in order along a lane for each subject; and what others tell us.
ALTER TABLE outbox ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN relayed BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE outbox SET relayed = TRUE; -- nobody could subscribe before
CREATE INDEX outbox_unrelayed ON outbox (id) WHERE NOT relayed;
CREATE INDEX outbox_age ON outbox (occurred_at);
CREATE INDEX outbox_of_tenant ON outbox (tenant_id, tx, id);

CREATE TABLE event_subscriptions (
  tenant_id       TEXT NOT NULL,
  subscription_id TEXT NOT NULL,
  direction       TEXT NOT NULL CHECK (direction IN ('send', 'receive')),
  description     TEXT NOT NULL,
  url             TEXT NOT NULL,
  types           TEXT NOT NULL, -- JSON
  subjects        TEXT NOT NULL, -- JSON
  secret          TEXT NOT NULL, -- a reference
  previous_secret TEXT NOT NULL, -- a reference
  enabled         BOOLEAN NOT NULL,
  version         INTEGER NOT NULL,
  created_at      TIMESTAMP NOT NULL,
  created_by      TEXT NOT NULL,
  updated_at      TIMESTAMP NOT NULL,
  PRIMARY KEY (tenant_id, subscription_id)
);

CREATE TABLE event_deliveries (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant_id    TEXT NOT NULL,
  sink         TEXT NOT NULL, -- a subscription's id, or one of the installation's
  event_id     TEXT NOT NULL,
  event_type   TEXT NOT NULL,
  aggregate    TEXT NOT NULL,
  seq          INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dead')),
  attempts     INTEGER NOT NULL,
  status       INTEGER NOT NULL, -- HTTP, of the last attempt
  problem      TEXT NOT NULL,    -- of the last attempt
  created_at   TIMESTAMP NOT NULL,
  first_at     TIMESTAMP, -- attempt
  last_at      TIMESTAMP,
  UNIQUE (tenant_id, sink, event_id)
);
CREATE INDEX event_deliveries_pending ON event_deliveries (tenant_id, sink, aggregate, seq) WHERE state = 'pending';
CREATE INDEX event_deliveries_log ON event_deliveries (tenant_id, sink, id);
CREATE INDEX event_deliveries_dead ON event_deliveries (tenant_id, sink, id) WHERE state = 'dead';
CREATE INDEX event_deliveries_owed ON event_deliveries (tenant_id, event_id) WHERE state <> 'delivered';
CREATE INDEX event_deliveries_age ON event_deliveries (state, created_at);

-- There is a lane where a delivery is pending. Who has its lease delivers, from its lowest number on.
CREATE TABLE event_lanes (
  tenant_id TEXT NOT NULL,
  sink      TEXT NOT NULL,
  aggregate TEXT NOT NULL,
  due_at    TIMESTAMP NOT NULL,
  lease     TEXT NOT NULL,
  PRIMARY KEY (tenant_id, sink, aggregate)
);
CREATE INDEX event_lanes_due ON event_lanes (due_at);

CREATE TABLE inbound_events (
  tenant_id       TEXT NOT NULL,
  subscription_id TEXT NOT NULL,
  event_id        TEXT NOT NULL,
  event_type      TEXT NOT NULL,
  data            TEXT NOT NULL,
  state           TEXT NOT NULL CHECK (state IN ('queued', 'done', 'failed')),
  attempts        INTEGER NOT NULL,
  problem         TEXT NOT NULL,
  received_at     TIMESTAMP NOT NULL,
  due_at          TIMESTAMP NOT NULL,
  lease           TEXT NOT NULL,
  PRIMARY KEY (tenant_id, subscription_id, event_id)
);
CREATE INDEX inbound_events_due ON inbound_events (due_at) WHERE state = 'queued';
CREATE INDEX inbound_events_age ON inbound_events (received_at) WHERE state <> 'queued';
