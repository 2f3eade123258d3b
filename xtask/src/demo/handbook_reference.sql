-- What one run under the handbook's policies must do, worked out before it from the handbook's words. Nothing of the
-- worker's statements and nothing of the policy file is used. Periods are hours, whatever the session's time zone.

CREATE SCHEMA demo;

-- Every row of the service, with the contents of all its columns. A row of the archive counts as the row it was: so a row
-- that moved is still there, as it was, and one that is in both tables differs from what it was.
CREATE VIEW demo.present (table_name, id, contents) AS
  SELECT 'review.outbox', id::text, row::text FROM review.outbox AS row
  UNION ALL SELECT 'review.sessions', id::text, row::text FROM review.sessions AS row
  UNION ALL SELECT 'review.rate_limit_violations', id::text, row::text FROM review.rate_limit_violations AS row
  UNION ALL SELECT 'review.audit_log', id::text, row::text FROM review.audit_log AS row
  UNION ALL SELECT 'review.idempotency_keys', key, row::text FROM review.idempotency_keys AS row
  UNION ALL SELECT 'review.failed_logins', id::text, row::text FROM review.failed_logins AS row
  UNION ALL SELECT 'review.upload_sessions', id::text, row::text FROM review.upload_sessions AS row
  UNION ALL SELECT 'review.webhook_deliveries', id::text, row::text FROM review.webhook_deliveries AS row
  UNION ALL SELECT 'review.reviews', id::text, row::text FROM review.reviews AS row
  UNION ALL SELECT 'review.moderation_decisions', id::text, row::text FROM review.moderation_decisions AS row
  UNION ALL SELECT 'review.moderation_decisions, with its archive', id::text, string_agg(contents, ' and again ')
    FROM (SELECT id, row::text AS contents FROM review.moderation_decisions AS row
      UNION ALL SELECT id, row::text FROM review.moderation_decisions_archive AS row) AS both_tables
    GROUP BY id;

CREATE TABLE demo.before AS TABLE demo.present;

CREATE FUNCTION demo.older(at timestamptz, hours integer) RETURNS boolean LANGUAGE sql STABLE AS
  $$ SELECT coalesce(isfinite(at) AND now() - at > make_interval(hours => hours), FALSE) $$;

CREATE TABLE demo.due (table_name, id) AS
  SELECT 'review.outbox', id::text FROM review.outbox
  WHERE NOT offset_acked IS NULL AND demo.older(created_at, 7 * 24)
  UNION ALL SELECT 'review.sessions', id::text FROM review.sessions WHERE demo.older(created_at, 30 * 24)
  UNION ALL SELECT 'review.rate_limit_violations', id::text FROM review.rate_limit_violations
  WHERE demo.older(created_at, 90 * 24)
  UNION ALL SELECT 'review.audit_log', id::text FROM review.audit_log
  WHERE CASE
    WHEN action IS NULL OR action = 'delete_requested' THEN FALSE
    WHEN action ~ '^(login_(success|failed)|(password|role)_change|(un)?ban)$' THEN demo.older(created_at, 365 * 24)
    ELSE demo.older(created_at, 180 * 24) END
  UNION ALL SELECT 'review.idempotency_keys', key FROM review.idempotency_keys WHERE demo.older(created_at, 24)
  UNION ALL SELECT 'review.failed_logins', id::text FROM review.failed_logins WHERE demo.older(created_at, 30 * 24)
  UNION ALL SELECT 'review.upload_sessions', id::text FROM review.upload_sessions
  WHERE completed_at IS NULL AND demo.older(created_at, 24)
  UNION ALL SELECT 'review.webhook_deliveries', id::text FROM review.webhook_deliveries
  WHERE demo.older(created_at, 30 * 24)
  UNION ALL SELECT 'review.reviews', id::text FROM review.reviews WHERE demo.older(deleted_at, 90 * 24)
  UNION ALL SELECT 'review.moderation_decisions', id::text FROM review.moderation_decisions
  WHERE demo.older(created_at, 730 * 24);

-- Nothing is held back here: no table refers to itself.
CREATE TABLE demo.goes AS TABLE demo.due;

ANALYZE demo.before, demo.due, demo.goes;
