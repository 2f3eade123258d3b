//! The deleting statement: one batch, one statement, one transaction.

use retention_domain::BatchRequest;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid_list;

/// Deletes those of the rows asked for that are due, free, and held by nobody else.
///
/// One row comes back: `deleted`, `held`, `missing` (bigint; `missing` counts the rows asked for that are not where they
/// were, or not due any more), `stayed` (text of a `tid[]`).
///
/// # Safety argument
/// Whoever proposed the rows, this statement alone decides. Rows that must never go: young and undated ones, those
/// that fail a condition (living sessions), those that a remaining row refers to, and rows nobody asked for.
/// - `locked` takes, of the rows asked for, those that pass the guard (age and conditions) and that nobody else has
///   locked. An address is a hint, the row there may be another by now: hence the guard, and hence once more in the
///   `DELETE` itself.
/// - The leaf rule: `outside` is every row that refers to a locked row without being locked itself. `stays` is what
///   they refer to, and the ancestors of that. What is left (`free`) is closed under children: no row that stays
///   refers to it. Several rows of a chain may go together, because the foreign key is checked when the
///   statement ends.
/// - A child inserted by somebody else meanwhile makes the foreign key raise, and the statement deletes nothing.
/// - The bound: addresses are distinct and within one table (`ONLY`), so no more rows go than were asked for.
///
/// Locks are taken with `SKIP LOCKED`, and only rows locked so are deleted: the statement never waits for a row. The
/// foreign key's own check finds no row that anybody else has locked: nothing but `free` rows refers to `free` rows.
#[must_use]
pub fn delete_batch(target: &Target, request: &BatchRequest) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target);
    let rows = sql.bind(tid_list(&request.rows));
    let asked = sql.bind(i64::try_from(request.rows.len()).unwrap_or(i64::MAX));
    let names = Names::of(target);
    let Names { table, key, .. } = &names;
    let (due, goes) = (guard.on("due"), guard.on("goes"));
    let (columns, leaf_rule, free) = match &names.parent {
        None => (String::new(), String::new(), "locked"),
        Some(parent) => (
            format!(", due.{key} AS key, due.{parent} AS parent"),
            format!(
                "outside AS MATERIALIZED (
  SELECT child.{key} AS key, child.{parent} AS parent FROM {table} AS child
  WHERE child.{parent} = ANY (ARRAY(SELECT key FROM locked))
  EXCEPT SELECT key, parent FROM locked),
stays (address, parent) AS (
  SELECT locked.address, locked.parent FROM outside JOIN locked ON locked.key = outside.parent
  UNION
  SELECT locked.address, locked.parent FROM stays JOIN locked ON locked.key = stays.parent),
free AS MATERIALIZED (
  SELECT address FROM locked EXCEPT SELECT address FROM stays),
"
            ),
            "free",
        ),
    };
    sql.finish(format!(
        "WITH RECURSIVE locked AS MATERIALIZED (
  SELECT due.ctid AS address{columns} FROM {table} AS due
  WHERE due.ctid = ANY ({rows}::text::tid[]) AND {due}
  FOR UPDATE SKIP LOCKED),
{leaf_rule}gone AS (
  DELETE FROM {table} AS goes
  WHERE goes.ctid = ANY (ARRAY(SELECT address FROM {free})) AND {goes}
  RETURNING goes.ctid AS address),
tally AS MATERIALIZED (
  SELECT (SELECT count(*) FROM locked) AS locked, (SELECT count(*) FROM {free}) AS free,
         (SELECT count(*) FROM gone) AS deleted),
seen AS MATERIALIZED (
  SELECT count(*) AS seen FROM {table} AS due
  WHERE (SELECT locked < {asked} FROM tally) AND due.ctid = ANY ({rows}::text::tid[]) AND {due})
SELECT tally.deleted, greatest(seen.seen - tally.locked, 0) AS held,
  {asked} - greatest(seen.seen, tally.locked) AS missing,
  ARRAY(SELECT address FROM {free} WHERE tally.free <> tally.deleted
        EXCEPT SELECT address FROM gone WHERE tally.free <> tally.deleted)::text AS stayed
FROM tally, seen"
    ))
}
