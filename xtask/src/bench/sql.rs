//! What the worker is compared with, in SQL of the bench's own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};

/// One of the two tables, with the condition of its policy at the default periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Qualified name.
    pub name: &'static str,
    /// Which rows are due.
    pub due: &'static str,
}

/// Confirmation requests.
pub const REQUESTS: Table =
    Table { name: "identity.sign_in_confirmation_requests", due: "created_at < now() - interval '30 days'" };

/// Refresh sessions.
pub const SESSIONS: Table = Table {
    name: "identity.refresh_sessions",
    due: "status IN ('Rotated', 'Revoked', 'Expired') AND updated_at < now() - interval '90 days'",
};

/// The literal reading of the specification: pick leaves by age, delete, commit, until nothing is deleted.
const LITERAL_LOOP: &str = include_str!("literal_loop.sql");

/// Deletes all due rows of a table in one statement, and says how long that took.
///
/// # Errors
///
/// When it fails or another number of rows goes: then it is no comparison.
pub async fn unbounded_delete(url: &str, table: Table, expected: u64) -> Result<Duration> {
    let mut connection = connect(url).await?;
    let Table { name, due } = table;
    let began = Instant::now();
    let done = raw_sql(AssertSqlSafe(format!("DELETE FROM {name} WHERE {due}")))
        .execute(&mut connection)
        .await
        .with_context(|| format!("deleting from {name} at once"))?;
    let took = began.elapsed();
    connection.close().await?;
    let rows = done.rows_affected();
    ensure!(rows == expected, "one DELETE removed {rows} rows of {name}, not {expected}");
    Ok(took)
}

/// Counts the due rows of a table, and says how long that took.
///
/// # Errors
///
/// When it fails.
pub async fn count(url: &str, table: Table) -> Result<Duration> {
    let mut connection = connect(url).await?;
    let Table { name, due } = table;
    let began = Instant::now();
    raw_sql(AssertSqlSafe(format!("SELECT count(*) FROM {name} WHERE {due}")))
        .execute(&mut connection)
        .await
        .with_context(|| format!("counting in {name}"))?;
    let took = began.elapsed();
    connection.close().await?;
    Ok(took)
}

/// Deletes all due sessions with the literal loop as a procedure in the server, and says how long that took.
///
/// # Errors
///
/// When it fails or leaves a due row.
pub async fn literal_loop(url: &str, batch_rows: u32) -> Result<Duration> {
    let mut connection = connect(url).await?;
    raw_sql(LITERAL_LOOP).execute(&mut connection).await.context("making the literal loop")?;
    let began = Instant::now();
    // Not within a transaction of ours: it commits.
    raw_sql(AssertSqlSafe(format!("CALL bench_literal_loop({batch_rows})")))
        .execute(&mut connection)
        .await
        .context("running the literal loop")?;
    let took = began.elapsed();
    let Table { name, due } = SESSIONS;
    let left: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {name} WHERE {due}")))
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    ensure!(left == 0, "the literal loop left {left} rows");
    Ok(took)
}

/// A connection of its own, so that nothing of an earlier measurement is in it.
async fn connect(url: &str) -> Result<PgConnection> {
    PgConnection::connect(url).await.context("connecting for a comparison")
}
