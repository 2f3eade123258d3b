//! Partitioned tables: which partitions there are, and windows over all of them.

use retention_domain::plan::Target;
use retention_domain::{TableName, WindowMark};
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names, Place};
use crate::address::tid;

/// The partitions that hold rows, down to the lowest level: `oid` (bigint), `schema`, `name`, `kind` (`relkind`, text), `row_security`
/// (boolean, whether it applies to our role),
/// `missing` (text: the rights our role lacks there, separated by commas; NULL if it has all).
///
/// Rows are locked and deleted in the partition itself, so the rights are needed there.
#[must_use]
pub fn partitions(table: &TableName) -> Statement {
    let mut sql = Sql::default();
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    sql.finish(format!(
        "SELECT part.oid::bigint AS oid, home.nspname::text AS schema, part.relname::text AS name,
  part.relkind::text AS kind, row_security_active(part.oid) AS row_security,
  nullif(concat_ws(', ',
    CASE WHEN NOT has_schema_privilege(home.oid, 'USAGE') THEN 'USAGE on its schema' END,
    CASE WHEN NOT has_table_privilege(part.oid, 'SELECT') THEN 'SELECT' END,
    CASE WHEN NOT has_any_column_privilege(part.oid, 'UPDATE') THEN 'UPDATE of a column' END,
    CASE WHEN NOT has_table_privilege(part.oid, 'DELETE') THEN 'DELETE' END), '') AS missing
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
CROSS JOIN LATERAL pg_partition_tree(class.oid::regclass) AS tree
JOIN pg_catalog.pg_class AS part ON part.oid = tree.relid
JOIN pg_catalog.pg_namespace AS home ON home.oid = part.relnamespace
WHERE namespace.nspname = {schema} AND class.relname = {name} AND class.relkind = 'p' AND tree.isleaf AND tree.level > 0
ORDER BY home.nspname, part.relname"
    ))
}

/// The partitions that lie before the cutoff as a whole, and could be dropped instead of emptied: `name`, quoted for SQL,
/// in the order of their bounds.
///
/// Only where the table is divided by ranges of the age column alone: the bounds say then which dates a partition can
/// hold. One that is open below may hold `-infinity`, which stays.
#[must_use]
pub fn partitions_before(target: &Target) -> Statement {
    let mut sql = Sql::default();
    let table = &target.policy.table;
    let (schema, name) = (sql.bind(table.schema.clone()), sql.bind(table.name.clone()));
    let age = sql.bind(target.policy.age_column.clone());
    let cutoff = sql.bind(target.cutoff.instant());
    sql.finish(format!(
        "WITH part AS MATERIALIZED (
  SELECT format('%I.%I', home.nspname, part.relname) AS name,
    regexp_match(pg_get_expr(part.relpartbound, part.oid), '^FOR VALUES FROM [(]''([^'']+)''[)] TO [(]''([^'']+)''[)]$') AS bounds
  FROM pg_catalog.pg_class AS class
  JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
  JOIN pg_catalog.pg_partitioned_table AS scheme ON scheme.partrelid = class.oid AND scheme.partstrat = 'r'
  JOIN pg_catalog.pg_attribute AS dated ON dated.attrelid = class.oid AND dated.attname = {age}
    AND scheme.partnatts = 1 AND scheme.partattrs[0] = dated.attnum
  JOIN pg_catalog.pg_inherits AS heir ON heir.inhparent = class.oid
  JOIN pg_catalog.pg_class AS part ON part.oid = heir.inhrelid
  JOIN pg_catalog.pg_namespace AS home ON home.oid = part.relnamespace
  WHERE namespace.nspname = {schema} AND class.relname = {name})
SELECT name FROM part WHERE bounds[2]::timestamptz <= {cutoff}::timestamptz ORDER BY bounds[2]::timestamptz"
    ))
}

/// The names of these tables now: `oid` (bigint), `schema`, `name`. No row for one that is gone.
#[must_use]
pub fn partition_names(oids: &[u32]) -> Statement {
    let mut sql = Sql::default();
    let oids: Vec<_> = oids.iter().map(|oid| sql.bind(i64::from(*oid))).collect();
    sql.finish(format!(
        "SELECT class.oid::bigint AS oid, namespace.nspname::text AS schema, class.relname::text AS name
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE class.relkind = 'r' AND class.oid::bigint IN ({})",
        oids.join(", ")
    ))
}

/// As [`super::window()`], over all partitions, in the order (age, partition, ctid), for policies without a self-reference.
/// One more column: `partitions` (bytea), their oids in their wire form, four bytes each. `after` comes with the partition of the row it names.
#[must_use]
pub fn partitioned_window(target: &Target, after: Option<(WindowMark, u32)>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let due = Guard::new(&mut sql, target).on("due");
    let Names { table, age, .. } = Names::at(target, &Place::Partitions);
    let resume = after.map_or_else(String::new, |(mark, partition)| {
        let last = sql.bind(mark.age);
        let (partition, address) = (sql.bind(i64::from(partition)), sql.bind(tid(mark.address)));
        format!(
            " AND due.{age} >= {last}::timestamptz \
             AND (due.{age} > {last}::timestamptz \
             OR (due.tableoid, due.ctid) > ({partition}::bigint::oid, {address}::text::tid))"
        )
    });
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "SELECT string_agg(pg_catalog.tidsend(address), '') AS addresses, max(age) AS age,
  string_agg(pg_catalog.oidsend(partition), '') AS partitions
FROM (
  SELECT due.ctid AS address, due.{age} AS age, due.tableoid AS partition FROM {table} AS due
  WHERE {due}{resume}
  ORDER BY due.{age}, due.tableoid, due.ctid
  LIMIT {limit}) AS page"
    ))
}
