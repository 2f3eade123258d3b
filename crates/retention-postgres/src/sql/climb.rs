//! Climbing: what has become free above rows that are gone.

use retention_domain::RowAddress;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid_list;

/// Those of `from` that are due and that nothing refers to, and those of their ancestors that become free with them;
/// level by level, so that children come before parents, at most `max_rows`. Columns `address` and `parent` as in
/// [`super::leaves()`].
///
/// A step goes to a parent only if the child it came from is the parent's only one. `LATERAL … OFFSET 0` keeps each
/// step an index lookup.
///
/// Only policies with a self-reference climb; for others nothing is found.
#[must_use]
pub fn climb(target: &Target, from: &[RowAddress], max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target);
    let names = Names::of(target);
    let leaf = names.and_leaf("due");
    let Names { table, key, parent, .. } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let (due, up) = (guard.on("due"), guard.on("up"));
    let from = sql.bind(tid_list(from));
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "WITH RECURSIVE climb (address, key, parent) AS (
  SELECT due.ctid, due.{key}, due.{parent} FROM {table} AS due
  WHERE due.ctid = ANY ({from}::text::tid[]) AND {due}{leaf}
  UNION ALL
  SELECT above.* FROM climb, LATERAL (
    SELECT up.ctid, up.{key}, up.{parent} FROM {table} AS up
    WHERE up.{key} = climb.parent AND {up} AND NOT EXISTS (
      SELECT 1 FROM {table} AS child WHERE child.{parent} = up.{key} AND child.{key} <> climb.key)
    OFFSET 0) AS above),
page AS MATERIALIZED (
  SELECT * FROM climb LIMIT {limit})
SELECT pg_catalog.tidsend(page.address) AS address, pg_catalog.tidsend(up.ctid) AS parent
FROM page LEFT JOIN {table} AS up ON up.{key} = page.parent AND {up}"
    ))
}
