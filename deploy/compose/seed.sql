-- Synthetic rows for compose.yaml, as the owner of the tables; safe to run again. Nothing in them is anybody's.
--
-- 60,000 confirmation requests and 60,000 sessions in chains of six, up to 120 days old. Of them are due: the requests
-- older than 30 days, the chains whose every session ended more than 90 days ago.

ALTER ROLE session_retention PASSWORD 'only-for-this-stack';

INSERT INTO identity.users (id)
SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid
FROM generate_series(1, 1000) AS n
ON CONFLICT DO NOTHING;

INSERT INTO identity.sign_in_confirmation_requests
  (id, user_id, phone_number, code_hash, status, ip_address, user_agent, created_at, expires_at)
SELECT
  ('10000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
  ('00000000-0000-4000-8000-' || lpad(to_hex(1 + n % 1000), 12, '0'))::uuid,
  '+1555' || lpad(n::text, 7, '0'), '\x00',
  (ARRAY['Pending', 'Confirmed', 'Expired', 'Exhausted', 'Superseded'])[1 + n % 5],
  '192.0.2.1', 'synthetic',
  now() - n * interval '120 days' / 60000, now() - n * interval '120 days' / 60000 + interval '5 minutes'
FROM generate_series(1, 60000) AS n
ON CONFLICT DO NOTHING;

-- Chain c has the sessions 6c to 6c + 5, each a day younger than its parent. The youngest of every fourth is Active.
INSERT INTO identity.refresh_sessions
  (id, user_id, token_hash, parent_session_id, status, ip_address, user_agent, created_at, updated_at, expires_at)
SELECT
  ('20000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
  ('00000000-0000-4000-8000-' || lpad(to_hex(1 + n / 6 % 1000), 12, '0'))::uuid,
  decode(lpad(to_hex(n), 8, '0'), 'hex'),
  CASE WHEN n % 6 > 0 THEN ('20000000-0000-4000-8000-' || lpad(to_hex(n - 1), 12, '0'))::uuid END,
  CASE WHEN n % 6 < 5 THEN 'Rotated' WHEN n / 6 % 4 = 0 THEN 'Active' ELSE 'Revoked' END,
  '192.0.2.1', 'synthetic', ended - interval '1 day', ended, ended + interval '30 days'
FROM generate_series(0, 59999) AS n
CROSS JOIN LATERAL (
  SELECT now() - n / 6 * interval '114 days' / 10000 - (6 - n % 6) * interval '1 day' AS ended
) AS times
ON CONFLICT DO NOTHING;

ANALYZE identity.users, identity.sign_in_confirmation_requests, identity.refresh_sessions;
