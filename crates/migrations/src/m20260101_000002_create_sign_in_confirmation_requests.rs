//! Confirmation requests: what phase A of the retention job empties, oldest `created_at` first.

use crate::sql_migration::SqlMigration;

pub(crate) const MIGRATION: SqlMigration = SqlMigration {
    name: "m20260101_000002_create_sign_in_confirmation_requests",
    up: "
CREATE TABLE identity.sign_in_confirmation_requests (
  id uuid PRIMARY KEY,
  user_id uuid REFERENCES identity.users (id),
  phone_number text NOT NULL,
  code_hash bytea NOT NULL,
  status text NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  ip_address inet,
  user_agent text,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX ix_sicr_created_at ON identity.sign_in_confirmation_requests (created_at);",
    down: "DROP TABLE identity.sign_in_confirmation_requests;",
};
