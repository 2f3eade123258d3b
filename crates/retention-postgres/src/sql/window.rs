//! The window: one read-only scan that finds the seeds of many batches.

use retention_domain::WindowMark;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::Sql;
use super::predicate::{Guard, Names};
use crate::address::tid;

/// Due rows that nothing refers to, in the order (age, ctid), strictly after `after`, at most `max_rows`.
/// Columns: `address` (a tid in its wire form, as bytea: a driver need not know the type), `age` (timestamptz, finite).
///
/// The lower bound is spelled `age >= last AND (age, ctid) > (last, …)`, so that an index on the age column is
/// entered where the pass stopped instead of walking over what was deleted before it.
#[must_use]
pub fn window(target: &Target, after: Option<WindowMark>, max_rows: usize) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target).on("due");
    let names = Names::of(target);
    let (leaf, Names { table, age, .. }) = (names.and_leaf("due"), &names);
    let resume = after.map_or_else(String::new, |mark| {
        let (last, address) = (sql.bind(mark.age), sql.bind(tid(mark.address)));
        format!(
            " AND due.{age} >= {last}::timestamptz \
             AND (due.{age} > {last}::timestamptz OR due.ctid > {address}::text::tid)"
        )
    });
    let limit = sql.bind(i64::try_from(max_rows).unwrap_or(i64::MAX));
    sql.finish(format!(
        "SELECT pg_catalog.tidsend(due.ctid) AS address, due.{age} AS age\n\
         FROM {table} AS due\n\
         WHERE {guard}{resume}{leaf}\n\
         ORDER BY due.{age}, due.ctid\n\
         LIMIT {limit}"
    ))
}
