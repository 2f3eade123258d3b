//! One table headed `[[policy]]`, read and judged by itself. What several policies must not do together: `rules.rs`.

use retention_domain::policy::Disposition;
use retention_domain::{PolicyName, RetentionPeriod, RetentionPolicy, TableName};
use toml::Spanned;
use toml::de::DeValue;

use super::fault::Sink;
use super::keys::Keys;
use super::names::{policy_name, table_name};
use super::{Declared, Origin, condition, value};

const KEYS: [&str; 12] = [
    "name",
    "table",
    "key",
    "age_column",
    "retention",
    "minimum",
    "where",
    "parent_column",
    "archive_into",
    "audit_table",
    "batch_size",
    "batch_pause",
];

const NAME: &str = "lower-case letters, digits and hyphens; not sicr, refresh or run";
const TABLE: &str = "SCHEMA.TABLE, as the catalogue spells it";
const PERIOD: &str = "whole days or hours, 1h to 36500d, such as 7d, 24h or 1d 12h";
const COLUMN: &str = "the name of a column of the table";

/// A policy as far as it could be read, and where it stands.
pub(super) struct Draft {
    pub(super) name: Option<PolicyName>,
    pub(super) name_at: usize,
    pub(super) table: Option<TableName>,
    pub(super) table_at: usize,
    pub(super) archive: Option<TableName>,
    pub(super) archive_at: usize,
    /// What faults call it.
    pub(super) subject: String,
    /// The whole policy, if nothing is wrong with it.
    pub(super) declared: Option<Declared>,
}

impl Draft {
    /// Reads the policy at `index`; `None` if it is no table at all.
    pub(super) fn read(index: usize, item: &Spanned<DeValue<'_>>, faults: &mut Sink<'_>) -> Option<Self> {
        let at = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            let kind = value::kind(item.get_ref());
            faults.push(at, format!("policy {}: {kind}; allowed is a table headed [[policy]]", index + 1));
            return None;
        };
        let named = table.get("name").and_then(|name| name.get_ref().as_str());
        let subject =
            named.map_or_else(|| format!("policy {}: ", index + 1), |name| format!("policy {name:?}: "));
        let mut keys = Keys::new(table, at, subject.clone(), &KEYS, faults);

        let name = keys.required("name", NAME, |name| policy_name(value::text(name)?));
        let table = keys.required("table", TABLE, qualified);
        let age_column =
            keys.required("age_column", "the name of a column of type timestamptz", value::column);
        let retention = keys.required("retention", PERIOD, value::period);
        let minimum = minimum(&mut keys, retention);
        let key = keys.optional("key", "a list of columns, each once, at least one", value::columns);
        let parent_column = keys.optional("parent_column", COLUMN, value::column);
        check_parent(&mut keys, parent_column.as_deref(), key.as_deref());
        let archive = keys.optional("archive_into", TABLE, qualified);
        let audit_table = keys.optional("audit_table", TABLE, qualified);
        let batch_size = keys.optional("batch_size", "a whole number, 1 to 10000", value::batch_size);
        let batch_pause = keys.optional("batch_pause", "a duration, 0s to 1h, such as 100ms", value::pause);
        let (name_at, table_at, archive_at) =
            (keys.at_key("name"), keys.at_key("table"), keys.at_key("archive_into"));
        let mut origin = origin(&mut keys, age_column.as_deref(), key.as_deref(), parent_column.as_deref());
        let conditions = keys
            .get("where")
            .map(|value| condition::conditions(value, &subject, keys.faults(), &mut origin.columns))
            .unwrap_or_default();

        let disposition = archive.clone().map_or(Disposition::Delete, Disposition::Archive);
        let declared = || {
            let policy = RetentionPolicy {
                name: name.clone()?,
                table: table.clone()?,
                key: key.unwrap_or_default(),
                age_column: age_column?,
                retention: retention?,
                conditions,
                known_values: Vec::new(),
                parent_column,
                disposition,
                audit_table,
                batch_size,
                batch_pause,
            };
            Some(Declared { policy, minimum: minimum?, origin })
        };
        let declared = declared();
        Some(Self { name, name_at, table, table_at, archive, archive_at, subject, declared })
    }
}

fn qualified(value: &DeValue<'_>) -> Result<TableName, String> {
    table_name(value::text(value)?)
}

/// Where everything stands but the conditions, which add themselves.
fn origin(
    keys: &mut Keys<'_, '_, '_>,
    age_column: Option<&str>,
    key: Option<&[String]>,
    parent_column: Option<&str>,
) -> Origin {
    let at = ["table", "archive_into", "audit_table", "age_column", "key", "parent_column"]
        .map(|name| keys.has(name).then(|| keys.at_key(name)));
    let [table, archive, ledger, age_at, key_at, parent_at] =
        at.map(|at| at.map_or(0, |at| keys.faults().line(at)));
    let columns = key.unwrap_or_default().iter().map(|name| (name.clone(), key_at));
    let columns = columns.chain(age_column.map(|name| (name.to_owned(), age_at)));
    let columns = columns.chain(parent_column.map(|name| (name.to_owned(), parent_at)));
    Origin {
        file: keys.faults().file().to_owned(),
        table,
        destination: if archive > 0 { archive } else { ledger },
        columns: columns.collect(),
    }
}

/// The retention itself where the file says nothing.
fn minimum(keys: &mut Keys<'_, '_, '_>, retention: Option<RetentionPeriod>) -> Option<RetentionPeriod> {
    if !keys.has("minimum") {
        return retention;
    }
    let minimum = keys.optional("minimum", PERIOD, value::period)?;
    match retention {
        Some(retention) if retention < minimum => {
            let problem = format!(
                "retention: {retention} is below the policy's own minimum; allowed is {minimum} or more, or a smaller minimum"
            );
            keys.refuse("retention", &problem);
            None
        }
        _ => Some(minimum),
    }
}

/// The leaf rule finds a row's children by the one column they refer to.
fn check_parent(keys: &mut Keys<'_, '_, '_>, parent: Option<&str>, key: Option<&[String]>) {
    let Some(parent) = parent else { return };
    let problem = match key {
        Some([key]) if key == parent => "parent_column and key are the same column",
        Some([_]) => return,
        // A faulty key has its own fault.
        None if keys.has("key") => return,
        None => "parent_column needs to know what it refers to: add key = [\"…\"] with that one column",
        Some(_) => "parent_column refers to one column; allowed is a key of exactly one",
    };
    keys.refuse("parent_column", problem);
}
