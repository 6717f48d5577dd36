#!/bin/sh
# Makes the logins of the api and the workers, which own nothing, when the database is made. `countersign migrate up`
# lets each run transactions as its role.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$COUNTERSIGN_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE countersign_api LOGIN PASSWORD :'password';
CREATE ROLE countersign_worker LOGIN PASSWORD :'password';
SQL
