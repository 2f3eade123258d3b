-- Rows that the generator of `cargo xtask seed` does not make: close to a boundary, undated, of an unknown status,
-- forks of which one branch lives. Ages are measured from the database's clock; 720 and 2160 hours are the two
-- retention periods. A row close to its cutoff stays an hour clear of it, for machines that are slow.

INSERT INTO identity.users (id, created_at)
VALUES ('00000000-0000-4000-8000-000000000000', now() - interval '9000 hours');

INSERT INTO identity.sign_in_confirmation_requests
  (id, user_id, phone_number, code_hash, status, ip_address, user_agent, created_at, expires_at)
SELECT ('00000000-0000-4000-8001-' || lpad(n::text, 12, '0'))::uuid, '00000000-0000-4000-8000-000000000000',
  '+9990000000000', '\x00', status, '192.0.2.1', 'synthetic-agent', created_at, created_at
FROM (VALUES
  (1, 'Confirmed', now() - interval '720 hours 1 microsecond'),
  (2, 'Pending', now() - interval '9000 hours'),
  (3, 'Expired', now() - interval '719 hours'),
  (4, 'Expired', now() + interval '1 hour'),
  (5, 'Expired', 'infinity'),
  (6, 'Expired', '-infinity')
) AS odd (n, status, created_at);

INSERT INTO identity.refresh_sessions
  (id, user_id, token_hash, parent_session_id, status, ip_address, user_agent, created_at, updated_at, expires_at)
SELECT ('00000000-0000-4000-8002-' || lpad(n::text, 12, '0'))::uuid, '00000000-0000-4000-8000-000000000000',
  decode(lpad(n::text, 64, '0'), 'hex'), ('00000000-0000-4000-8002-' || lpad(parent::text, 12, '0'))::uuid, status,
  '2001:db8::1', 'synthetic-agent', updated_at, updated_at, updated_at
FROM (VALUES
  -- A trunk that forks: one branch is in use, the other is long over.
  (10, NULL, 'Rotated', now() - interval '5000 hours'),
  (11, 10, 'Rotated', now() - interval '4990 hours'),
  (12, 11, 'Active', now() - interval '1 hour'),
  (13, 11, 'Rotated', now() - interval '4980 hours'),
  (14, 13, 'Revoked', now() - interval '4970 hours'),
  -- Just due, alone, and just too young below an old one.
  (20, NULL, 'Expired', now() - interval '2160 hours 1 microsecond'),
  (21, NULL, 'Rotated', now() - interval '2500 hours'),
  (22, 21, 'Revoked', now() - interval '2159 hours'),
  -- An old session that is still in use, one of a status nobody knows, and undated ones, each below an old one.
  (30, NULL, 'Rotated', now() - interval '6000 hours'),
  (31, 30, 'Active', now() - interval '5900 hours'),
  (32, NULL, 'Rotated', now() - interval '6000 hours'),
  (33, 32, 'Compromised', now() - interval '5900 hours'),
  (34, NULL, 'Rotated', now() - interval '6000 hours'),
  (35, 34, 'Revoked', 'infinity'),
  (36, NULL, 'Rotated', now() - interval '6000 hours'),
  (37, 36, 'Revoked', '-infinity'),
  -- A parent younger than its child: the child goes, the parent stays.
  (40, NULL, 'Rotated', now() - interval '100 hours'),
  (41, 40, 'Revoked', now() - interval '6000 hours'),
  -- One parent, three children, all over.
  (50, NULL, 'Rotated', now() - interval '6000 hours'),
  (51, 50, 'Rotated', now() - interval '5990 hours'),
  (52, 50, 'Revoked', now() - interval '5980 hours'),
  (53, 50, 'Expired', now() - interval '5970 hours')
) AS odd (n, parent, status, updated_at);
