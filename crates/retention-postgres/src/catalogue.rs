//! Whether a table is what a policy takes it for.

use retention_domain::TableName;
use retention_domain::guard::{Test, Value};
use retention_domain::plan::Target;
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) struct Column {
    kind: String,
    name: Option<String>,
    type_name: Option<String>,
    category: Option<String>,
    read_only: bool,
    deletes_spread: bool,
    refers_to: Option<String>,
    labels: Vec<String>,
    statement_triggers: bool,
    row_security: bool,
    rows_hidden: bool,
}

impl Column {
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            kind: row.try_get("kind")?,
            name: row.try_get("column_name")?,
            type_name: row.try_get("type_name")?,
            category: row.try_get("type_category")?,
            read_only: row.try_get("read_only")?,
            deletes_spread: row.try_get("deletes_spread")?,
            refers_to: row.try_get("refers_to")?,
            labels: row.try_get("labels")?,
            statement_triggers: row.try_get("statement_triggers")?,
            row_security: row.try_get("row_security")?,
            rows_hidden: row.try_get("rows_hidden")?,
        })
    }
}

/// A partition that holds rows.
pub(crate) struct Partition {
    name: TableName,
    kind: String,
    missing: Option<String>,
    row_security: bool,
}

impl Partition {
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: TableName { schema: row.try_get("schema")?, name: row.try_get("name")? },
            kind: row.try_get("kind")?,
            missing: row.try_get("missing")?,
            row_security: row.try_get("row_security")?,
        })
    }
}

/// # Errors
/// A sentence when rows of a partition could not be locked and deleted there.
pub(crate) fn check_partitions(partitions: &[Partition]) -> Result<(), String> {
    for Partition { name, kind, missing, row_security } in partitions {
        if kind != "r" {
            return Err(format!("partition {name} is not an ordinary table"));
        }
        if let Some(missing) = missing {
            return Err(format!("our role lacks {missing} on partition {name} (SQLSTATE 42501)"));
        }
        if *row_security {
            return Err(format!(
                "row security of partition {name} applies to our role, but not where due rows are found"
            ));
        }
    }
    Ok(())
}

/// # Errors
/// A sentence when the table or a column is missing, is of a kind whose rows have no address of their own, or
/// is dated by something else than a point in time: what such a column means depends on the session's zone.
pub(crate) fn check(target: &Target, columns: &[Column]) -> Result<(), String> {
    let policy = &target.policy;
    match columns.first().map(|column| column.kind.as_str()) {
        Some("r") => {}
        Some("p") if policy.parent_column.is_none() => {}
        Some("p") => {
            return Err("the table is partitioned and refers to itself, which is not supported".to_owned());
        }
        Some(_) => return Err("not a table".to_owned()),
        None => return Err("the table does not exist (SQLSTATE 42P01)".to_owned()),
    }
    let find = |name: &str| {
        let found = columns.iter().find(|column| column.name.as_deref() == Some(name));
        found
            .ok_or_else(|| format!("column {name} does not exist (SQLSTATE 42703){}", nearest(name, columns)))
    };
    let age = find(&policy.age_column)?.type_name.as_deref().unwrap_or_default();
    if age != "timestamp with time zone" {
        return Err(format!("column {} is {age}, but must be timestamp with time zone", policy.age_column));
    }
    let keys = policy.key.iter().map(|key| find(key)).collect::<Result<Vec<_>, _>>()?;
    if let Some(parent) = &policy.parent_column {
        let [key] = keys[..] else {
            return Err(format!("column {parent} refers to one column, but the key has {}", keys.len()));
        };
        let up = find(parent)?;
        if up.type_name != key.type_name {
            return Err(format!("columns {parent} and {} are not of one type", policy.key[0]));
        }
        if let Some(other) = up.refers_to.as_ref().filter(|other| **other != policy.key[0]) {
            return Err(format!("column {parent} refers to {other}, but the key is {}", policy.key[0]));
        }
    }
    for condition in &policy.conditions {
        let column = find(&condition.column)?;
        let type_name = column.type_name.as_deref().unwrap_or_default();
        let category = column.category.as_deref().unwrap_or_default();
        // A type that compares in a way of its own, like citext, would not be compared in that way.
        let is_text =
            matches!(type_name, "text" | "character varying" | "character" | "name") || category == "E";
        let is_number =
            matches!(type_name, "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision");
        let refused = condition.test.values().iter().find_map(|value| match value {
            Value::Text(_) => (!is_text).then_some("text or an enum"),
            Value::Integer(_) => (!is_number).then_some("a number"),
            Value::Boolean(_) => (category != "B").then_some("boolean"),
        });
        if let Some(needed) = refused {
            return Err(format!("column {} is {type_name}, but must be {needed}", condition.column));
        }
        // Padded text is compared without its blanks, and a value is not.
        if type_name == "character"
            && let Some(value) = condition.test.values().iter().find(|value| value.to_string().ends_with(' '))
        {
            return Err(format!(
                "column {} is {type_name}: the value \"{value}\" must not end in a blank",
                condition.column
            ));
        }
        // What is to be kept must exist: a slip of the pen would delete it.
        if let Test::NotIn(values) = &condition.test
            && category == "E"
            && let Some(unknown) = values.iter().find(|value| !column.labels.contains(&value.to_string()))
        {
            return Err(format!("column {} is {type_name}, which has no label {unknown}", condition.column));
        }
    }
    Ok(())
}

/// The table's column that is fewest slips of the pen away, if it is not a wholly other word.
fn nearest(name: &str, columns: &[Column]) -> String {
    let slips = |other: &str| strsim::damerau_levenshtein(other, name);
    let names = columns.iter().filter_map(|column| column.name.as_deref());
    match names.map(|other| (slips(other), other)).min() {
        Some((slips, other)) if slips <= other.len().div_ceil(2) => format!("; the nearest is {other}"),
        _ => String::new(),
    }
}

/// Whether the table is partitioned.
pub(crate) fn is_partitioned(columns: &[Column]) -> bool {
    columns.first().is_some_and(|column| column.kind == "p")
}

/// Whether the server takes no writes.
pub(crate) fn is_read_only(columns: &[Column]) -> bool {
    columns.iter().any(|column| column.read_only)
}

/// # Errors
/// A sentence when deleting here would be wrong, or would only look like a success.
///
/// # Safety argument
/// A self-reference that does not forbid would take living rows along, or change them: a child that is inserted, or
/// hidden from us, while its parent goes. Only a key that forbids makes such a delete fail instead.
pub(crate) fn check_deletable(columns: &[Column]) -> Result<(), &'static str> {
    if is_read_only(columns) {
        Err("the server is read-only (SQLSTATE 25006)")
    } else if columns.iter().any(|column| column.deletes_spread) {
        Err(
            "the table refers to itself, directly or by way of other tables, with ON DELETE CASCADE, SET NULL or SET DEFAULT: \
             deleting would touch rows that must stay; RESTRICT or NO ACTION is needed",
        )
    } else if is_partitioned(columns) && columns.iter().any(|column| column.statement_triggers) {
        Err(
            "the partitioned table has a statement trigger on DELETE, which would not fire: rows are deleted in the \
             partitions themselves; a trigger for each row fires there",
        )
    } else if is_partitioned(columns) && columns.iter().any(|column| column.row_security) {
        Err(
            "row security of a partitioned table applies to our role: rows are deleted in the partitions themselves, where \
             its policies do not hold",
        )
    } else if columns.iter().any(|column| column.rows_hidden) {
        Err(
            "row security hides rows from our role: a policy for SELECT, UPDATE and DELETE is needed (SQLSTATE 42501)",
        )
    } else {
        Ok(())
    }
}
