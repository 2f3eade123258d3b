//! Rows of the two identity tables, inserted fast and read back, known by number.
//!
//! Row `n` has the id whose 128 bits count `n`. Personal data is plainly synthetic and recognisable, so that a test
//! can look for it where it must not appear. Decides nothing about which rows may go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgPool, Row};
use uuid::Uuid;

use crate::TestDatabase;

/// What must never be seen outside of the tables: parts of every phone number, address and agent inserted here, and
/// of every row's id.
pub const PERSONAL: [&str; 4] = ["+99900", "192.0.2.", "synthetic-agent", "00000000-0000-0000"];

/// The two tables of one database.
#[derive(Clone, Debug)]
pub struct Rows {
    pool: PgPool,
}

/// One row of either table, as far as retention is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// The row it refers to.
    pub parent: Option<u64>,
    /// Its status, if it has one.
    pub status: Option<String>,
    /// What dates it; NULL and the infinities are `None`.
    pub age: Option<DateTime<Utc>>,
}

impl Rows {
    /// The tables of a migrated database, and one user for their rows to belong to.
    ///
    /// # Errors
    ///
    /// When the database refuses.
    pub async fn of(database: &TestDatabase) -> Result<Self> {
        let rows = Self { pool: database.connect().await? };
        rows.execute("INSERT INTO identity.users (id) VALUES ('00000000-0000-0000-ffff-ffffffffffff')")
            .await?;
        Ok(rows)
    }

    /// Connections to the database.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Executes one or more statements.
    ///
    /// # Errors
    ///
    /// When one fails: with how they begin.
    pub async fn execute(&self, statements: impl Into<String>) -> Result<()> {
        let statements = statements.into();
        let beginning: String = statements.chars().take(300).collect();
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&self.pool).await.context(beginning)?;
        Ok(())
    }

    /// The only value of a query that counts.
    ///
    /// # Errors
    ///
    /// When the query fails.
    pub async fn number(&self, query: impl Into<String>) -> Result<u64> {
        let query = query.into();
        let number: i64 =
            sqlx::query_scalar(AssertSqlSafe(query.clone())).fetch_one(&self.pool).await.context(query)?;
        Ok(u64::try_from(number)?)
    }

    /// Waits until a query that yields a boolean yields true: for what the database shows and tells nobody of.
    ///
    /// # Errors
    ///
    /// When it has not come true in a minute, or the query fails.
    pub async fn wait_until(&self, query: &'static str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !sqlx::query_scalar::<_, bool>(query).fetch_one(&self.pool).await? {
            ensure!(Instant::now() < deadline, "has not come true: {query}");
            sqlx::query("SELECT pg_sleep(0.01)").execute(&self.pool).await?;
        }
        Ok(())
    }

    /// Inserts a refresh session of so many days.
    ///
    /// # Errors
    ///
    /// When it cannot be inserted.
    pub async fn session(&self, n: u64, parent: Option<u64>, status: &str, days: u32) -> Result<()> {
        let parent = parent.map_or_else(|| "NULL".to_owned(), |parent| parent.to_string());
        self.sessions(format!("VALUES ({n}, {parent}, '{status}', interval '{days} days')")).await
    }

    /// Inserts a confirmation request of so many days.
    ///
    /// # Errors
    ///
    /// When it cannot be inserted.
    pub async fn request(&self, n: u64, status: &str, days: u32) -> Result<()> {
        self.requests(format!("VALUES ({n}, '{status}', interval '{days} days')")).await
    }

    /// Inserts the refresh sessions that `shape` returns: number, parent's number, status, age.
    ///
    /// Foreign keys are not checked meanwhile: a million of checks take longer than the rows.
    ///
    /// # Errors
    ///
    /// When they cannot be inserted.
    pub async fn sessions(&self, shape: impl AsRef<str>) -> Result<()> {
        self.execute(format!(
            "BEGIN; SET LOCAL session_replication_role = replica; \
             INSERT INTO identity.refresh_sessions (id, user_id, token_hash, parent_session_id, status, ip_address, \
               user_agent, created_at, updated_at, expires_at) \
             SELECT lpad(to_hex(n::bigint), 32, '0')::uuid, '00000000-0000-0000-ffff-ffffffffffff', \
               decode(lpad(to_hex(n::bigint), 16, '0'), 'hex'), lpad(to_hex(parent::bigint), 32, '0')::uuid, status, \
               ('192.0.2.' || n::bigint % 256)::inet, 'synthetic-agent/' || n::bigint % 7, coalesce(now() - age, now()), \
               now() - age, now() + interval '30 days' \
             FROM ({}) AS shape (n, parent, status, age); COMMIT",
            shape.as_ref()
        ))
        .await
    }

    /// Inserts the confirmation requests that `shape` returns: number, status, age.
    ///
    /// # Errors
    ///
    /// When they cannot be inserted.
    pub async fn requests(&self, shape: impl AsRef<str>) -> Result<()> {
        self.execute(format!(
            "INSERT INTO identity.sign_in_confirmation_requests (id, user_id, phone_number, code_hash, status, \
               ip_address, user_agent, created_at, expires_at) \
             SELECT lpad(to_hex(n::bigint), 32, '0')::uuid, '00000000-0000-0000-ffff-ffffffffffff', \
               '+99900' || lpad((n::bigint % 1000000)::text, 6, '0'), '\\x00', status, \
               ('192.0.2.' || n::bigint % 256)::inet, 'synthetic-agent/' || n::bigint % 7, now() - age, \
               now() - age + interval '5 minutes' \
             FROM ({}) AS shape (n, status, age)",
            shape.as_ref()
        ))
        .await
    }

    /// All refresh sessions.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn all_sessions(&self) -> Result<BTreeMap<u64, StoredRow>> {
        self.all(
            "SELECT id, parent_session_id AS parent, status::text AS status, \
                  CASE WHEN isfinite(updated_at) THEN updated_at END AS age FROM identity.refresh_sessions",
        )
        .await
    }

    /// All confirmation requests.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn all_requests(&self) -> Result<BTreeMap<u64, StoredRow>> {
        self.all("SELECT id, NULL::uuid AS parent, status::text AS status, \
                  CASE WHEN isfinite(created_at) THEN created_at END AS age FROM identity.sign_in_confirmation_requests")
            .await
    }

    /// How many refresh sessions there are.
    ///
    /// # Errors
    ///
    /// When they cannot be counted.
    pub async fn count_sessions(&self) -> Result<u64> {
        self.number("SELECT count(*) FROM identity.refresh_sessions").await
    }

    /// How many confirmation requests there are.
    ///
    /// # Errors
    ///
    /// When they cannot be counted.
    pub async fn count_requests(&self) -> Result<u64> {
        self.number("SELECT count(*) FROM identity.sign_in_confirmation_requests").await
    }

    async fn all(&self, query: &'static str) -> Result<BTreeMap<u64, StoredRow>> {
        let rows = sqlx::query(query).fetch_all(&self.pool).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &PgRow) -> Result<(u64, StoredRow)> {
    let number = |id: Uuid| u64::try_from(id.as_u128());
    let parent: Option<Uuid> = row.try_get("parent")?;
    let stored = StoredRow {
        parent: parent.map(number).transpose()?,
        status: row.try_get("status")?,
        age: row.try_get("age")?,
    };
    Ok((number(row.try_get("id")?)?, stored))
}

/// Shapes for [`Rows::sessions`], all of rotated rows past their 90 days.
pub mod shape {
    /// `chains` chains of `length` rows each, numbered from `first`, a chain after the other from its root down; an
    /// ancestor is a second older than its child.
    #[must_use]
    pub fn chains(first: u64, chains: u64, length: u64) -> String {
        format!(
            "SELECT {first} + chain * {length} + depth, CASE WHEN depth > 0 THEN {first} + chain * {length} + depth - 1 END, \
             'Rotated', interval '200 days' - make_interval(secs => depth) \
             FROM generate_series(0, {chains} - 1) AS chain, generate_series(0, {length} - 1) AS depth"
        )
    }

    /// `trees` trees of seven rows with two forks, numbered from `first`, a tree after the other from its root down.
    #[must_use]
    pub fn trees(first: u64, trees: u64) -> String {
        format!(
            "SELECT {first} + tree * 7 + row, {first} + tree * 7 + (ARRAY[NULL, 0, 1, 1, 2, 3, 3])[row + 1], \
             (ARRAY['Rotated', 'Revoked', 'Expired'])[1 + (tree + row) % 3], interval '200 days' - make_interval(secs => row) \
             FROM generate_series(0, {trees} - 1) AS tree, generate_series(0, 6) AS row"
        )
    }

    /// One binary tree of `depth` levels, numbered as a heap from 1: the parent of `n` is `n / 2`.
    #[must_use]
    pub fn binary_tree(depth: u32) -> String {
        format!(
            "SELECT n, nullif(n / 2, 0), 'Rotated', interval '200 days' - make_interval(secs => floor(log(2, n::numeric))::int) \
             FROM generate_series(1, (1 << {depth}) - 1) AS n"
        )
    }

    /// One parent, numbered `first`, with `children` children after it.
    #[must_use]
    pub fn star(first: u64, children: u64) -> String {
        format!(
            "SELECT {first} + n, CASE WHEN n > 0 THEN {first} END, 'Rotated', interval '200 days' - make_interval(secs => n) \
             FROM generate_series(0, {children}) AS n"
        )
    }

    /// `count` rows that nothing refers to and that refer to nothing, numbered from `first`.
    #[must_use]
    pub fn singles(first: u64, count: u64) -> String {
        chains(first, count, 1)
    }
}
