//! What the catalogue says about the columns of a table and of the archive its rows move to.

use retention_domain::TableName;
use sea_orm::Statement;

use super::Sql;

/// The columns of a table in their order, none when there is no such table: `name`, `type` (text, with length and
/// precision), `generated` (boolean), and `may_insert` (boolean, whether our role may insert rows).
#[must_use]
pub fn columns_of(table: &TableName) -> Statement {
    let mut sql = Sql::default();
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    sql.finish(format!(
        "SELECT attribute.attname::text AS name, format_type(attribute.atttypid, attribute.atttypmod) AS type,
  attribute.attgenerated <> '' AS generated, has_table_privilege(class.oid, 'INSERT') AS may_insert
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute
  ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE namespace.nspname = {schema} AND class.relname = {name} AND class.relkind IN ('r', 'p')
ORDER BY attribute.attnum"
    ))
}
