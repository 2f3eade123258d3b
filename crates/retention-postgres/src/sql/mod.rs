//! Statements, built from a policy. Pure: identifiers are always quoted, values always bound; nothing of a policy
//! or of a row is spliced into the text. Each statement has a snapshot under `snapshots/`, text and values apart.

mod archive;
mod backlog;
mod catalog;
mod churn;
mod climb;
mod count;
mod delete_batch;
mod kin;
mod ledger;
mod partitions;
mod predicate;
mod preflight;
mod sample;
mod window;

pub use archive::{are_one, columns_of};
pub use backlog::{backlog, backlog_flat};
pub use catalog::columns;
pub use churn::preflight_churn;
pub use climb::climb;
pub use count::{count_due, preview_extras};
pub use delete_batch::{Approach, Deletion, delete_batch};
pub use kin::{lock_kin, still_due};
pub use ledger::ledger_entry;
pub use partitions::{partition_names, partitioned_window, partitions, partitions_before};
pub use predicate::Place;
pub use preflight::{
    preflight_age_index, preflight_foreign_keys, preflight_server, preflight_table, preflight_triggers,
};
pub use sample::sample;
pub use window::{chains, held_back, leaves, parents_elsewhere, window};

use retention_domain::TableName;
use sea_orm::sea_query::Value;
use sea_orm::{DbBackend, Statement};

/// A statement under construction: text, and the values bound so far.
#[derive(Debug, Default)]
struct Sql {
    values: Vec<Value>,
}

impl Sql {
    /// Binds a value; returns its placeholder.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("${}", self.values.len())
    }

    fn finish(self, text: String) -> Statement {
        Statement::from_sql_and_values(DbBackend::Postgres, text, self.values)
    }
}

/// A quoted identifier.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted, schema-qualified table; also as a value to be bound and cast to `regclass`.
pub(crate) fn table_literal(name: &TableName) -> String {
    format!("{}.{}", ident(&name.schema), ident(&name.name))
}

#[cfg(test)]
mod tests;
