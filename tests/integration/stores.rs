//! The two stores with rows that are known by number, for tests that hold for both.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use chrono::{DateTime, Utc};
use harness::{Job, Rows, TestDatabase};
use retention_domain::plan::Target;
use retention_domain::ports::RetentionStore;
use retention_domain::testing::{MemoryRow, MemoryStore};
use retention_domain::{
    BatchDone, BatchRequest, Cutoff, Failure, RetentionPeriod, RetentionPolicy, RowAddress,
};
use retention_postgres::PgRetentionStore;
use sqlx::{AssertSqlSafe, Postgres, Row, Transaction};

/// The run that the batches belong to.
pub(crate) const RUN: &str = "00000000-0000-7000-8000-000000000000";
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A store with rows that are known by number. `RowAddress(n)` in a [`MemoryRow`] means row `n`.
pub(crate) trait Lab: Sized {
    type Store: RetentionStore;
    async fn with(rows: BTreeMap<u64, MemoryRow>) -> Result<Self>;
    fn store(&self) -> &Self::Store;
    /// Where row `n` was at the beginning.
    fn address(&self, n: u64) -> RowAddress;
    /// From now on somebody else holds row `n`.
    async fn hold(&mut self, n: u64) -> Result<()>;
    async fn left(&self) -> Result<Vec<u64>>;

    /// One batch, the store being told that somebody else was met.
    async fn delete(&self, numbers: impl IntoIterator<Item = u64>) -> Result<BatchDone> {
        Ok(self.batch(numbers, true).await?)
    }

    async fn batch(
        &self,
        numbers: impl IntoIterator<Item = u64>,
        contended: bool,
    ) -> Result<BatchDone, Failure> {
        self.batch_of(&target(), numbers, contended).await
    }

    async fn batch_of(
        &self,
        target: &Target,
        numbers: impl IntoIterator<Item = u64>,
        contended: bool,
    ) -> Result<BatchDone, Failure> {
        let rows = numbers.into_iter().map(|n| self.address(n)).collect();
        let request = BatchRequest { job_run_id: RUN.to_owned(), rows, limit: LIMIT, contended };
        self.store().delete_batch(target, &request).await
    }
}

pub(crate) struct Memory {
    store: MemoryStore,
}

pub(crate) struct Server {
    store: PgRetentionStore,
    rows: Rows,
    addresses: BTreeMap<u64, RowAddress>,
    holders: Vec<Transaction<'static, Postgres>>,
    _database: TestDatabase,
}

impl Lab for Memory {
    type Store = MemoryStore;

    async fn with(rows: BTreeMap<u64, MemoryRow>) -> Result<Self> {
        let rows = rows.into_iter().map(|(n, row)| (RowAddress(n), row)).collect();
        Ok(Self { store: MemoryStore::new(now(), rows) })
    }

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn address(&self, n: u64) -> RowAddress {
        RowAddress(n)
    }

    async fn hold(&mut self, n: u64) -> Result<()> {
        self.store.hold(RowAddress(n), true);
        Ok(())
    }

    async fn left(&self) -> Result<Vec<u64>> {
        Ok(self.store.rows().into_keys().map(|row| row.0).collect())
    }
}

impl Lab for Server {
    type Store = PgRetentionStore;

    async fn with(rows: BTreeMap<u64, MemoryRow>) -> Result<Self> {
        let database = TestDatabase::migrated().await?;
        let stored = Rows::of(&database).await?;
        insert(&stored, &rows).await?;
        let addresses = sqlx::query(
            "SELECT ('x' || right(id::text, 8))::bit(32)::bigint, (ctid::text::point)[0]::bigint << 16 | (ctid::text::point)[1]::bigint \
             FROM identity.refresh_sessions",
        )
        .fetch_all(stored.pool())
        .await?
        .iter()
        .map(|row| Ok((row.try_get::<i64, _>(0)?.cast_unsigned(), RowAddress(row.try_get::<i64, _>(1)?.cast_unsigned()))))
        .collect::<Result<_>>()?;
        let store = Job::new(1)?.store(database.url())?;
        Ok(Self { store, rows: stored, addresses, holders: Vec::new(), _database: database })
    }

    fn store(&self) -> &PgRetentionStore {
        &self.store
    }

    fn address(&self, n: u64) -> RowAddress {
        self.addresses[&n]
    }

    async fn hold(&mut self, n: u64) -> Result<()> {
        self.holders.push(hold(&self.rows, n).await?);
        Ok(())
    }

    async fn left(&self) -> Result<Vec<u64>> {
        Ok(self.rows.all_sessions().await?.into_keys().collect())
    }
}

/// A transaction of somebody else that has locked row `n`.
pub(crate) async fn hold(rows: &Rows, n: u64) -> Result<Transaction<'static, Postgres>> {
    let mut holder = rows.pool().begin().await?;
    let lock = format!(
        "SELECT FROM identity.refresh_sessions WHERE id = lpad(to_hex({n}), 32, '0')::uuid FOR UPDATE"
    );
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *holder).await?;
    Ok(holder)
}

/// Inserts rows as refresh sessions, in the order of their numbers; dates may be missing.
pub(crate) async fn insert(stored: &Rows, rows: &BTreeMap<u64, MemoryRow>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let values: Vec<String> = rows
        .iter()
        .map(|(n, row)| {
            let parent = row.parent.map_or_else(|| "NULL".to_owned(), |parent| parent.0.to_string());
            let status = row.status.as_ref();
            let status = status.map_or_else(|| "NULL".to_owned(), |s| format!("'{}'", s.replace('\'', "''")));
            let age = row.age.map_or_else(
                || "NULL".to_owned(),
                |age| format!("now() - '{}'::timestamptz", age.to_rfc3339()),
            );
            format!("({n}, {parent}::bigint, {status}::text, ({age})::interval)")
        })
        .collect();
    stored
        .execute("ALTER TABLE identity.refresh_sessions ALTER updated_at DROP NOT NULL, ALTER status DROP NOT NULL")
        .await?;
    stored.sessions(format!("VALUES {}", values.join(", "))).await
}

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 654_321_000).unwrap()
}

pub(crate) fn target() -> Target {
    let policy = RetentionPolicy::refresh(RetentionPeriod::from_days(90).unwrap());
    Target { cutoff: Cutoff::before(now(), policy.retention).unwrap(), policy }
}
