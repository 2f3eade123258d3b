//! A sample: of what kind the due rows are, without reading all of them.

use retention_domain::plan::Target;
use sea_orm::Statement;

use super::predicate::{Guard, Names};
use super::{Sql, table_literal};

/// Blocks of the table that are looked at, about; all of a small table. Spread over all of it, as rows of one age lie
/// together.
const BLOCKS: u32 = 50;
/// More than a block's usual rows for each of them. Also what the planner reckons with: it looks up children by index.
const MOST_ROWS: u32 = 2000;

/// Some due rows of random blocks, by what refers to them. Columns, both bigint: `leaves`, those that nothing refers to, and
/// `blocked`, those that a row refers to which stays.
///
/// Only asked under the leaf rule.
#[must_use]
pub fn sample(target: &Target) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, parent, .. } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, child) = (guard.on("due"), guard.on("child"));
    let name = sql.bind(table_literal(&target.policy.table));
    sql.finish(format!(
        "WITH sample AS MATERIALIZED (
  SELECT due.{key} AS key FROM {table} AS due TABLESAMPLE SYSTEM (
    least(100, {BLOCKS} * 100 * pg_catalog.current_setting('block_size')::double precision
      / greatest(1, pg_catalog.pg_relation_size({name}::text::regclass)))::real)
  WHERE {due}
  LIMIT {MOST_ROWS}),
seen AS (
  SELECT count(child.{parent}) AS children, count(child.{parent}) FILTER (WHERE ({child}) IS NOT TRUE) AS staying
  FROM sample LEFT JOIN {table} AS child ON child.{parent} = sample.key
  GROUP BY sample.key)
SELECT count(*) FILTER (WHERE children = 0) AS leaves, count(*) FILTER (WHERE staying > 0) AS blocked
FROM seen"
    ))
}
