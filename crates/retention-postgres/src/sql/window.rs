//! Windows: read-only scans that find the rows of many batches.
//!
//! Where there is no leaf rule, addresses are all that is needed, and come packed into one row. Under the leaf rule three
//! plain statements tell what is needed to put a window in order: its rows, each with a number for its key and one for its
//! parent's; which of them somebody outside refers to; and, where there is more than this window, which of their parents are
//! due and lie outside it. Who is whose parent is worked out from the numbers, on our side: to join a million rows with
//! themselves took the server longer than to read and sort them. One statement more looks for leaves alone.

use retention_domain::WindowMark;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid;

/// Due rows in the order (age, ctid), strictly after `after`, at most `max_rows`, packed into one row: a million rows of
/// their own cost more on the way than to be found. Columns, both NULL when nothing is due: `addresses` (bytea; the rows'
/// tids in their wire form, six bytes each) and `age` (timestamptz, finite; the last row's).
///
/// The lower bound is spelled `age >= last AND (age > last OR ctid > …)`, so that an index on the age column is
/// entered where the pass stopped instead of walking over what was deleted before it. The limit on what is put in order
/// also keeps the aggregate from being worked out by several processes, each with a part of the rows.
#[must_use]
pub fn window(target: &Target, after: Option<WindowMark>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let Names { table, age, .. } = Names::of(target);
    let due = Guard::new(&mut sql, target).on("due");
    let resume = Bound::after(&mut sql, after).on("due", &age);
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "SELECT string_agg(pg_catalog.tidsend(address), '') AS addresses, max(age) AS age
FROM (
  SELECT due.ctid AS address, due.{age} AS age FROM {table} AS due
  WHERE {due}{resume}
  ORDER BY due.{age}, due.ctid
  LIMIT {limit}) AS page"
    ))
}

/// The same under the leaf rule, a row for each, which are many and are worked on as they come. Columns, by their place:
/// 1. `address` (bytea): the row's tid in its wire form, six bytes
/// 2. `age` (timestamptz, finite)
/// 3. `id` (bigint): a number for the row's key
/// 4. `parent` (bigint): a number for the key it refers to, NULL if it refers to none
///
/// Keys that are written alike have equal numbers. Two keys may share one, once in ten million windows, and equal keys may be
/// written differently (`1` and `1.0`). What is planned of such rows is wrong and is found out when it is tried; a later pass
/// goes by addresses alone. Each run numbers keys anew.
#[must_use]
pub fn chains(target: &Target, after: Option<WindowMark>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, age, parent } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let due = Guard::new(&mut sql, target).on("due");
    let resume = Bound::after(&mut sql, after).on("due", age);
    let number = Number::new(&mut sql, target);
    let (id, parent) = (number.of("due", key), number.of("due", parent));
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "SELECT pg_catalog.tidsend(due.ctid) AS address, due.{age} AS age,
  {id} AS id, {parent} AS parent
FROM {table} AS due
WHERE {due}{resume}
ORDER BY due.{age}, due.ctid
LIMIT {limit}"
    ))
}

/// The numbers (`id`, as in [`chains`]) of the rows of that window which are *held back*: another row that is not in it refers
/// to them, because it stays or because it is younger than the window. `last`: the window's last row, if it was full.
///
/// A row on an earlier page is older than every row of the window; if it refers to one, it is only found out when the batch
/// is tried, and then nothing is deleted but what is free.
#[must_use]
pub fn held_back(target: &Target, after: Option<WindowMark>, last: Option<WindowMark>) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, age, parent } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, child) = (guard.on("due"), guard.on("child"));
    let (after, last) = (Bound::after(&mut sql, after), Bound::until(&mut sql, last));
    let page = after.on("due", age) + &last.on("due", age);
    let younger = last.beyond("child", age).map_or_else(String::new, |younger| format!(" OR {younger}"));
    let id = Number::new(&mut sql, target).of("due", key);
    sql.finish(format!(
        "SELECT DISTINCT {id} AS id
FROM {table} AS due JOIN {table} AS child ON child.{parent} = due.{key}
WHERE {due}{page} AND (({child}) IS NOT TRUE{younger})"
    ))
}

/// The due parents of rows of that window which are no part of it: `id`, their number as in the column `parent` of [`chains`],
/// and `address`.
#[must_use]
pub fn parents_elsewhere(target: &Target, after: Option<WindowMark>, last: Option<WindowMark>) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, age, parent } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, up) = (guard.on("due"), guard.on("up"));
    let (after, last) = (Bound::after(&mut sql, after), Bound::until(&mut sql, last));
    let page = after.on("due", age) + &last.on("due", age);
    let elsewhere: Vec<_> = [after.beyond("up", age), last.beyond("up", age)].into_iter().flatten().collect();
    let elsewhere = if elsewhere.is_empty() { "FALSE".to_owned() } else { elsewhere.join(" OR ") };
    let id = Number::new(&mut sql, target).of("due", parent);
    sql.finish(format!(
        "SELECT DISTINCT {id} AS id, pg_catalog.tidsend(up.ctid) AS address
FROM {table} AS due JOIN {table} AS up ON up.{key} = due.{parent}
WHERE {due}{page} AND {up} AND ({elsewhere})"
    ))
}

/// Due rows that nothing refers to, in the order (age, ctid), strictly after `after`, at most `max_rows`. Columns, by their
/// place: `address` and `age` as in [`chains`], and `parent` (bytea): the parent's address, NULL unless that is due.
///
/// Only asked under the leaf rule. Ordinary outer joins, of which the smaller side is hashed: that is what is due, and
/// with nothing due the table is not read for children at all. `num_nulls`, and not `IS NULL`, keeps the first one that
/// way: as `NOT EXISTS` it would hash the whole table before PostgreSQL 16.
#[must_use]
pub fn leaves(target: &Target, after: Option<WindowMark>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let names = Names::of(target);
    let Names { table, key, age, parent } = &names;
    let parent = parent.as_ref().unwrap_or(key);
    let guard = Guard::new(&mut sql, target);
    let (due, up) = (guard.on("due"), guard.on("up"));
    let resume = Bound::after(&mut sql, after).on("due", age);
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "WITH page AS MATERIALIZED (
  SELECT due.ctid AS address, due.{parent} AS parent, due.{age} AS age
  FROM {table} AS due LEFT JOIN {table} AS child ON child.{parent} = due.{key}
  WHERE {due}{resume} AND pg_catalog.num_nulls(child.{parent}) = 1
  ORDER BY due.{age}, due.ctid
  LIMIT {limit})
SELECT pg_catalog.tidsend(page.address) AS address, page.age, pg_catalog.tidsend(up.ctid) AS parent
FROM page LEFT JOIN {table} AS up ON up.{key} = page.parent AND {up}
ORDER BY page.age, page.address"
    ))
}

/// A number for a key: PostgreSQL's own hash of its text, which every type has. Salted with the cutoff, which is another one
/// for each run.
struct Number {
    salt: String,
}

impl Number {
    fn new(sql: &mut Sql, target: &Target) -> Self {
        Self { salt: sql.bind(target.cutoff.instant().timestamp_micros()) }
    }

    fn of(&self, alias: &str, column: &str) -> String {
        format!("pg_catalog.hashtextextended({alias}.{column}::text, {}::bigint)", self.salt)
    }
}

/// Where a page of the order (age, ctid) begins (exclusive) or ends (inclusive); without a mark, with the first or last row.
enum Bound {
    None,
    After(String, String),
    Until(String, String),
}

impl Bound {
    fn after(sql: &mut Sql, mark: Option<WindowMark>) -> Self {
        mark.map_or(Self::None, |mark| Self::After(sql.bind(mark.age), sql.bind(tid(mark.address))))
    }

    fn until(sql: &mut Sql, mark: Option<WindowMark>) -> Self {
        mark.map_or(Self::None, |mark| Self::Until(sql.bind(mark.age), sql.bind(tid(mark.address))))
    }

    /// ` AND` the row called `alias` is on this side of it; empty without a mark.
    fn on(&self, alias: &str, age: &str) -> String {
        let (mark, address, than) = match self {
            Self::None => return String::new(),
            Self::After(mark, address) => (mark, address, ">"),
            Self::Until(mark, address) => (mark, address, "<"),
        };
        let or_equal = if than == "<" { "=" } else { "" };
        format!(
            " AND {alias}.{age} {than}= {mark}::timestamptz AND ({alias}.{age} {than} {mark}::timestamptz \
             OR {alias}.ctid {than}{or_equal} {address}::text::tid)"
        )
    }

    /// The row called `alias` is on the other side of it; `None` without a mark.
    fn beyond(&self, alias: &str, age: &str) -> Option<String> {
        let (mark, address, than) = match self {
            Self::None => return None,
            Self::After(mark, address) => (mark, address, "<="),
            Self::Until(mark, address) => (mark, address, ">"),
        };
        Some(format!("({alias}.{age}, {alias}.ctid) {than} ({mark}::timestamptz, {address}::text::tid)"))
    }
}
