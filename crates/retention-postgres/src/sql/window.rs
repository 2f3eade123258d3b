//! The window: one read-only scan that finds the rows of many batches.

use retention_domain::WindowMark;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid;

/// Due rows in the order (age, ctid), strictly after `after`, at most `max_rows`. Columns: `address` and `parent`
/// (tids in their wire form, as bytea: a driver need not know the type; `parent` is NULL unless the parent is due),
/// `age` (timestamptz, finite), `held_back` (boolean).
///
/// `held_back`: a row that is not on this page refers to it, because it stays or because it is younger than the page.
/// A row on an earlier page is older than every row here; if it refers to one, it is only found out when the batch is
/// tried, and then nothing is deleted but what is free.
///
/// The lower bound is spelled `age >= last AND (age > last OR ctid > …)`, so that an index on the age column is
/// entered where the pass stopped instead of walking over what was deleted before it.
#[must_use]
pub fn window(target: &Target, after: Option<WindowMark>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target);
    let names = Names::of(target);
    let Names { table, key, age, .. } = &names;
    let resume = after.map_or_else(String::new, |mark| {
        let (last, address) = (sql.bind(mark.age), sql.bind(tid(mark.address)));
        format!(
            " AND due.{age} >= {last}::timestamptz \
             AND (due.{age} > {last}::timestamptz OR due.ctid > {address}::text::tid)"
        )
    });
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    let (due, up, child) = (guard.on("due"), guard.on("up"), guard.on("child"));
    let text = match &names.parent {
        None => format!(
            "SELECT pg_catalog.tidsend(due.ctid) AS address, NULL::bytea AS parent, due.{age} AS age, FALSE AS held_back
FROM {table} AS due
WHERE {due}{resume}
ORDER BY due.{age}, due.ctid
LIMIT {limit}"
        ),
        Some(parent) => format!(
            "WITH page AS MATERIALIZED (
  SELECT due.ctid AS address, due.{key} AS key, due.{parent} AS parent, due.{age} AS age FROM {table} AS due
  WHERE {due}{resume}
  ORDER BY due.{age}, due.ctid
  LIMIT {limit}),
last AS MATERIALIZED (
  SELECT age, address FROM page ORDER BY age DESC, address DESC LIMIT 1),
beyond AS MATERIALIZED (
  SELECT DISTINCT page.key FROM page JOIN {table} AS child ON child.{parent} = page.key
  WHERE ({child}) IS NOT TRUE OR (child.{age}, child.ctid) > (SELECT age, address FROM last))
SELECT pg_catalog.tidsend(page.address) AS address, pg_catalog.tidsend(up.ctid) AS parent, page.age,
  beyond.key IS NOT NULL AS held_back
FROM page
LEFT JOIN {table} AS up ON up.{key} = page.parent AND {up}
LEFT JOIN beyond ON beyond.key = page.key
ORDER BY page.age, page.address"
        ),
    };
    sql.finish(text)
}
