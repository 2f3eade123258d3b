//! Rules about foreign keys that refer to the table: what a delete meets or causes through them.

use super::facts::{ForeignKey, OnDelete};
use super::{Examined, Finding};
use crate::sql::ident;

const SELF: &str = "self-reference";
const OTHERS: &str = "foreign-keys-in";

/// The table's own foreign keys to itself. One that acts would delete or change rows nobody has judged, and without
/// the sight of the worker: an error whatever the policy says.
pub(super) fn self_reference(examined: &Examined<'_>) -> Vec<Finding> {
    let (policy, name) = (examined.policy, &examined.policy.table);
    let own: Vec<_> = examined.foreign_keys.iter().filter(|key| key.own).collect();
    let mut findings: Vec<_> = own.iter().filter_map(|key| refused(examined, key)).collect();
    if findings.is_empty() {
        match policy.parent_column.as_deref() {
            Some(parent) if !own.iter().any(|key| key.by_parent) => findings.push(examined.warning(
                SELF,
                format!(
                    "no foreign key says what {parent} of {name} refers to: a row inserted while its parent is being \
                     deleted is left without one"
                ),
                format!(
                    "ALTER TABLE {relation} ADD FOREIGN KEY ({}) REFERENCES {relation} ({}) ON DELETE RESTRICT NOT VALID;",
                    ident(parent),
                    policy.key.first().map(|key| ident(key)).unwrap_or_default(),
                    relation = examined.relation(),
                ),
            )),
            Some(parent) => findings.push(examined.ok(SELF, format!("the foreign key of {parent} forbids, as it should"))),
            None => findings.push(examined.ok(SELF, format!("{name} does not refer to itself"))),
        }
    }
    findings
}

fn refused(examined: &Examined<'_>, key: &ForeignKey) -> Option<Finding> {
    let does = match key.on_delete {
        OnDelete::Cascade => {
            "ON DELETE CASCADE: deleting a row deletes its children, whatever their age and status"
        }
        OnDelete::Change => "ON DELETE SET NULL or SET DEFAULT: deleting a row changes its children",
        OnDelete::Forbid if key.by_parent => return None,
        OnDelete::Forbid => {
            return Some(examined.warning(
                SELF,
                format!(
                    "foreign key {} ({}) refers to the table itself, and the policy does not know of it: rows it refers \
                     to cannot be deleted and become failed rows",
                    key.name, key.columns
                ),
                "name its column as the policy's parent column",
            ));
        }
    };
    let (relation, constraint) = (examined.relation(), ident(&key.name));
    Some(examined.error(
        SELF,
        format!("foreign key {} is {does}", key.name),
        format!(
            "ALTER TABLE {relation} DROP CONSTRAINT {constraint}, ADD CONSTRAINT {constraint} FOREIGN KEY ({}) \
             REFERENCES {relation} ON DELETE RESTRICT NOT VALID; ALTER TABLE {relation} VALIDATE CONSTRAINT {constraint};",
            key.columns
        ),
    ))
}

/// Foreign keys of other tables, one finding each.
pub(super) fn foreign_keys_in(examined: &Examined<'_>) -> Vec<Finding> {
    let findings: Vec<_> =
        examined.foreign_keys.iter().filter(|key| !key.own).map(|key| of_another(examined, key)).collect();
    if findings.is_empty() {
        return vec![examined.ok(OTHERS, format!("no other table refers to {}", examined.policy.table))];
    }
    findings
}

fn of_another(examined: &Examined<'_>, key: &ForeignKey) -> Finding {
    let ForeignKey { name, referrer, columns, .. } = key;
    let (effect, advice) = match key.on_delete {
        OnDelete::Forbid => (
            "rows it refers to cannot be deleted and become failed rows",
            format!("see that rows of {referrer} are gone before those they refer to are due"),
        ),
        OnDelete::Cascade => (
            "deleting a row deletes the rows that refer to it, which no report counts",
            format!("if rows of {referrer} must stay: ON DELETE RESTRICT"),
        ),
        OnDelete::Change => (
            "deleting a row changes the rows that refer to it",
            format!("if rows of {referrer} must stay as they are: ON DELETE RESTRICT"),
        ),
    };
    let message = format!("foreign key {name} of {referrer} ({columns}): {effect}");
    if key.indexed {
        return examined.warning(OTHERS, message, advice);
    }
    examined.warning(
        OTHERS,
        format!("{message}; no index finds them, so every deleted row costs a scan of {referrer}"),
        format!("{advice}; CREATE INDEX CONCURRENTLY ON {referrer} ({columns});"),
    )
}
