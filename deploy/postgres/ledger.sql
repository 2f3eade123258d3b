-- The ledger of the retention worker: one row for each batch it deleted, written in the transaction of the delete, so
-- that the sum of "rows" is exactly what is gone. It holds no personal data: how many rows went, from which table, under
-- which policy and cutoff, and when.
--
-- Run once, as whoever shall own the ledger, and name the table in SESSION_RETENTION_AUDIT_TABLE (for the two built-in
-- policies) or as audit_table of a declared policy:
--
--   psql "$OWNER_URL" --set ON_ERROR_STOP=1 --file deploy/postgres/ledger.sql
--
-- The worker's role may insert and nothing else: what it has recorded, it cannot change.

CREATE SCHEMA IF NOT EXISTS retention;

CREATE TABLE IF NOT EXISTS retention.ledger (
  job_run_id uuid NOT NULL,
  policy text NOT NULL,
  table_name text NOT NULL,
  cutoff timestamptz NOT NULL,
  rows bigint NOT NULL CHECK (rows > 0),
  deleted_at timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS ix_ledger_deleted_at ON retention.ledger (deleted_at);

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'session_retention') THEN
    GRANT USAGE ON SCHEMA retention TO session_retention;
    GRANT INSERT ON retention.ledger TO session_retention;
  END IF;
END $$;
