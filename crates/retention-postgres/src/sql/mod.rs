//! Statements, built from a policy. Pure: identifiers are always quoted, values always bound; nothing of a policy
//! or of a row is spliced into the text. Each statement has a snapshot under `snapshots/`, text and values apart.

mod backlog;
mod catalog;
mod climb;
mod count;
mod delete_batch;
mod kin;
mod predicate;
mod preflight;
mod window;

pub use backlog::{backlog, backlog_flat};
pub use catalog::columns;
pub use climb::climb;
pub use count::{count_due, preview_extras};
pub use delete_batch::{LeafRule, delete_batch};
pub use kin::{lock_kin, still_due};
pub use preflight::{
    preflight_age_index, preflight_foreign_keys, preflight_server, preflight_table, preflight_triggers,
};
pub use window::window;

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

/// A table as a value to be bound and cast to `regclass`.
fn table_literal(name: &TableName) -> String {
    format!("{}.{}", ident(&name.schema), ident(&name.name))
}

/// A quoted, schema-qualified table. `ONLY`: a policy speaks of its own table, never of tables that inherit from it.
fn table(name: &TableName) -> String {
    format!("ONLY {}", table_literal(name))
}

#[cfg(test)]
mod tests;
