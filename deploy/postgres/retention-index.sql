-- The optional index for phase B of the retention job (identity.refresh_sessions).
--
--   psql "$DATABASE_URL" --set ON_ERROR_STOP=1 --file retention-index.sql
--
-- What for: the job takes terminal sessions oldest `updated_at` first, in pages that end at an (updated_at, id).
-- With this index a page is read where it begins, also when millions of rows that must stay surround the due
-- ones; without it the table is scanned. The condition is the job's own list of terminal statuses: keep the two
-- the same, or the planner cannot use the index. Active sessions are not in it, so a sign-in does not pay for
-- it; ending a session does, once.
--
-- Run it as the owner of the table, outside of a transaction (psql's default; not with --single-transaction).
-- CONCURRENTLY does not stop reads or writes, but it waits for transactions that are already open, so one that
-- was forgotten holds it up.
--
-- A build that was interrupted (cancelled, connection lost, disk full) leaves an INVALID index: every write
-- maintains it, no query uses it, and IF NOT EXISTS below takes it for done. Notice it with
--
--   SELECT c.oid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
--   WHERE i.indrelid = 'identity.refresh_sessions'::regclass AND NOT i.indisvalid;
--
-- and if this names the index while no build is under way (pg_stat_progress_create_index is empty), drop it and
-- run this file again:
--
--   DROP INDEX CONCURRENTLY identity.ix_refresh_sessions_terminal_updated_at;
--
-- If `status` is an enum type instead of text, use a plain index on (updated_at, id): the worker compares the status as
-- text, so the planner cannot use a partial index over an enum. `retention-worker check` says which one serves.

CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_refresh_sessions_terminal_updated_at
  ON identity.refresh_sessions (updated_at, id)
  WHERE status IN ('Rotated', 'Revoked', 'Expired');
