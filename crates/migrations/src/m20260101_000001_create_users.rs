//! The schema and the table the other two refer to.

use crate::sql_migration::SqlMigration;

pub(crate) const MIGRATION: SqlMigration = SqlMigration {
    name: "m20260101_000001_create_users",
    up: "
CREATE SCHEMA identity;
CREATE TABLE identity.users (
  id uuid PRIMARY KEY,
  created_at timestamptz NOT NULL DEFAULT now()
);",
    down: "
DROP TABLE identity.users;
DROP SCHEMA identity;",
};
