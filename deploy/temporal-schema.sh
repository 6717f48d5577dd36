#!/bin/sh
# Creates and updates the two databases of the Temporal server.
set -eu
tool() { temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u countersign --db "$@"; }
for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*} schema=${pair##*:}
  tool "$database" create
  tool "$database" setup-schema -v 0.0
  tool "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$schema/versioned"
done
