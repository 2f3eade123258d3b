//! The window: one read-only scan that finds the rows of many batches.

use retention_domain::WindowMark;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid;

/// What stands for the address of no parent: no table has so many blocks.
pub const NO_PARENT: &str = "ffffffffffff";

/// Due rows in the order (age, ctid), strictly after `after`, at most `max_rows`, packed into one row: a million rows of
/// their own cost more on the way than to be found. Columns, all but `age` bytea, and all NULL when nothing is due:
/// - `addresses`: the rows' tids in their wire form, six bytes each
/// - `parents`: their parents' likewise, [`NO_PARENT`] where the parent is not due; NULL without a self-reference
/// - `held_back`: a byte each, 0 or 1; NULL without a self-reference
/// - `age` (timestamptz, finite): the last row's
///
/// *Held back*: a row that is not on this page refers to it, because it stays or because it is younger than the page.
/// A row on an earlier page is older than every row here; if it refers to one, it is only found out when the batch is
/// tried, and then nothing is deleted but what is free.
///
/// A page that is not full has no last row: nothing that is due is beyond it. Parents are looked for on the page, and only
/// those that are not there in the table: to have all due rows at hand for that took a third of the time at ten million.
///
/// The lower bound is spelled `age >= last AND (age > last OR ctid > …)`, so that an index on the age column is
/// entered where the pass stopped instead of walking over what was deleted before it.
/// The limit on what is put in order is not there to leave anything out: it keeps the aggregates from being worked out by
/// several processes, each with a part of the rows.
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
            "SELECT string_agg(pg_catalog.tidsend(address), '') AS addresses, NULL::bytea AS parents, NULL::bytea AS held_back,
  max(age) AS age
FROM (
  SELECT due.ctid AS address, due.{age} AS age FROM {table} AS due
  WHERE {due}{resume}
  ORDER BY due.{age}, due.ctid
  LIMIT {limit}) AS page"
        ),
        Some(parent) => {
            // A first page that is not full has all that is due. Before a later one, older rows may be left.
            let unless_all_is_here = if after.is_none() { "EXISTS (SELECT FROM last) AND " } else { "" };
            format!(
                "WITH page AS MATERIALIZED (
  SELECT due.ctid AS address, due.{key} AS key, due.{parent} AS parent, due.{age} AS age FROM {table} AS due
  WHERE {due}{resume}
  ORDER BY due.{age}, due.ctid
  LIMIT {limit}),
last AS MATERIALIZED (
  SELECT age, address FROM page OFFSET {limit} - 1),
beyond AS MATERIALIZED (
  SELECT DISTINCT page.key FROM page JOIN {table} AS child ON child.{parent} = page.key
  WHERE ({child}) IS NOT TRUE OR (child.{age}, child.ctid) > (SELECT age, address FROM last)),
elsewhere AS MATERIALIZED (
  SELECT up.{key} AS key, up.ctid AS address FROM {table} AS up
  WHERE {unless_all_is_here}up.{key} IN (
    SELECT page.parent FROM page WHERE NOT EXISTS (SELECT FROM page AS up WHERE up.key = page.parent)) AND {up})
SELECT string_agg(pg_catalog.tidsend(address), '') AS addresses,
  string_agg(coalesce(pg_catalog.tidsend(parent), decode('{NO_PARENT}', 'hex')), '') AS parents,
  string_agg(decode(CASE WHEN held_back THEN '01' ELSE '00' END, 'hex'), '') AS held_back, max(age) AS age
FROM (
  SELECT page.address, coalesce(up.address, elsewhere.address) AS parent, page.age, beyond.key IS NOT NULL AS held_back
  FROM page
  LEFT JOIN page AS up ON up.key = page.parent
  LEFT JOIN elsewhere ON elsewhere.key = page.parent
  LEFT JOIN beyond ON beyond.key = page.key
  ORDER BY page.age, page.address
  LIMIT {limit}) AS ordered"
            )
        }
    };
    sql.finish(text)
}
