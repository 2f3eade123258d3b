//! The guard and the leaf rule as SQL, in the one place every statement takes them from.

use std::fmt::Write as _;

use retention_domain::guard::Test;
use retention_domain::plan::Target;

use super::{Sql, ident, table};

/// The policy's guard with its values bound once, to be rendered for any alias.
///
/// # Safety argument
/// A row passes only if its date is finite and strictly before the cutoff (`<` fails at the cutoff itself, for
/// NULL, and for `infinity`; `-infinity` is shut out by name), and every condition holds (NULL fails `IN`). Hence
/// never an Active session, never an unknown status, never an undated row.
pub(super) struct Guard {
    age: String,
    cutoff: String,
    conditions: Vec<(String, String)>,
}

impl Guard {
    pub(super) fn new(sql: &mut Sql, target: &Target) -> Self {
        let cutoff = sql.bind(target.cutoff.instant());
        Self { age: ident(&target.policy.age_column), cutoff, conditions: bind_conditions(sql, target) }
    }

    /// Age and conditions, for the row called `alias`.
    pub(super) fn on(&self, alias: &str) -> String {
        let Self { age, cutoff, .. } = self;
        let mut text = format!("{alias}.{age} < {cutoff}::timestamptz AND {alias}.{age} > '-infinity'");
        for (column, test) in &self.conditions {
            let _ = write!(text, " AND {alias}.{column}{test}");
        }
        text
    }
}

/// The conditions alone, for the row called `alias`; `TRUE` where there is none.
pub(super) fn conditions(sql: &mut Sql, target: &Target, alias: &str) -> String {
    let tests: Vec<_> = bind_conditions(sql, target)
        .into_iter()
        .map(|(column, test)| format!("{alias}.{column}{test}"))
        .collect();
    if tests.is_empty() { "TRUE".to_owned() } else { tests.join(" AND ") }
}

fn bind_conditions(sql: &mut Sql, target: &Target) -> Vec<(String, String)> {
    let mut conditions = Vec::new();
    for condition in &target.policy.conditions {
        let Test::In(values) = &condition.test;
        let values: Vec<_> = values.iter().map(|value| sql.bind(value.clone())).collect();
        // Compared as text: the column may be text, varchar or an enum that lacks some of the labels.
        conditions.push((ident(&condition.column), format!("::text IN ({})", values.join(", "))));
    }
    conditions
}

/// The names a statement needs of its policy.
pub(super) struct Names {
    pub(super) table: String,
    pub(super) key: String,
    pub(super) age: String,
    /// The self-reference, where there is one.
    pub(super) parent: Option<String>,
}

impl Names {
    pub(super) fn of(target: &Target) -> Self {
        let policy = &target.policy;
        Self {
            table: table(&policy.table),
            key: ident(&policy.key_column),
            age: ident(&policy.age_column),
            parent: policy.parent_column.as_deref().map(ident),
        }
    }

    /// The leaf rule: ` AND` no row refers to the row called `alias`; empty where there is no self-reference.
    /// `NOT EXISTS`, not `NOT IN`: every root's parent is NULL.
    pub(super) fn and_leaf(&self, alias: &str) -> String {
        let Self { table, key, parent, .. } = self;
        parent.as_ref().map_or_else(String::new, |parent| {
            format!(" AND NOT EXISTS (SELECT 1 FROM {table} AS child WHERE child.{parent} = {alias}.{key})")
        })
    }
}
