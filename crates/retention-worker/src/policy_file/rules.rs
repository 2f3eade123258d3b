//! What the policies of a file must not do together, or to the tables of the built-in ones.

use std::collections::BTreeSet;

use retention_domain::{RetentionPeriod, RetentionPolicy, TableName};

use super::declaration::Draft;
use super::fault::Sink;

/// The tables of the built-in policies, with the policy's name. How long their rows live is a setting.
pub(crate) fn built_in_tables() -> Vec<(TableName, String)> {
    RetentionPeriod::from_days(1)
        .map(|any| [RetentionPolicy::sicr(any), RetentionPolicy::refresh(any)])
        .into_iter()
        .flatten()
        .map(|policy| (policy.table, policy.name.to_string()))
        .collect()
}

/// Adds the faults of the file as a whole.
pub(super) fn check(drafts: &[Draft], faults: &mut Sink<'_>) {
    let built_in = built_in_tables();
    for (index, draft) in drafts.iter().enumerate() {
        let subject = &draft.subject;
        let same = |other: &&Draft| other.name.is_some() && other.name == draft.name;
        if drafts[..index].iter().any(|other| same(&other)) {
            faults.push(
                draft.name_at,
                format!("{subject}another policy has this name; allowed is each name once"),
            );
        }
        let owner =
            |table: &Option<TableName>| built_in.iter().find(|(owned, _)| Some(owned) == table.as_ref());
        for (table, at, key) in
            [(&draft.table, draft.table_at, "table"), (&draft.archive, draft.archive_at, "archive_into")]
        {
            if let Some((table, policy)) = owner(table) {
                let problem = format!(
                    "{subject}{key}: {table} belongs to the built-in policy {policy}, whose retention is a setting; allowed \
                     is any other table"
                );
                faults.push(at, problem);
            }
        }
        if let (Some(table), Some(archive)) = (&draft.table, &draft.archive) {
            if table == archive {
                faults.push(
                    draft.archive_at,
                    format!("{subject}archive_into: the table itself; allowed is another table"),
                );
            } else if reaches(drafts, archive, table) {
                let problem = format!(
                    "{subject}archive_into: rows would come back from {archive} by another policy's archive_into; allowed is \
                     no circle"
                );
                faults.push(draft.archive_at, problem);
            }
        }
    }
}

/// Whether rows of `from` come to `to` by one archive after the other.
fn reaches(drafts: &[Draft], from: &TableName, to: &TableName) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(table) = open.pop() {
        if table == to {
            return true;
        }
        if seen.insert(table.to_string()) {
            let next = drafts.iter().filter(|draft| draft.table.as_ref() == Some(table));
            open.extend(next.filter_map(|draft| draft.archive.as_ref()));
        }
    }
    false
}
