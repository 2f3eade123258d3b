//! A sample: of what kind the due rows are, without reading all of them.

use retention_domain::plan::Target;
use sea_orm::Statement;

use super::predicate::{Guard, Names};
use super::{Sql, table_literal};

/// Blocks of the table that are looked at, about: some ten thousand rows of usual width.
const BLOCKS: u32 = 300;

/// How much of the table a sample takes. Column `percent` (real): above 0, 100 for a small table.
///
/// Asked beforehand, because the planner reckons with a tenth of the table when it is not told a number.
#[must_use]
pub fn sample_size(target: &Target) -> Statement {
    let mut sql = Sql::default();
    let table = sql.bind(table_literal(&target.policy.table));
    sql.finish(format!(
        "SELECT least(100, {BLOCKS} * 100 * pg_catalog.current_setting('block_size')::double precision
  / greatest(1, pg_catalog.pg_relation_size({table}::regclass)))::real AS percent"
    ))
}

/// Due rows in so many percent of the table's blocks, by what refers to them. Columns, both bigint: `leaves`, those that
/// nothing refers to, and `blocked`, those that a row refers to which stays.
///
/// Only asked under the leaf rule.
#[must_use]
pub fn sample(target: &Target, percent: f32) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, parent, .. } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, child) = (guard.on("due"), guard.on("child"));
    let percent = sql.bind(percent);
    sql.finish(format!(
        "WITH sample AS MATERIALIZED (
  SELECT due.{key} AS key FROM {table} AS due TABLESAMPLE SYSTEM ({percent}) WHERE {due}),
seen AS (
  SELECT count(child.{parent}) AS children, count(child.{parent}) FILTER (WHERE ({child}) IS NOT TRUE) AS staying
  FROM sample LEFT JOIN {table} AS child ON child.{parent} = sample.key
  GROUP BY sample.key)
SELECT count(*) FILTER (WHERE children = 0) AS leaves, count(*) FILTER (WHERE staying > 0) AS blocked
FROM seen"
    ))
}
