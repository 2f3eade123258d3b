//! Refresh sessions and their rotation chains: what phase B of the retention job empties, leaves first.
//!
//! The index on the parent is what makes both the leaf rule and the foreign key's own check cheap.

use crate::sql_migration::SqlMigration;

pub(crate) const MIGRATION: SqlMigration = SqlMigration {
    name: "m20260101_000003_create_refresh_sessions",
    up: "
CREATE TABLE identity.refresh_sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES identity.users (id),
  token_hash bytea NOT NULL UNIQUE,
  parent_session_id uuid REFERENCES identity.refresh_sessions (id) ON DELETE RESTRICT,
  status text NOT NULL,
  ip_address inet,
  user_agent text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX ix_refresh_sessions_parent_session_id ON identity.refresh_sessions (parent_session_id);",
    down: "DROP TABLE identity.refresh_sessions;",
};
