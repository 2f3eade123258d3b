-- The tables of an example service, `review`, that deploy/policies/handbook.toml speaks of: for demonstrations and tests.
-- In production a service's own migrations make its tables. What matters to the worker: an age column of type
-- timestamptz, a primary key, and an index that finds due rows. Run it as the owner:
--
--   psql "$OWNER_URL" --set ON_ERROR_STOP=1 --file deploy/policies/example-schema.sql

CREATE SCHEMA review;

CREATE TABLE review.outbox (
  id bigserial PRIMARY KEY,
  topic varchar(128) NOT NULL,
  payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  offset_acked bigint);
CREATE INDEX ix_outbox_acked_created_at ON review.outbox (created_at) WHERE offset_acked IS NOT NULL;

CREATE TABLE review.sessions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id bigint NOT NULL,
  device varchar(128),
  token_hash bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_sessions_created_at ON review.sessions (created_at);

CREATE TABLE review.rate_limit_violations (
  id bigserial PRIMARY KEY,
  client_hash bytea NOT NULL,
  route varchar(128) NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_rate_limit_violations_created_at ON review.rate_limit_violations (created_at);

CREATE TABLE review.audit_log (
  id bigserial PRIMARY KEY,
  actor_id bigint,
  entity_type varchar(64),
  entity_id bigint,
  action varchar(64),
  payload jsonb,
  correlation_id varchar(32),
  created_at timestamptz DEFAULT now());
CREATE INDEX ix_audit_log_entity ON review.audit_log (entity_type, entity_id, created_at DESC);
CREATE INDEX ix_audit_log_created_at ON review.audit_log (created_at);

CREATE TABLE review.idempotency_keys (
  key varchar(64) PRIMARY KEY,
  response jsonb,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_idempotency_keys_created_at ON review.idempotency_keys (created_at);

CREATE TABLE review.failed_logins (
  id bigserial PRIMARY KEY,
  login_hash bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_failed_logins_created_at ON review.failed_logins (created_at);

CREATE TABLE review.upload_sessions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  user_id bigint NOT NULL,
  object_key varchar(256) NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  completed_at timestamptz);
CREATE INDEX ix_upload_sessions_unfinished ON review.upload_sessions (created_at) WHERE completed_at IS NULL;

CREATE TABLE review.webhook_deliveries (
  id bigserial PRIMARY KEY,
  endpoint_id bigint NOT NULL,
  status smallint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_webhook_deliveries_created_at ON review.webhook_deliveries (created_at);

-- Soft delete: live rows are those without deleted_at, and a subject has one live review of each author.
CREATE TABLE review.reviews (
  id bigserial PRIMARY KEY,
  author_id bigint NOT NULL,
  subject_id bigint NOT NULL,
  body text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  deleted_at timestamptz);
CREATE UNIQUE INDEX ux_reviews_live ON review.reviews (author_id, subject_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_reviews_deleted_at ON review.reviews (deleted_at) WHERE deleted_at IS NOT NULL;

-- Rarely read after two years, but kept: they move to the archive, which has few indexes.
CREATE TABLE review.moderation_decisions (
  id bigserial PRIMARY KEY,
  review_id bigint NOT NULL,
  verdict varchar(32) NOT NULL,
  reason text,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ix_moderation_decisions_created_at ON review.moderation_decisions (created_at);
CREATE TABLE review.moderation_decisions_archive (
  LIKE review.moderation_decisions INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
  PRIMARY KEY (id));

-- The least rights that suffice: read, lock and delete; insert into the archive alone.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'session_retention') THEN
    GRANT USAGE ON SCHEMA review TO session_retention;
    GRANT SELECT, DELETE ON review.outbox, review.sessions, review.rate_limit_violations, review.audit_log,
      review.idempotency_keys, review.failed_logins, review.upload_sessions, review.webhook_deliveries, review.reviews,
      review.moderation_decisions TO session_retention;
    -- A row lock needs the right to update; of one column is enough.
    GRANT UPDATE (created_at) ON review.outbox, review.sessions, review.rate_limit_violations, review.audit_log,
      review.idempotency_keys, review.failed_logins, review.upload_sessions, review.webhook_deliveries, review.reviews,
      review.moderation_decisions TO session_retention;
    GRANT INSERT ON review.moderation_decisions_archive TO session_retention;
  END IF;
END $$;
