//! Rules about the partitions of a partitioned table.

use retention_domain::policy::Disposition;

use super::{Examined, Finding};

const PARTITIONS: &str = "partitions";
const WHOLE: &str = "whole-partitions";

/// Rows are locked and deleted in the partitions themselves.
pub(super) fn usable(examined: &Examined<'_>) -> Option<Finding> {
    let name = &examined.policy.table;
    if examined.table.kind != "p" {
        return None;
    }
    Some(match &examined.partitions {
        Ok(count) => examined.ok(PARTITIONS, format!("rows may be deleted in each of the {count} partitions of {name}")),
        Err(what) => examined.error(
            PARTITIONS,
            format!("{name}: {what}"),
            "grant SELECT, DELETE and UPDATE of one column on every partition, and by default on those to come \
             (pg_partman: inherit_privileges); a foreign table as partition is not supported",
        ),
    })
}

/// Partitions that could go at once. Only where every row of them is due: a condition may keep some.
pub(super) fn whole(examined: &Examined<'_>) -> Option<Finding> {
    let policy = examined.policy;
    let first = examined.partitions_before.first()?;
    if !policy.conditions.is_empty() || policy.disposition != Disposition::Delete {
        return None;
    }
    let relation = examined.relation();
    let statements: Vec<_> = examined
        .partitions_before
        .iter()
        .map(|part| format!("ALTER TABLE {relation} DETACH PARTITION {part}; DROP TABLE {part};"))
        .collect();
    let count = examined.partitions_before.len();
    let these =
        if count == 1 { format!("{first} lies") } else { format!("{first} and {} more lie", count - 1) };
    Some(examined.warning(
        WHOLE,
        format!(
            "{these} before the cutoff as a whole: dropping a partition takes a moment under an exclusive lock of the table, \
             and leaves no dead rows as emptying it does"
        ),
        statements.join(" "),
    ))
}
