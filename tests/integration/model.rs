//! The same random histories on the store in memory and on PostgreSQL: after each run the survivors and the figures of
//! the report are equal. Prints the seed of a history that differs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use harness::{Job, Rows, TestDatabase};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use retention_domain::testing::{MemoryRow, MemoryStore};
use retention_domain::{RetentionPolicy, RowAddress, RunReport};
use rstest::rstest;

use crate::stores::{hold, insert, now, target};

const STATUSES: [&str; 8] =
    ["Rotated", "Rotated", "Rotated", "Rotated", "Revoked", "Expired", "Active", "Odd"];

/// A row of about the retention's age, or just on the line, or without a date; never of the same age as another.
fn random_row(random: &mut impl Rng, n: u64, parent: Option<u64>) -> MemoryRow {
    let age = match random.random_range(0..20) {
        0 => None,
        1 => Some(target().cutoff.instant() + TimeDelta::microseconds(random.random_range(-1..=1))),
        2..5 => Some(
            now() - TimeDelta::days(random.random_range(0..90)) - TimeDelta::microseconds(n.cast_signed()),
        ),
        _ => Some(
            now() - TimeDelta::days(random.random_range(91..400)) - TimeDelta::microseconds(n.cast_signed()),
        ),
    };
    let status = STATUSES[random.random_range(0..STATUSES.len())];
    MemoryRow { age, status: Some(status.to_owned()), parent: parent.map(RowAddress) }
}

/// One database's history and its model.
struct History {
    random: ChaCha8Rng,
    database: TestDatabase,
    stored: Rows,
    model: BTreeMap<RowAddress, MemoryRow>,
    next: u64,
    /// Rows deleted, held and blocked over all runs: a history in which nothing happens shows nothing.
    seen: [u64; 3],
}

impl History {
    async fn new(seed: u64) -> Result<Self> {
        let database = TestDatabase::migrated().await?;
        let stored = Rows::of(&database).await?;
        let random = ChaCha8Rng::seed_from_u64(seed);
        Ok(Self { random, database, stored, model: BTreeMap::new(), next: 1, seen: [0; 3] })
    }

    fn any(&mut self) -> Option<u64> {
        let at = self.random.random_range(0..self.model.len().max(1));
        self.model.keys().nth(at).map(|row| row.0)
    }

    /// New rows, mostly under rows that are there.
    async fn grow(&mut self) -> Result<()> {
        let mut rows = BTreeMap::new();
        for _ in 0..self.random.random_range(0..60) {
            let parent = if self.random.random_bool(0.8) { self.any() } else { None };
            let row = random_row(&mut self.random, self.next, parent);
            self.model.insert(RowAddress(self.next), row.clone());
            rows.insert(self.next, row);
            self.next += 1;
        }
        insert(&self.stored, &rows).await
    }

    /// Rows get another status, date and parent: a parent may lie below, which makes a cycle.
    async fn change(&mut self) -> Result<()> {
        for _ in 0..self.random.random_range(0..6) {
            let (Some(n), parent) = (self.any(), self.any()) else { continue };
            let parent = parent
                .filter(|_| self.random.random_bool(0.3))
                .or(self.model[&RowAddress(n)].parent.map(|row| row.0));
            let row = random_row(&mut self.random, n, parent);
            let uuid = |n: u64| format!("lpad(to_hex({n}), 32, '0')::uuid");
            let parent = parent.map_or_else(|| "NULL".to_owned(), uuid);
            let age = row.age.map_or_else(|| "NULL".to_owned(), |age| format!("'{}'", age.to_rfc3339()));
            let status = row.status.as_deref().unwrap_or_default();
            self.stored
                .execute(format!(
                    "UPDATE identity.refresh_sessions SET status = '{status}', updated_at = {age}, \
                     parent_session_id = {parent} WHERE id = {}",
                    uuid(n)
                ))
                .await?;
            self.model.insert(RowAddress(n), row);
        }
        Ok(())
    }

    /// One run on each, with the same rows held by somebody else.
    async fn run(&mut self) -> Result<()> {
        let mut job = Job::new(self.random.random_range(1..12))?;
        job.policies = vec![RetentionPolicy::refresh(target().policy.retention)];
        job.now = Some(now());
        job.limits.window_rows =
            if self.random.random_bool(0.5) { self.random.random_range(1..40) } else { 1000 };
        job.limits.concurrency = if self.random.random_bool(0.3) { 3 } else { 1 };
        job.limits.lock_timeout = Duration::from_millis(5);
        let memory = MemoryStore::new(now(), self.model.clone());
        let mut holders = Vec::new();
        if self.random.random_bool(0.5) {
            for _ in 0..self.random.random_range(1..4) {
                let Some(n) = self.any() else { continue };
                // One of them may be held already; asking twice would wait for ourselves.
                if !holders.iter().any(|(held, _)| *held == n) {
                    holders.push((n, hold(&self.stored, n).await?));
                    memory.hold(RowAddress(n), true);
                }
            }
        }
        let expected = job.run_on(&memory).await?;
        let report = job.run(self.database.url()).await?;
        drop(holders);
        self.model = memory.rows();
        let left: Vec<u64> = self.stored.all_sessions().await?.into_keys().collect();
        assert!(
            left.iter().copied().eq(self.model.keys().map(|row| row.0)),
            "left: {left:?}, model: {:?}",
            self.model.keys()
        );
        assert_eq!(figures(&report, job.limits.concurrency), figures(&expected, job.limits.concurrency));
        let refresh = &report.policies[0];
        let blocked = refresh.backlog.map_or(0, |backlog| backlog.blocked);
        for (seen, more) in self.seen.iter_mut().zip([refresh.deleted, refresh.skipped, blocked]) {
            *seen += more;
        }
        Ok(())
    }
}

/// What must be equal. How often a held row is met depends on how lanes interleave.
fn figures(report: &RunReport, concurrency: usize) -> impl PartialEq + std::fmt::Debug {
    let refresh = report.policies[0].clone();
    let skipped = if concurrency == 1 { refresh.skipped } else { u64::from(refresh.skipped > 0) };
    (refresh.deleted, skipped, refresh.failed_rows, refresh.stop_reason, refresh.error, refresh.backlog)
}

#[rstest]
#[tokio::test]
async fn random_histories_end_alike_in_memory_and_on_postgresql(
    #[values(0, 1, 2, 3)] group: u64,
) -> Result<()> {
    let mut seen = [0; 3];
    for seed in group * 1000..group * 1000 + 6 {
        eprintln!("seed {seed}");
        let mut history = History::new(seed).await.with_context(|| format!("seed {seed}"))?;
        for _ in 0..5 {
            history.grow().await?;
            history.run().await.with_context(|| format!("seed {seed}"))?;
            history.change().await?;
            history.run().await.with_context(|| format!("seed {seed}"))?;
        }
        seen = std::array::from_fn(|figure| seen[figure] + history.seen[figure]);
    }
    assert!(seen.iter().all(|seen| *seen > 0), "{seen:?}");
    Ok(())
}
