//! The ledger against the tables: what is gone must have had to go, what is there must be as it was written.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use chrono::{DateTime, Utc};
use sqlx::Row;
use uuid::Uuid;

use super::ledger::{Tables, id, number};
use super::world::World;
use crate::reference::{self, Expected};
use crate::rows::{Rows, StoredRow};

/// Compares everything, and takes what has rightly gone out of the ledger; returns how many rows that were.
///
/// Workers may be at work, as long as the service is not: the caller keeps the gate closed. `drained_at` is the time
/// of a run that has found nothing to do any more; then nothing may be left that was due at that time.
pub(super) async fn compare(world: &World, rows: &Rows, drained_at: Option<DateTime<Utc>>) -> Result<u64> {
    let sessions = rows.all_sessions().await?;
    let requests = rows.all_requests().await?;
    let attempts = attempts(rows).await?;
    // After the rows: whatever was missing then went by an earlier cutoff.
    let now = match drained_at {
        Some(now) => now,
        None => sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(rows.pool()).await?,
    };
    let mut tables = world.ledger.tables();
    let mut found = Findings::default();
    let is_drained = drained_at.is_some();
    let due = reference::sessions(&tables.sessions, now);
    let gone_sessions =
        found.compare("identity.refresh_sessions", &tables.sessions, &sessions, &due, is_drained);
    let due = reference::requests(&tables.requests, now);
    let gone_requests = found.compare(
        "identity.sign_in_confirmation_requests",
        &tables.requests,
        &requests,
        &due,
        is_drained,
    );
    for (n, there) in attempts.iter().filter(|(n, there)| tables.attempts.get(n) != Some(there)) {
        let written = tables.attempts.get(n);
        found.0.push(format!("request {}: {there} attempts, and {written:?} were made", id(*n)));
    }
    take_out(&mut tables, &gone_sessions, &gone_requests);

    let mut figures = world.figures();
    figures.comparisons += 1;
    figures.written = tables.written;
    figures.survivors = u64::try_from(sessions.len() + requests.len())?;
    if is_drained {
        let sum = |of: &BTreeMap<u64, i32>| of.values().copied().map(i64::from).sum::<i64>();
        figures.attempts = (sum(&attempts), sum(&tables.attempts));
    }
    for violation in found.0 {
        figures.violation(violation);
    }
    Ok(u64::try_from(gone_sessions.len() + gone_requests.len())?)
}

async fn attempts(rows: &Rows) -> Result<BTreeMap<u64, i32>> {
    let read = sqlx::query("SELECT id, attempts FROM identity.sign_in_confirmation_requests")
        .fetch_all(rows.pool())
        .await?;
    let row = |row: &sqlx::postgres::PgRow| {
        Ok((number(row.try_get::<Uuid, _>("id")?), row.try_get::<i32, _>("attempts")?))
    };
    read.iter().map(row).collect()
}

fn take_out(tables: &mut Tables, sessions: &BTreeSet<u64>, requests: &BTreeSet<u64>) {
    tables.sessions.retain(|n, _| !sessions.contains(n));
    tables.requests.retain(|n, _| !requests.contains(n));
    tables.attempts.retain(|n, _| !requests.contains(n));
}

/// Broken promises, each with its row's key.
#[derive(Debug, Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Returns the rows that are gone and had to go.
    fn compare(
        &mut self,
        table: &str,
        written: &BTreeMap<u64, StoredRow>,
        there: &BTreeMap<u64, StoredRow>,
        due: &Expected,
        is_drained: bool,
    ) -> BTreeSet<u64> {
        let mut gone = BTreeSet::new();
        for (n, row) in written {
            let goes = due.goes.contains(n);
            match there.get(n) {
                None if goes => {
                    gone.insert(*n);
                }
                None => self.0.push(format!("{table} {}: missing, written as {row:?}", id(*n))),
                Some(_) if goes && is_drained => {
                    self.0.push(format!("{table} {}: left over, written as {row:?}", id(*n)));
                }
                Some(stored) if stored != row => {
                    self.0.push(format!("{table} {}: is {stored:?}, written as {row:?}", id(*n)));
                }
                Some(_) => {}
            }
        }
        for n in there.keys().filter(|n| !written.contains_key(n)) {
            self.0.push(format!("{table} {}: written by nobody, or back after it was gone", id(*n)));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(status: &str) -> StoredRow {
        StoredRow { parent: None, status: Some(status.to_owned()), age: None }
    }

    fn compare(there: &[(u64, &str)], is_drained: bool) -> (Vec<String>, BTreeSet<u64>) {
        let written = BTreeMap::from([(1, row("Rotated")), (2, row("Active")), (3, row("Revoked"))]);
        let there = there.iter().map(|(n, status)| (*n, row(status))).collect();
        let due = Expected { goes: BTreeSet::from([1, 3]), blocked: BTreeSet::new() };
        let mut found = Findings::default();
        let gone = found.compare("t", &written, &there, &due, is_drained);
        (found.0, gone)
    }

    #[test]
    fn what_had_to_go_and_is_gone_is_right() {
        assert_eq!(compare(&[(2, "Active")], true), (Vec::new(), BTreeSet::from([1, 3])));
        assert_eq!(compare(&[(1, "Rotated"), (2, "Active")], false), (Vec::new(), BTreeSet::from([3])));
    }

    #[test]
    fn every_way_to_be_wrong_is_told_with_the_key() {
        let (found, _) = compare(&[(3, "Expired"), (4, "Active")], false);
        for (n, what) in [(2, "missing"), (3, "is StoredRow"), (4, "written by nobody")] {
            assert!(
                found.iter().any(|line| line.contains(&format!("{}: {what}", id(n)))),
                "{what}: {found:?}"
            );
        }
        assert_eq!(found.len(), 3);
        let (found, _) = compare(&[(1, "Rotated"), (2, "Active")], true);
        assert!(found.len() == 1 && found[0].contains("left over"), "{found:?}");
    }
}
