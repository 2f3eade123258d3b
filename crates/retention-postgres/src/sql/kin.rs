//! What is known, under lock, of the rows of a batch that cannot simply go.

use retention_domain::RowAddress;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names, Place};
use crate::address::tid_list;

/// Those of `rows` that are due, whether somebody holds them or not. Column `address` as in [`super::leaves()`].
///
/// `lock`: only those that nobody else has locked; they are locked then.
#[must_use]
pub fn still_due(target: &Target, place: &Place, rows: &[RowAddress], lock: bool) -> Statement {
    let mut sql = Sql::default();
    let due = Guard::at(&mut sql, target, place).on("due");
    let rows = sql.bind(tid_list(rows));
    let Names { table, .. } = Names::at(target, place);
    let lock = if lock { "\nFOR UPDATE SKIP LOCKED" } else { "" };
    sql.finish(format!(
        "SELECT pg_catalog.tidsend(due.ctid) AS address FROM {table} AS due
WHERE due.ctid = ANY ({rows}::text::tid[]) AND {due}{lock}"
    ))
}

/// Locks those of `rows` that are due and that nobody else has locked, and tells how they are related, as rows of a
/// window: `address`, `parent` (NULL unless the parent is locked too), and `held_back`, whether a row that is not
/// locked refers to it.
///
/// Only policies with a self-reference have kin; for others this is not asked.
///
/// Linear in the number of rows: two hash joins over what is locked, and one index lookup per row.
#[must_use]
pub fn lock_kin(target: &Target, rows: &[RowAddress]) -> Statement {
    let mut sql = Sql::default();
    let due = Guard::new(&mut sql, target).on("due");
    let rows = sql.bind(tid_list(rows));
    let names = Names::of(target);
    let Names { table, key, parent, .. } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    sql.finish(format!(
        "WITH locked AS MATERIALIZED (
  SELECT due.ctid AS address, due.{key} AS key, due.{parent} AS parent FROM {table} AS due
  WHERE due.ctid = ANY ({rows}::text::tid[]) AND {due}
  FOR UPDATE SKIP LOCKED),
outside AS MATERIALIZED (
  SELECT child.ctid AS address, child.{parent} AS parent FROM {table} AS child
  WHERE child.{parent} = ANY (ARRAY(SELECT key FROM locked))
  EXCEPT SELECT address, parent FROM locked),
held_back AS MATERIALIZED (
  SELECT DISTINCT parent AS key FROM outside)
SELECT pg_catalog.tidsend(locked.address) AS address, pg_catalog.tidsend(up.address) AS parent,
  held_back.key IS NOT NULL AS held_back
FROM locked
LEFT JOIN locked AS up ON up.key = locked.parent
LEFT JOIN held_back ON held_back.key = locked.key"
    ))
}
