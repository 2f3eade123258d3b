//! What the identity service says to the database, one statement a function. Decides nothing.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Result};
use uuid::Uuid;

use super::ledger::id;

/// Rows and what dates them.
pub(super) type Dated = Vec<(Uuid, DateTime<Utc>)>;

/// A request that was made `age` ago, with its synthetic owner; returns when that was.
pub(super) async fn insert_request(
    conn: &mut PgConnection,
    n: u64,
    user: Uuid,
    age: Duration,
) -> Result<DateTime<Utc>> {
    sqlx::query_scalar(
        "INSERT INTO identity.sign_in_confirmation_requests \
           (id, user_id, phone_number, code_hash, status, ip_address, user_agent, created_at, expires_at) \
         SELECT $1, $2, '+99900' || lpad(($3 % 1000000)::text, 6, '0'), '\\x00', 'Pending', \
           ('192.0.2.' || $3 % 256)::inet, 'synthetic-agent/' || $3 % 7, at, at + interval '5 minutes' \
         FROM (SELECT now() - make_interval(secs => $4)) AS time (at) RETURNING created_at",
    )
    .bind(id(n))
    .bind(user)
    .bind(n.cast_signed())
    .bind(age.as_secs_f64())
    .fetch_one(conn)
    .await
}

/// One more attempt on these requests; returns those that are there.
pub(super) async fn count_attempts(conn: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "UPDATE identity.sign_in_confirmation_requests SET attempts = attempts + 1 WHERE id = ANY ($1) RETURNING id",
    )
    .bind(ids)
    .fetch_all(conn)
    .await
}

/// Ends a pending request; returns whether it was there.
pub(super) async fn end_request(conn: &mut PgConnection, n: u64, status: &str) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE identity.sign_in_confirmation_requests SET status = $2 WHERE id = $1 AND status = 'Pending'",
    )
    .bind(id(n))
    .bind(status)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A session in use since `age` ago, for `lives` more; returns since when.
pub(super) async fn insert_session(
    conn: &mut PgConnection,
    n: u64,
    parent: Option<u64>,
    user: Uuid,
    age: Duration,
    lives: Duration,
) -> Result<DateTime<Utc>> {
    sqlx::query_scalar(
        "INSERT INTO identity.refresh_sessions (id, user_id, token_hash, parent_session_id, status, ip_address, \
           user_agent, created_at, updated_at, expires_at) \
         SELECT $1, $2, $3, $4, 'Active', '192.0.2.1', 'synthetic-agent/1', at, at, now() + make_interval(secs => $6) \
         FROM (SELECT now() - make_interval(secs => $5)) AS time (at) RETURNING updated_at",
    )
    .bind(id(n))
    .bind(user)
    .bind(n.to_be_bytes().as_slice())
    .bind(parent.map(id))
    .bind(age.as_secs_f64())
    .bind(lives.as_secs_f64())
    .fetch_one(conn)
    .await
}

/// Locks a session as its service does before it changes it; returns its status, if it is there.
pub(super) async fn lock_session(conn: &mut PgConnection, n: u64) -> Result<Option<String>> {
    sqlx::query_scalar("SELECT status FROM identity.refresh_sessions WHERE id = $1 FOR UPDATE")
        .bind(id(n))
        .fetch_optional(conn)
        .await
}

/// Ends sessions in use, `age` ago; returns those that were.
pub(super) async fn end_sessions(
    conn: &mut PgConnection,
    ids: &[Uuid],
    status: &str,
    age: Duration,
) -> Result<Dated> {
    sqlx::query_as(
        "UPDATE identity.refresh_sessions SET status = $2, updated_at = now() - make_interval(secs => $3) \
         WHERE id = ANY ($1) AND status = 'Active' RETURNING id, updated_at",
    )
    .bind(ids)
    .bind(status)
    .bind(age.as_secs_f64())
    .fetch_all(conn)
    .await
}

/// The status of the session of a token.
pub(super) async fn find_token(conn: &mut PgConnection, n: u64) -> Result<Option<String>> {
    sqlx::query_scalar("SELECT status FROM identity.refresh_sessions WHERE token_hash = $1")
        .bind(n.to_be_bytes().as_slice())
        .fetch_optional(conn)
        .await
}

/// Locks sessions; returns those that are there.
pub(super) async fn hold_sessions(conn: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Uuid>> {
    sqlx::query_scalar("SELECT id FROM identity.refresh_sessions WHERE id = ANY ($1) ORDER BY id FOR UPDATE")
        .bind(ids)
        .fetch_all(conn)
        .await
}

/// Locks requests; returns those that are there.
pub(super) async fn hold_requests(conn: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "SELECT id FROM identity.sign_in_confirmation_requests WHERE id = ANY ($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids)
    .fetch_all(conn)
    .await
}

/// Keeps the transaction open for so long.
pub(super) async fn linger(conn: &mut PgConnection, duration: Duration) -> Result<()> {
    sqlx::query("SELECT pg_sleep($1)").bind(duration.as_secs_f64()).execute(conn).await?;
    Ok(())
}

/// Dates sessions `age` ago; returns those that are there.
pub(super) async fn date_sessions(conn: &mut PgConnection, ids: &[Uuid], age: Duration) -> Result<Dated> {
    sqlx::query_as(
        "UPDATE identity.refresh_sessions SET updated_at = now() - make_interval(secs => $2) \
         WHERE id = ANY ($1) RETURNING id, updated_at",
    )
    .bind(ids)
    .bind(age.as_secs_f64())
    .fetch_all(conn)
    .await
}

/// Dates requests `age` ago; returns those that are there.
pub(super) async fn date_requests(conn: &mut PgConnection, ids: &[Uuid], age: Duration) -> Result<Dated> {
    sqlx::query_as(
        "UPDATE identity.sign_in_confirmation_requests SET created_at = now() - make_interval(secs => $2) \
         WHERE id = ANY ($1) RETURNING id, created_at",
    )
    .bind(ids)
    .bind(age.as_secs_f64())
    .fetch_all(conn)
    .await
}

/// The other worker's batch: sessions in use past their end become expired, as of when they were last used.
pub(super) async fn expire(conn: &mut PgConnection) -> Result<Dated> {
    sqlx::query_as(
        "UPDATE identity.refresh_sessions SET status = 'Expired', updated_at = created_at WHERE id IN ( \
           SELECT id FROM identity.refresh_sessions WHERE status = 'Active' AND expires_at < now() \
           ORDER BY expires_at LIMIT 50 FOR UPDATE SKIP LOCKED) RETURNING id, updated_at",
    )
    .fetch_all(conn)
    .await
}
