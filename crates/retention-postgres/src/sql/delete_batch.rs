//! The deleting statement: one batch, one statement, one transaction.

use retention_domain::BatchRequest;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid_list;

/// Deletes at most `request.max_rows` due rows: the seeds and, under the leaf rule, their ancestors.
///
/// One row comes back: `deleted`, `held` (bigint), `stayed`, `frontier` (text of a `tid[]`).
///
/// # Safety argument
/// Rows that must never go: young and undated ones, those that fail a condition (living sessions), and those that
/// a remaining row refers to.
/// - The guard (age and conditions) stands in every step, and once more in the `DELETE` itself: an address is a
///   hint, the row there may have changed since.
/// - `climb` starts from seeds that no row refers to, and steps to a parent only if the child it came from is the
///   parent's only one (`NOT EXISTS`); rows come out level by level, so the bounded prefix (`batch`) is closed
///   under children. `locked` takes what nobody else holds; from a row that could not be locked upwards nothing of
///   that seed is deleted (`cut`), so what is deleted stays closed under children.
/// - A child inserted by somebody else meanwhile makes the foreign key raise, and the statement deletes nothing.
/// - The bound: `batch` is a materialised `LIMIT`, evaluated once, and nothing outside it is addressed.
///
/// Every lock is taken with `SKIP LOCKED`: the statement never waits for a row that somebody else holds.
#[must_use]
pub fn delete_batch(target: &Target, request: &BatchRequest) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target);
    let seeds = sql.bind(tid_list(&request.seeds));
    let max_rows = sql.bind(i64::from(request.max_rows));
    let names = Names::of(target);
    let text = match &names.parent {
        Some(parent) => chains(&names, parent, &guard, &seeds, &max_rows),
        None => plain(&names, &guard, &seeds, &max_rows),
    };
    sql.finish(text)
}

fn plain(names: &Names, guard: &Guard, seeds: &str, max_rows: &str) -> String {
    let Names { table, .. } = names;
    let (due, target) = (guard.on("due"), guard.on("target"));
    format!(
        "WITH batch AS MATERIALIZED (
  SELECT due.ctid AS address FROM {table} AS due
  WHERE due.ctid = ANY ({seeds}::text::tid[]) AND {due}
  LIMIT {max_rows}),
locked AS MATERIALIZED (
  SELECT due.ctid AS address FROM {table} AS due
  WHERE due.ctid = ANY (ARRAY(SELECT address FROM batch)) AND {due}
  FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {table} AS target
  WHERE target.ctid = ANY (ARRAY(SELECT address FROM locked)) AND {target}
  RETURNING target.ctid AS address),
tally AS MATERIALIZED (
  SELECT (SELECT count(*) FROM batch) AS found, (SELECT count(*) FROM locked) AS locked,
         (SELECT count(*) FROM gone) AS deleted)
SELECT tally.deleted, tally.found - tally.locked AS held,
  ARRAY(SELECT address FROM locked WHERE tally.locked <> tally.deleted
        EXCEPT SELECT address FROM gone WHERE tally.locked <> tally.deleted)::text AS stayed,
  '{{}}' AS frontier
FROM tally"
    )
}

fn chains(names: &Names, parent: &str, guard: &Guard, seeds: &str, max_rows: &str) -> String {
    let Names { table, key, .. } = names;
    let leaf = names.and_leaf("due");
    let (due, target, up) = (guard.on("due"), guard.on("target"), guard.on("up"));
    format!(
        "WITH RECURSIVE climb (address, key, parent, seed, depth) AS (
  SELECT due.ctid, due.{key}, due.{parent}, due.ctid, 0 FROM {table} AS due
  WHERE due.ctid = ANY ({seeds}::text::tid[]) AND {due}{leaf}
  UNION ALL
  SELECT up.ctid, up.{key}, up.{parent}, climb.seed, climb.depth + 1
  FROM climb JOIN {table} AS up ON up.{key} = climb.parent
  WHERE {up} AND NOT EXISTS (
    SELECT 1 FROM {table} AS child WHERE child.{parent} = up.{key} AND child.{key} <> climb.key)),
batch AS MATERIALIZED (
  SELECT * FROM climb LIMIT {max_rows}),
locked AS MATERIALIZED (
  SELECT due.ctid AS address FROM {table} AS due
  WHERE due.ctid = ANY (ARRAY(SELECT address FROM batch)) AND {due}
  FOR UPDATE SKIP LOCKED),
found AS MATERIALIZED (
  SELECT (SELECT count(*) FROM batch) AS found, (SELECT count(*) FROM locked) AS locked),
missed AS MATERIALIZED (
  SELECT address FROM batch WHERE (SELECT found <> locked FROM found)
  EXCEPT SELECT address FROM locked WHERE (SELECT found <> locked FROM found)),
cut AS MATERIALIZED (
  SELECT batch.seed, min(batch.depth) AS depth
  FROM batch JOIN missed ON missed.address = batch.address GROUP BY batch.seed),
free AS MATERIALIZED (
  SELECT batch.address, batch.key, batch.parent FROM batch
  WHERE NOT EXISTS (SELECT 1 FROM cut WHERE cut.seed = batch.seed AND cut.depth <= batch.depth)),
gone AS (
  DELETE FROM {table} AS target
  WHERE target.ctid = ANY (ARRAY(SELECT address FROM free)) AND {target}
  RETURNING target.ctid AS address),
tally AS MATERIALIZED (
  SELECT found.found - found.locked AS held, (SELECT count(*) FROM free) AS free,
         (SELECT count(*) FROM gone) AS deleted FROM found)
SELECT tally.deleted, tally.held,
  ARRAY(SELECT address FROM free WHERE tally.free <> tally.deleted
        EXCEPT SELECT address FROM gone WHERE tally.free <> tally.deleted)::text AS stayed,
  ARRAY(SELECT up.ctid FROM (
          SELECT parent FROM free WHERE parent IS NOT NULL EXCEPT SELECT key FROM free) AS above
        JOIN {table} AS up ON up.{key} = above.parent WHERE {up})::text AS frontier
FROM tally"
    )
}
