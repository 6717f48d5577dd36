-- Row-level security is Postgres's; a SQLite database is that of one process.
SELECT 1;
