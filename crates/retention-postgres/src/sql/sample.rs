//! A sample: of what kind the due rows are, without reading all of them.

use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};

/// The due rows in about one block of the table in `one_in`, by what refers to them. Columns, both bigint: `leaves`, those
/// that nothing refers to, and `blocked_ends`, those that a row refers to which stays.
///
/// Only asked under the leaf rule. `LATERAL … LIMIT` keeps each look at children an index look-up.
#[must_use]
pub fn sample(target: &Target, one_in: u64) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, parent, .. } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, child) = (guard.on("due"), guard.on("child"));
    let one_in = sql.bind(i64::try_from(one_in).unwrap_or(i64::MAX));
    sql.finish(format!(
        "WITH sample AS MATERIALIZED (
  SELECT due.{key} AS key FROM {table} AS due TABLESAMPLE SYSTEM ((100.0 / {one_in})::real)
  WHERE {due})
SELECT count(*) FILTER (WHERE below.stays IS NULL) AS leaves, count(*) FILTER (WHERE below.stays) AS blocked_ends
FROM sample LEFT JOIN LATERAL (
  SELECT ({child}) IS NOT TRUE AS stays FROM {table} AS child
  WHERE child.{parent} = sample.key
  ORDER BY stays DESC
  LIMIT 1) AS below ON TRUE"
    ))
}
