-- Least privilege for the retention worker: what it needs for its two built-in policies, and nothing more.
-- Safe to run again.
--
--   psql "$DATABASE_URL" --set ON_ERROR_STOP=1 --set worker=session_retention --file grants.sql
--
-- Run it as the owner of the tables, or as a superuser. `worker` names the role (default: session_retention);
-- it is created without a password if it does not exist, which takes the right to create roles. How it logs in
-- is up to pg_hba.conf or ALTER ROLE … PASSWORD.
--
-- Per table: SELECT to find rows, DELETE to remove them, and UPDATE on the column `id` alone, because the row
-- lock (SELECT … FOR UPDATE SKIP LOCKED) asks for UPDATE on at least one column. The worker never updates a row.
--
-- Not granted: INSERT, TRUNCATE, UPDATE of any other column, identity.users, any DDL. CONNECT is PUBLIC's unless it
-- was revoked. Declared policies need the same three on their own tables, and INSERT on an archive table
-- or a ledger: grant those beside this file.

\if :{?worker}
\else
  \set worker session_retention
\endif

SELECT format('CREATE ROLE %I LOGIN', :'worker')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'worker')
\gexec

BEGIN;
GRANT USAGE ON SCHEMA identity TO :"worker";
GRANT SELECT, DELETE, UPDATE (id)
  ON identity.sign_in_confirmation_requests, identity.refresh_sessions
  TO :"worker";
COMMIT;
