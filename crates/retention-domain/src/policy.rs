//! Retention policies as values, and the two built-in ones of the session job.

use std::fmt;
use std::time::Duration;

use crate::guard::Condition;
use crate::period::RetentionPeriod;
use crate::status::RefreshStatus;

/// A policy's name: the `phase` of logs and the `policy` label of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyName(String);

/// A schema-qualified table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema, as the catalogue spells it.
    pub schema: String,
    /// The table, as the catalogue spells it.
    pub name: String,
}

/// Which rows of which table are due, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Unique among the policies of a run.
    pub name: PolicyName,
    /// The table the rows leave.
    pub table: TableName,
    /// The columns that tell a row apart, in the order of an index on them. Empty: whatever the primary key is. Exactly
    /// one where there is a [`Self::parent_column`], which refers to it.
    pub key: Vec<String>,
    /// The `timestamptz` column that dates a row.
    pub age_column: String,
    /// How long a row lives.
    pub retention: RetentionPeriod,
    /// What else must hold for a row to be due.
    pub conditions: Vec<Condition>,
    /// Every value the first condition's column may have, where a value beyond them is worth a warning.
    pub known_values: Vec<String>,
    /// The self-reference: a row goes only when no remaining row refers to it (the leaf rule).
    pub parent_column: Option<String>,
    /// What becomes of a due row.
    pub disposition: Disposition,
    /// The ledger: a table that gets a row for each batch, in the transaction of the delete.
    pub audit_table: Option<TableName>,
    /// Rows per batch, where it differs from the run's; 1 to 10000.
    pub batch_size: Option<u32>,
    /// Pause after a batch, where it differs from the run's.
    pub batch_pause: Option<Duration>,
}

/// What becomes of a due row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is deleted.
    Delete,
    /// It moves to this table, whose columns are those of the policy's table, in one step.
    Archive(TableName),
}

impl PolicyName {
    /// The phase A policy's name.
    pub const SICR: &'static str = "sicr";
    /// The phase B policy's name.
    pub const REFRESH: &'static str = "refresh";

    /// A name; the caller has checked its spelling (`[a-z0-9-]`).
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TableName {
    /// The table `schema.name`.
    #[must_use]
    pub fn new(schema: &str, name: &str) -> Self {
        Self { schema: schema.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl RetentionPolicy {
    /// Phase A: confirmation requests, by `created_at` alone. The status is not looked at: whatever it is, a
    /// request this old is inert (specification, section 1).
    #[must_use]
    pub fn sicr(retention: RetentionPeriod) -> Self {
        Self {
            name: PolicyName::new(PolicyName::SICR),
            table: TableName::new("identity", "sign_in_confirmation_requests"),
            key: vec!["id".to_owned()],
            age_column: "created_at".to_owned(),
            retention,
            conditions: Vec::new(),
            known_values: Vec::new(),
            parent_column: None,
            disposition: Disposition::Delete,
            audit_table: None,
            batch_size: None,
            batch_pause: None,
        }
    }

    /// Phase B: terminal refresh sessions, by `updated_at`, from the leaf to the root of a rotation chain.
    #[must_use]
    pub fn refresh(retention: RetentionPeriod) -> Self {
        let terminal = RefreshStatus::ALL.into_iter().filter(|status| status.is_terminal());
        Self {
            name: PolicyName::new(PolicyName::REFRESH),
            table: TableName::new("identity", "refresh_sessions"),
            key: vec!["id".to_owned()],
            age_column: "updated_at".to_owned(),
            retention,
            conditions: vec![Condition::is_in("status", terminal.map(RefreshStatus::as_str))],
            known_values: RefreshStatus::ALL.into_iter().map(|status| status.as_str().to_owned()).collect(),
            parent_column: Some("parent_session_id".to_owned()),
            disposition: Disposition::Delete,
            audit_table: None,
            batch_size: None,
            batch_pause: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_the_catalogue_spells_them() {
        let name = PolicyName::new("outbox-old");
        assert_eq!((name.as_str(), name.to_string().as_str()), ("outbox-old", "outbox-old"));
        assert_eq!(TableName::new("Review", "outbox").to_string(), "Review.outbox");
    }
}
