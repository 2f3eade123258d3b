-- What one run must do, worked out before it from the definitions, and not in the worker's way: no leaf is looked
-- for and nothing is climbed. Each row that has come of age is asked for all of its descendants.

CREATE SCHEMA demo;

-- Every row of the three tables, with the contents of all its columns.
CREATE VIEW demo.present (table_name, id, contents) AS
  SELECT 'identity.users', u.id, u::text FROM identity.users AS u
  UNION ALL
  SELECT 'identity.sign_in_confirmation_requests', r.id, r::text FROM identity.sign_in_confirmation_requests AS r
  UNION ALL
  SELECT 'identity.refresh_sessions', s.id, s::text FROM identity.refresh_sessions AS s;

CREATE TABLE demo.before AS TABLE demo.present;

-- Rows that have come of age: 30 days are 720 hours, 90 days are 2160, whatever the session's time zone.
CREATE TABLE demo.due (table_name, id) AS
  SELECT 'identity.sign_in_confirmation_requests', id FROM identity.sign_in_confirmation_requests
  WHERE isfinite(created_at) AND now() - created_at > interval '720 hours'
  UNION ALL
  SELECT 'identity.refresh_sessions', id FROM identity.refresh_sessions
  WHERE isfinite(updated_at) AND now() - updated_at > interval '2160 hours'
    AND status <> 'Active' AND status = ANY ('{Rotated,Revoked,Expired}');

-- A confirmation request goes when it is due; a session goes when it and all of its descendants are due.
CREATE TABLE demo.goes (table_name, id) AS
  WITH RECURSIVE family (elder, member) AS (
    SELECT id, id FROM demo.due WHERE table_name = 'identity.refresh_sessions'
    UNION ALL
    SELECT family.elder, child.id
    FROM family JOIN identity.refresh_sessions AS child ON child.parent_session_id = family.member)
  SELECT 'identity.refresh_sessions', family.elder
  FROM family LEFT JOIN demo.due ON due.table_name = 'identity.refresh_sessions' AND due.id = family.member
  GROUP BY family.elder
  HAVING bool_and(due.id IS NOT NULL)
  UNION ALL
  SELECT table_name, id FROM demo.due WHERE table_name = 'identity.sign_in_confirmation_requests';

ANALYZE demo.before, demo.due, demo.goes;
