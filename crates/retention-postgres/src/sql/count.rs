//! Plain counts, without a lock.

use retention_domain::plan::Target;
use sea_orm::Statement;

use super::predicate::{Guard, Names, Place, conditions};
use super::{Sql, ident};

/// Due rows and the oldest of their dates, whoever refers to them. Columns: `due` (bigint), `oldest` (timestamptz,
/// finite or NULL).
#[must_use]
pub fn count_due(target: &Target, place: &Place) -> Statement {
    let mut sql = Sql::default();
    let guard = Guard::new(&mut sql, target).on("due");
    let Names { table, age, .. } = Names::at(target, place);
    sql.finish(format!(
        "SELECT count(*) AS due, min(due.{age}) AS oldest\nFROM {table} AS due\nWHERE {guard}"
    ))
}

/// Rows that stay although they look as if they should go some day: `undated` (the conditions hold, the date is
/// NULL or infinite) and `unknown_status` (a value beyond the policy's known ones). Both bigint.
#[must_use]
pub fn preview_extras(target: &Target, place: &Place) -> Statement {
    let mut sql = Sql::default();
    let conditions = conditions(&mut sql, target, "any_row");
    let known: Vec<_> = target.policy.known_values.iter().map(|value| sql.bind(value.clone())).collect();
    let unknown = match target.policy.conditions.first() {
        Some(condition) if !known.is_empty() => {
            let column = ident(&condition.column);
            format!("(any_row.{column} IS NULL OR any_row.{column}::text NOT IN ({}))", known.join(", "))
        }
        _ => "FALSE".to_owned(),
    };
    let Names { table, age, .. } = Names::at(target, place);
    sql.finish(format!(
        "SELECT\n\
         \x20 count(*) FILTER (WHERE {conditions} AND (any_row.{age} IS NULL OR NOT isfinite(any_row.{age}))) AS undated,\n\
         \x20 count(*) FILTER (WHERE {unknown}) AS unknown_status\n\
         FROM {table} AS any_row"
    ))
}
