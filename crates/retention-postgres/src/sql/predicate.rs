//! The guard and the leaf rule as SQL, in the one place every statement takes them from.

use std::fmt::Write as _;

use retention_domain::TableName;
use retention_domain::guard::{Condition, Test, Value};
use retention_domain::plan::Target;

use super::{Sql, ident, table_literal};

/// Where a statement looks for the rows of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the policy's table alone, not in tables that inherit from it.
    Table,
    /// In all partitions of the policy's table.
    Partitions,
    /// In this partition alone.
    Partition {
        /// Its name now.
        table: TableName,
        /// What it is, whatever it is called.
        oid: u32,
    },
}

impl Place {
    /// What follows `FROM`. `ONLY`: a policy speaks of its own table, never of tables that inherit from it.
    fn relation(&self, target: &Target) -> String {
        match self {
            Self::Table => format!("ONLY {}", table_literal(&target.policy.table)),
            Self::Partitions => table_literal(&target.policy.table),
            Self::Partition { table, .. } => format!("ONLY {}", table_literal(table)),
        }
    }
}

/// The policy's guard with its values bound once, to be rendered for any alias.
///
/// # Safety argument
/// A row passes only if its date is strictly before the cutoff (`<` fails at the cutoff itself, for `infinity`, and for NULL)
/// and not `-infinity`, and every condition holds (NULL fails `IN`). Hence never an Active session, never an unknown status,
/// never an undated row.
///
/// Not `> '-infinity'`: whoever plans that looks up the least date in the index, behind all that was just deleted. Not
/// `isfinite`: it is taken to hold for a third of the rows, and then the larger side of a join is hashed.
pub(super) struct Guard {
    age: String,
    cutoff: String,
    conditions: Vec<(String, String)>,
    partition: Option<(String, String)>,
}

impl Guard {
    pub(super) fn new(sql: &mut Sql, target: &Target) -> Self {
        let cutoff = sql.bind(target.cutoff.instant());
        let conditions = bind_conditions(sql, target);
        Self { age: ident(&target.policy.age_column), cutoff, conditions, partition: None }
    }

    /// The guard of a statement that is about one place. A partition's name may have come to mean another table since it
    /// was looked up, and a partition may have been detached to be kept: a row passes only if its table is still the same
    /// one, and still a partition of the policy's table. Neither changes while the statement runs: both take a lock that
    /// conflicts with the statement's own.
    pub(super) fn at(sql: &mut Sql, target: &Target, place: &Place) -> Self {
        let guard = Self::new(sql, target);
        match place {
            Place::Table | Place::Partitions => guard,
            Place::Partition { oid, .. } => {
                let oid = sql.bind(i64::from(*oid));
                let root = sql.bind(table_literal(&target.policy.table));
                let belongs = format!(
                    "(SELECT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors({oid}::bigint::oid) AS above \
                     WHERE above.relid = {root}::text::regclass))"
                );
                Self { partition: Some((format!("tableoid = {oid}::bigint::oid"), belongs)), ..guard }
            }
        }
    }

    /// Age and conditions, for the row called `alias`.
    pub(super) fn on(&self, alias: &str) -> String {
        let Self { age, cutoff, .. } = self;
        let mut text =
            format!("{alias}.{age} < {cutoff}::timestamptz AND {alias}.{age} <> '-infinity'::timestamptz");
        for (column, test) in &self.conditions {
            let _ = write!(text, " AND {alias}.{column}{test}");
        }
        if let Some((same, belongs)) = &self.partition {
            let _ = write!(text, " AND {alias}.{same} AND {belongs}");
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
    target
        .policy
        .conditions
        .iter()
        .map(|condition| (ident(&condition.column), bind_test(sql, condition)))
        .collect()
}

/// What follows the column. NULL passes none of the comparisons.
fn bind_test(sql: &mut Sql, condition: &Condition) -> String {
    let (operator, values) = match &condition.test {
        Test::IsNull => return " IS NULL".to_owned(),
        Test::IsNotNull => return " IS NOT NULL".to_owned(),
        Test::In(values) => ("IN", values),
        Test::NotIn(values) => ("NOT IN", values),
    };
    // Compared as text: the column may be text, varchar or an enum that lacks some of the labels.
    let cast = if values.iter().any(|value| matches!(value, Value::Text(_))) { "::text" } else { "" };
    let values: Vec<_> = values
        .iter()
        .map(|value| match value {
            Value::Text(text) => sql.bind(text.clone()),
            Value::Integer(number) => format!("{}::bigint", sql.bind(*number)),
            Value::Boolean(truth) => format!("{}::boolean", sql.bind(*truth)),
        })
        .collect();
    format!("{cast} {operator} ({})", values.join(", "))
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
    /// For statements about the policy's own table.
    pub(super) fn of(target: &Target) -> Self {
        Self::at(target, &Place::Table)
    }

    /// For statements about one place.
    pub(super) fn at(target: &Target, place: &Place) -> Self {
        let policy = &target.policy;
        Self {
            table: place.relation(target),
            key: policy.key.first().map(|key| ident(key)).unwrap_or_default(),
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
