//! What the catalogue says about the columns of a table and of the archive its rows move to.

use retention_domain::TableName;
use sea_orm::Statement;

use super::{Sql, table_literal};

/// The columns of a table in their order, none when there is no such table: `name`, `type` (text, with length and
/// precision), `generated`, `may_insert` (whether our role may insert rows), `row_security` (whether it applies to our
/// role), `must_be_given` (whether an insert fails without a value), all boolean.
#[must_use]
pub fn columns_of(table: &TableName) -> Statement {
    let mut sql = Sql::default();
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    sql.finish(format!(
        "SELECT attribute.attname::text AS name, format_type(attribute.atttypid, attribute.atttypmod) AS type,
  attribute.attgenerated <> '' AS generated,
  has_schema_privilege(namespace.oid, 'USAGE') AND has_table_privilege(class.oid, 'INSERT') AS may_insert,
  row_security_active(class.oid) AS row_security,
  attribute.attnotnull AND NOT attribute.atthasdef AND attribute.attidentity = '' AS must_be_given
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute
  ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE namespace.nspname = {schema} AND class.relname = {name} AND class.relkind IN ('r', 'p')
ORDER BY attribute.attnum"
    ))
}

/// Whether one of these tables is a partition of the other, or both are of a third: `one` (boolean). Both exist.
#[must_use]
pub fn are_one(table: &TableName, archive: &TableName) -> Statement {
    let mut sql = Sql::default();
    let (table, archive) = (sql.bind(table_literal(table)), sql.bind(table_literal(archive)));
    sql.finish(format!(
        "SELECT {table}::text::regclass = {archive}::text::regclass OR EXISTS (
  SELECT FROM pg_catalog.pg_partition_ancestors({table}::text::regclass) AS one
  JOIN pg_catalog.pg_partition_ancestors({archive}::text::regclass) AS other ON other.relid = one.relid) AS one"
    ))
}
