-- Rows of the example service for `cargo xtask demo --handbook`: $ROWS in each table, of all ages and kinds, and some by
-- hand close to the limits. Every row that is not due yet stays half an hour clear of it, for machines that are slow.

SELECT setseed($SEED);

-- Some whole hours and a half ago: limits are whole hours.
CREATE FUNCTION pg_temp.demo_age(hours integer) RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT now() - make_interval(hours => floor(random() * hours)::integer, mins => 30) $$;

INSERT INTO review.outbox (topic, payload, created_at, offset_acked)
SELECT 'review.created', '{"synthetic": true}', pg_temp.demo_age(480),
  CASE WHEN random() < 0.9 THEN n END
FROM generate_series(1, $ROWS) AS n;
INSERT INTO review.outbox (topic, payload, created_at, offset_acked) VALUES
  ('acknowledged, just due', '{}', now() - interval '168 hours 1 microsecond', 1),
  ('acknowledged, not yet due', '{}', now() - interval '167 hours', 1),
  ('never acknowledged', '{}', now() - interval '10 years', NULL),
  ('undated', '{}', 'infinity', 1),
  ('undated', '{}', '-infinity', 1);

INSERT INTO review.sessions (user_id, device, token_hash, created_at)
SELECT n, 'synthetic-device', decode(md5(n::text), 'hex'), pg_temp.demo_age(1440)
FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.rate_limit_violations (client_hash, route, created_at)
SELECT decode(md5(n::text), 'hex'), '/reviews', pg_temp.demo_age(4320)
FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.audit_log (actor_id, entity_type, entity_id, action, payload, created_at)
SELECT n, 'review', n,
  (ARRAY['review_created', 'review_updated', 'photo_added', 'login_success', 'login_failed', 'password_change',
    'role_change', 'ban', 'unban', 'delete_requested'])[1 + n % 10],
  '{"synthetic": true}', pg_temp.demo_age(17520)
FROM generate_series(1, $ROWS) AS n;
INSERT INTO review.audit_log (action, created_at) VALUES
  ('delete_requested', now() - interval '20 years'),
  ('login_failed', now() - interval '8759 hours'),
  ('login_failed', now() - interval '8760 hours 1 microsecond'),
  ('Login_Failed', now() - interval '4321 hours'),
  (NULL, now() - interval '20 years'),
  ('photo_added', NULL);

INSERT INTO review.idempotency_keys (key, response, created_at)
SELECT 'key-' || n, '{}', pg_temp.demo_age(72) FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.failed_logins (login_hash, created_at)
SELECT decode(md5(n::text), 'hex'), pg_temp.demo_age(1440) FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.upload_sessions (user_id, object_key, created_at, completed_at)
SELECT n, 'synthetic/' || n, pg_temp.demo_age(96), CASE WHEN n % 3 > 0 THEN now() END
FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.webhook_deliveries (endpoint_id, status, created_at)
SELECT n, 200, pg_temp.demo_age(1440) FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.reviews (author_id, subject_id, body, created_at, deleted_at)
SELECT n, 1, 'synthetic', now() - interval '5 years', CASE WHEN n % 2 = 0 THEN pg_temp.demo_age(4320) END
FROM generate_series(1, $ROWS) AS n;

INSERT INTO review.moderation_decisions (review_id, verdict, reason, created_at)
SELECT n, 'kept', 'synthetic', pg_temp.demo_age(35040) FROM generate_series(1, $ROWS) AS n;

ANALYZE;
