//! Whether a table is what a policy takes it for.

use retention_domain::plan::Target;
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) struct Column {
    kind: String,
    name: Option<String>,
    type_name: Option<String>,
    category: Option<String>,
    read_only: bool,
}

impl Column {
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            kind: row.try_get("kind")?,
            name: row.try_get("column_name")?,
            type_name: row.try_get("type_name")?,
            category: row.try_get("type_category")?,
            read_only: row.try_get("read_only")?,
        })
    }
}

/// # Errors
/// A sentence when the table or a column is missing, is of a kind whose rows have no address of their own, or
/// is dated by something else than a point in time: what such a column means depends on the session's zone.
pub(crate) fn check(target: &Target, columns: &[Column]) -> Result<(), String> {
    let policy = &target.policy;
    match columns.first().map(|column| column.kind.as_str()) {
        Some("r") => {}
        Some("p") => {
            return Err("the table is partitioned, which this version does not support".to_owned());
        }
        Some(_) => return Err("not a table".to_owned()),
        None => return Err("the table does not exist (SQLSTATE 42P01)".to_owned()),
    }
    let find = |name: &str| {
        let found = columns.iter().find(|column| column.name.as_deref() == Some(name));
        found.ok_or_else(|| format!("column {name} does not exist (SQLSTATE 42703)"))
    };
    let age = find(&policy.age_column)?.type_name.as_deref().unwrap_or_default();
    if age != "timestamp with time zone" {
        return Err(format!("column {} is {age}, but must be timestamp with time zone", policy.age_column));
    }
    let key = find(&policy.key_column)?;
    if let Some(parent) = &policy.parent_column
        && find(parent)?.type_name != key.type_name
    {
        return Err(format!("columns {parent} and {} are not of one type", policy.key_column));
    }
    for condition in &policy.conditions {
        let column = find(&condition.column)?;
        if !matches!(column.category.as_deref(), Some("S" | "E")) {
            let type_name = column.type_name.as_deref().unwrap_or_default();
            return Err(format!("column {} is {type_name}, but must be text or an enum", condition.column));
        }
    }
    Ok(())
}

/// # Errors
/// A sentence when the server takes no writes: a run over nothing due must not look like a success there.
pub(crate) fn check_writable(columns: &[Column]) -> Result<(), String> {
    if columns.iter().any(|column| column.read_only) {
        return Err("the server is read-only (SQLSTATE 25006)".to_owned());
    }
    Ok(())
}
