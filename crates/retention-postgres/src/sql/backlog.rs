//! What is still due, told apart into pending and blocked, without a lock.

use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names, Place};

/// For a policy without a self-reference: everything due is pending. Columns as [`backlog`].
#[must_use]
pub fn backlog_flat(target: &Target, place: &Place) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target).on("due");
    let Names { table, age, .. } = Names::at(target, place);
    sql.finish(format!(
        "SELECT count(*) AS pending, 0::bigint AS blocked,\n\
         \x20 min(due.{age}) AS oldest_pending, NULL::timestamptz AS oldest_blocked\n\
         FROM {table} AS due\n\
         WHERE {guard}"
    ))
}

/// Columns: `pending`, `blocked` (bigint), `oldest_pending`, `oldest_blocked` (timestamptz, finite or NULL).
///
/// *Blocked* is a due row with a descendant that stays, or on a cycle.
/// - `held_back` starts at the due parents of rows that stay and climbs through due rows; `UNION` visits each row
///   once, so it ends on cycles too.
/// - `round` finds cycles of due rows. Each has one row with the least key of its cycle; climbing from it meets only
///   greater keys until it is met again. So a climb starts where a row's parent has no lesser key than the row, and
///   goes on only over keys not less than its start's. With keys in the order of creation, where a parent precedes
///   its child, no climb even starts; with random keys they are a few steps long, whatever the dates.
///
/// `LATERAL … OFFSET 0` keeps each step of a climb an index lookup: as a plain join it may be planned as a scan of
/// the whole table per level. The sets are subtracted with `EXCEPT`, which is linear whatever the planner expects.
///
/// Rows without a self-reference have no descendants: for those this is [`backlog_flat`].
#[must_use]
pub fn backlog(target: &Target, place: &Place) -> Statement {
    let names = Names::of(target);
    let Some(parent) = &names.parent else { return backlog_flat(target, place) };
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target);
    let Names { table, key, age, .. } = &names;
    let (due, stays, up) = (guard.on("due"), guard.on("stays"), guard.on("up"));
    sql.finish(format!(
        "WITH RECURSIVE held_back (key, parent, age) AS (
  SELECT up.{key}, up.{parent}, up.{age}
  FROM {table} AS stays JOIN {table} AS up ON up.{key} = stays.{parent}
  WHERE ({stays}) IS NOT TRUE AND {up}
  UNION
  SELECT above.* FROM held_back, LATERAL (
    SELECT up.{key}, up.{parent}, up.{age} FROM {table} AS up WHERE up.{key} = held_back.parent AND {up}
    OFFSET 0) AS above),
round (start, key, parent, age) AS (
  SELECT due.{key}, up.{key}, up.{parent}, up.{age}
  FROM {table} AS due JOIN {table} AS up ON up.{key} = due.{parent}
  WHERE {due} AND {up} AND up.{key} >= due.{key}
  UNION
  SELECT round.start, above.* FROM round, LATERAL (
    SELECT up.{key}, up.{parent}, up.{age} FROM {table} AS up WHERE up.{key} = round.parent AND {up}
    AND up.{key} >= round.start OFFSET 0) AS above
  WHERE round.key <> round.start),
blocked AS MATERIALIZED (
  SELECT key, age FROM held_back
  UNION
  SELECT key, age FROM round WHERE start IN (SELECT start FROM round WHERE key = start)),
total AS MATERIALIZED (
  SELECT count(*) AS due, min(due.{age}) AS oldest, (SELECT count(*) FROM blocked) AS blocked
  FROM {table} AS due WHERE {due})
SELECT total.due - total.blocked AS pending, total.blocked,
  CASE WHEN total.blocked = 0 THEN total.oldest ELSE (
    SELECT min(age) FROM (
      SELECT due.{key} AS key, due.{age} AS age FROM {table} AS due WHERE {due}
      EXCEPT SELECT key, age FROM blocked) AS pending) END AS oldest_pending,
  (SELECT min(age) FROM blocked) AS oldest_blocked
FROM total"
    ))
}
