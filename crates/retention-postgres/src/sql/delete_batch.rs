//! The deleting statement: one batch, one statement, one transaction.

use retention_domain::RowAddress;
use retention_domain::plan::Target;
use retention_domain::policy::Disposition;
use sea_orm::Statement;

use super::predicate::{Guard, Names, Place};
use super::{Sql, ident, table_literal};
use crate::address::tid_list;

/// How a batch meets what others do to its rows and their relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// As if nobody else were there: one write per row. The leaf rule is the foreign key's, if it is in force now;
    /// otherwise nothing is deleted.
    AtOnce,
    /// Locks first what nobody else holds. The leaf rule is looked up by the statement itself: if a row that does not go
    /// refers to one that would, nothing is deleted.
    LockFirst,
}

/// One batch to be deleted.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// Whose rows.
    pub target: &'a Target,
    /// Where they are.
    pub place: &'a Place,
    /// The rows, distinct and all of that place.
    pub rows: &'a [RowAddress],
    /// Whether others are reckoned with.
    pub approach: Approach,
    /// The columns that move to the policy's archive, where it has one.
    pub archived: &'a [String],
}

/// Deletes those of `rows` that are due.
///
/// One row comes back: `deleted` (bigint), `tried` (boolean; false when the leaf rule forbade the delete), with
/// [`Approach::LockFirst`] `locked` (bigint), and for an archive `kept` (bigint; rows that were inserted there).
///
/// Where the policy has an archive, the same statement inserts what it deletes: a row is in exactly one of the two
/// tables at any moment. A key that is already there makes it fail. The caller undoes the transaction unless `kept`
/// equals `deleted`: a trigger on the archive may drop rows.
///
/// # Safety argument
/// Whoever proposed the rows, this statement alone decides. Rows that must never go: young and undated ones, those
/// that fail a condition (living sessions), those that a remaining row refers to, and rows nobody asked for.
/// - An address is a hint, the row there may be another by now: hence the guard (age and conditions) in the `DELETE`
///   itself. Should it have to wait for somebody who then changes the row, PostgreSQL applies the guard to what they made
///   of it.
/// - The leaf rule, [`Approach::AtOnce`]: it is enforced by the foreign key's own trigger, which asks for each deleted row
///   whether another refers to it when the statement ends, and makes the statement fail if so. `key_in_force` is true
///   only if there is such a key, its delete trigger is enabled for this session, and it is checked at once (not
///   deferred). It cannot be dropped or disabled meanwhile: that takes a lock which conflicts with the one this
///   statement has on the table. Several rows of a chain may go together, because the key is checked when the statement
///   ends.
/// - The leaf rule, [`Approach::LockFirst`]: `locked` takes, of the rows asked for, those that pass the guard and that
///   nobody else has locked; only they go. `outside` is every row that refers to a locked row without being locked
///   itself. With a single one, nothing goes.
/// - A child inserted by somebody else meanwhile makes the foreign key raise, and the statement deletes nothing.
/// - The bound: addresses are distinct and within one table (`ONLY`), so no more rows go than were asked for.
///
/// Locks: [`Approach::LockFirst`] takes them with `SKIP LOCKED`, never waits for a row, and only the foreign key's check
/// may wait, for a child that somebody else holds and that is no part of the batch. [`Approach::AtOnce`] may wait for
/// rows too: the caller bounds that with a lock timeout so short that nobody minds.
#[must_use]
pub fn delete_batch(deletion: Deletion<'_>) -> Statement {
    let Deletion { target, place, rows, approach, archived } = deletion;
    let mut sql = Sql::default();
    let guard = Guard::at(&mut sql, target, place);
    let rows = sql.bind(tid_list(rows));
    let rows = format!("{rows}::text::tid[]");
    let names = Names::at(target, place);
    let Names { table, key, .. } = &names;
    let goes = guard.on("goes");
    let (before, from, count_locked) = match approach {
        Approach::AtOnce => {
            let may = match names.parent {
                Some(_) => key_in_force(&mut sql, target),
                None => "TRUE".to_owned(),
            };
            (format!("may AS MATERIALIZED (\n  SELECT {may} AS may)"), rows, "")
        }
        Approach::LockFirst => {
            let due = guard.on("due");
            let (columns, may) = match &names.parent {
                None => (String::new(), "may AS MATERIALIZED (SELECT TRUE AS may)".to_owned()),
                Some(parent) => (
                    format!(", due.{key} AS key"),
                    format!(
                        "outside AS MATERIALIZED (
  SELECT child.ctid FROM {table} AS child WHERE child.{parent} = ANY (ARRAY(SELECT key FROM locked))
  EXCEPT SELECT address FROM locked),
may AS MATERIALIZED (
  SELECT NOT EXISTS (SELECT FROM outside) AS may)"
                    ),
                ),
            };
            let locked = format!(
                "locked AS MATERIALIZED (
  SELECT due.ctid AS address{columns} FROM {table} AS due
  WHERE due.ctid = ANY ({rows}) AND {due}
  FOR UPDATE SKIP LOCKED),
{may}"
            );
            let from = "ARRAY(SELECT address FROM locked)".to_owned();
            (locked, from, ", (SELECT count(*) FROM locked) AS locked")
        }
    };
    let (returning, kept, count_kept) = match &target.policy.disposition {
        Disposition::Delete => ("1".to_owned(), String::new(), ""),
        Disposition::Archive(archive) => {
            let listed = |prefix: &str| {
                let columns = archived.iter().map(|column| format!("{prefix}{}", ident(column)));
                columns.collect::<Vec<_>>().join(", ")
            };
            let (columns, archive) = (listed(""), table_literal(archive));
            let kept = format!(
                ",
kept AS (
  INSERT INTO {archive} ({columns}) OVERRIDING SYSTEM VALUE
  SELECT {columns} FROM gone
  RETURNING 1)"
            );
            (listed("goes."), kept, ", (SELECT count(*) FROM kept) AS kept")
        }
    };
    sql.finish(format!(
        "WITH {before},
gone AS (
  DELETE FROM {table} AS goes
  WHERE (SELECT may FROM may) AND goes.ctid = ANY ({from}) AND {goes}
  RETURNING {returning}){kept}
SELECT (SELECT count(*) FROM gone) AS deleted, may AS tried{count_locked}{count_kept} FROM may"
    ))
}

/// Whether the self-reference forbids, at once, that a row goes to which another refers.
///
/// The trigger is the one on the referred side that fires on delete (bit 3 of `tgtype`). `tgenabled`: `O` fires unless the
/// session replays a replica's changes, `A` always. A key that is not enforced has no trigger.
fn key_in_force(sql: &mut Sql, target: &Target) -> String {
    let policy = &target.policy;
    let table = sql.bind(table_literal(&policy.table));
    let key = sql.bind(policy.key.first().cloned());
    let parent = sql.bind(policy.parent_column.clone());
    let column = |name: String| {
        format!(
            "ARRAY(SELECT attribute.attnum FROM pg_catalog.pg_attribute AS attribute
    WHERE attribute.attrelid = reference.conrelid AND attribute.attname = {name})"
        )
    };
    let (parent, key) = (column(parent), column(key));
    format!(
        "EXISTS (
  SELECT FROM pg_catalog.pg_constraint AS reference
  JOIN pg_catalog.pg_trigger AS checks ON checks.tgconstraint = reference.oid AND checks.tgrelid = reference.confrelid
  WHERE reference.contype = 'f' AND reference.conrelid = {table}::text::regclass
    AND reference.confrelid = reference.conrelid AND reference.confdeltype IN ('a', 'r') AND NOT reference.condeferrable
    AND reference.conkey = {parent}
    AND reference.confkey = {key}
    AND checks.tgtype & 8 = 8
    AND (checks.tgenabled = 'A' OR checks.tgenabled = 'O' AND current_setting('session_replication_role') <> 'replica'))"
    )
}
