//! Which rows must go and which are blocked, worked out from rows read back from the database: the specification's
//! sentences in plain Rust, independent of the engine's predicate and of its way through the rows.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use crate::rows::StoredRow;

/// The fate of rows. What is in neither set is not due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Due, and so are all their descendants: one run removes them.
    pub goes: BTreeSet<u64>,
    /// Due, but a descendant stays or they lie on a cycle.
    pub blocked: BTreeSet<u64>,
}

/// For confirmation requests older than 30 days at `now`.
#[must_use]
pub fn requests(rows: &BTreeMap<u64, StoredRow>, now: DateTime<Utc>) -> Expected {
    let goes = rows.iter().filter(|(_, row)| is_older(row, now, 30)).map(|(n, _)| *n).collect();
    Expected { goes, blocked: BTreeSet::new() }
}

/// For refresh sessions that have been terminal for more than 90 days at `now`.
///
/// Walks upwards from every row that stays and marks what it meets; then walks upwards from every row to see whether
/// it comes back to itself. Both walks stop where an earlier one has been, so this is linear in the rows.
#[must_use]
pub fn sessions(rows: &BTreeMap<u64, StoredRow>, now: DateTime<Utc>) -> Expected {
    let is_due = |row: &StoredRow| {
        matches!(row.status.as_deref(), Some("Rotated" | "Revoked" | "Expired")) && is_older(row, now, 90)
    };
    let parent = |n: u64| rows.get(&n).and_then(|row| row.parent).filter(|parent| rows.contains_key(parent));
    let mut kept = BTreeSet::new();
    for (n, _) in rows.iter().filter(|(_, row)| !is_due(row)) {
        let mut above = parent(*n);
        while let Some(ancestor) = above.filter(|ancestor| kept.insert(*ancestor)) {
            above = parent(ancestor);
        }
    }
    let mut seen = BTreeSet::new();
    for start in rows.keys() {
        let mut way = Vec::new();
        let mut here = Some(*start);
        while let Some(n) = here.filter(|n| seen.insert(*n)) {
            way.push(n);
            here = parent(n);
        }
        if let Some(entry) = here.and_then(|n| way.iter().position(|on_way| *on_way == n)) {
            kept.extend(&way[entry..]);
        }
    }
    let due = rows.iter().filter(|(_, row)| is_due(row)).map(|(n, _)| *n);
    let (blocked, goes) = due.partition(|n| kept.contains(n));
    Expected { goes, blocked }
}

fn is_older(row: &StoredRow, now: DateTime<Utc>, days: i64) -> bool {
    row.age.is_some_and(|age| now - age > TimeDelta::days(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_of_what_stays_and_cycles_are_blocked() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let row = |parent, status: &str, days| StoredRow {
            parent,
            status: Some(status.to_owned()),
            age: Some(now - TimeDelta::days(days)),
        };
        let rows = BTreeMap::from([
            (1, row(None, "Rotated", 100)),
            (2, row(Some(1), "Rotated", 99)),
            (3, row(Some(2), "Active", 98)),
            (4, row(Some(2), "Revoked", 97)),
            (5, row(Some(6), "Rotated", 100)),
            (6, row(Some(5), "Rotated", 100)),
            (7, row(Some(6), "Rotated", 100)),
            (8, row(Some(8), "Expired", 100)),
            (9, row(None, "Rotated", 90)),
            (10, row(Some(99), "Rotated", 91)),
        ]);
        let expected = sessions(&rows, now);
        assert_eq!(expected.goes, BTreeSet::from([4, 7, 10]));
        assert_eq!(expected.blocked, BTreeSet::from([1, 2, 5, 6, 8]));
    }
}
