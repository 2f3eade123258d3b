//! What the catalogue says about a policy's table.

use retention_domain::TableName;
use sea_orm::Statement;

use super::Sql;

/// Kind of the relation (`relkind`) and its columns with their types, a domain as its base type (one level): columns
/// `kind`, `column_name` (NULL when the table has no column), `type_name`, `type_category`, all text, `refers_to` (text: the table's own
/// column that a foreign key of this column alone refers to, NULL without one), and `read_only`
/// (whether the server takes no writes, also where nothing is due yet), `deletes_spread` (whether deleting a row may
/// delete or change other rows of the table, through foreign keys that act, directly or by way of other tables), `labels`
/// (text array, of an enum), `statement_triggers` (whether a delete fires any for the statement), `row_security` (whether it applies to our role), `rows_hidden` (whether row security lets our role not read, lock and delete), all
/// boolean. No row when there is no such relation.
#[must_use]
pub fn columns(table: &TableName) -> Statement {
    let mut sql = Sql::default();
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    sql.finish(format!(
        "WITH RECURSIVE own (relation) AS (\n\
         \x20 SELECT class.oid FROM pg_catalog.pg_class AS class\n\
         \x20 JOIN pg_catalog.pg_namespace AS home ON home.oid = class.relnamespace\n\
         \x20 WHERE home.nspname = {schema} AND class.relname = {name}\n\
         \x20 UNION\n\
         \x20 SELECT heir.inhrelid FROM own JOIN pg_catalog.pg_inherits AS heir ON heir.inhparent = own.relation),\n\
         spread (relation) AS (\n\
         \x20 SELECT reference.conrelid FROM own\n\
         \x20 JOIN pg_catalog.pg_constraint AS reference ON reference.confrelid = own.relation\n\
         \x20   AND reference.contype = 'f' AND reference.confdeltype NOT IN ('a', 'r')\n\
         \x20 UNION\n\
         \x20 SELECT reference.conrelid FROM spread\n\
         \x20 JOIN pg_catalog.pg_constraint AS reference ON reference.confrelid = spread.relation\n\
         \x20   AND reference.contype = 'f' AND reference.confdeltype NOT IN ('a', 'r'))\n\
         SELECT class.relkind::text AS kind, attribute.attname::text AS column_name,\n\
         \x20 format_type(coalesce(nullif(base.typbasetype, 0), base.oid), NULL) AS type_name,\n\
         \x20 base.typcategory::text AS type_category,\n\
         \x20 (SELECT min(referred.attname::text) FROM pg_catalog.pg_constraint AS reference\n\
         \x20   JOIN pg_catalog.pg_attribute AS referred\n\
         \x20     ON referred.attrelid = class.oid AND referred.attnum = reference.confkey[1]\n\
         \x20   WHERE reference.contype = 'f' AND reference.conrelid = class.oid AND reference.confrelid = class.oid\n\
         \x20     AND reference.conkey = ARRAY[attribute.attnum]) AS refers_to,\n\
         \x20 pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only,\n\
         \x20 EXISTS (SELECT FROM spread JOIN own ON own.relation = spread.relation) AS deletes_spread,\n\
         \x20 ARRAY(SELECT label.enumlabel::text FROM pg_catalog.pg_enum AS label\n\
         \x20   WHERE label.enumtypid = coalesce(nullif(base.typbasetype, 0), base.oid)) AS labels,\n\
         \x20 EXISTS (SELECT FROM pg_catalog.pg_trigger AS trigger WHERE trigger.tgrelid = class.oid\n\
         \x20   AND trigger.tgenabled IN ('O', 'A') AND trigger.tgtype & 1 = 0 AND trigger.tgtype & 8 = 8) AS statement_triggers,\n\
         \x20 row_security_active(class.oid) AS row_security,\n\
         \x20 row_security_active(class.oid) AND (SELECT count(DISTINCT command.letter)\n\
         \x20   FROM pg_catalog.pg_policy AS policy, unnest(ARRAY['r', 'w', 'd']) AS command (letter)\n\
         \x20   WHERE policy.polrelid = class.oid AND policy.polpermissive AND policy.polcmd::text IN ('*', command.letter)\n\
         \x20     AND EXISTS (SELECT FROM unnest(policy.polroles) AS role (id)\n\
         \x20       WHERE role.id = 0 OR pg_has_role(role.id, 'USAGE'))) < 3 AS rows_hidden\n\
         FROM pg_catalog.pg_class AS class\n\
         JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace\n\
         LEFT JOIN pg_catalog.pg_attribute AS attribute\n\
         \x20 ON attribute.attrelid = class.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped\n\
         LEFT JOIN pg_catalog.pg_type AS base ON base.oid = attribute.atttypid\n\
         WHERE namespace.nspname = {schema} AND class.relname = {name}"
    ))
}
