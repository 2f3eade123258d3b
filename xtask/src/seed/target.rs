//! The database that is filled: what it must look like before, what is made sure of after.

use anyhow::{Context, ensure};
use sqlx::{PgConnection, query_scalar, raw_sql};

use super::shape::Micros;

/// Reviewed and documented where operators find it; it is the only DDL here.
const RETENTION_INDEX: &str = include_str!("../../../deploy/postgres/retention-index.sql");

/// Fails unless all three tables are there.
pub async fn require_schema(conn: &mut PgConnection) -> anyhow::Result<()> {
    for table in ["identity.users", "identity.sign_in_confirmation_requests", "identity.refresh_sessions"] {
        let exists: bool = query_scalar("SELECT to_regclass($1) IS NOT NULL")
            .bind(table)
            .fetch_one(&mut *conn)
            .await
            .with_context(|| format!("looking for table {table}"))?;
        ensure!(
            exists,
            "table {table} does not exist: run `cargo run -p migrations -- up` on this database first"
        );
    }
    Ok(())
}

/// Fails if one of the tables has a row.
pub async fn require_empty(conn: &mut PgConnection) -> anyhow::Result<()> {
    let filled: Option<String> = query_scalar(
        "SELECT CASE WHEN EXISTS (SELECT FROM identity.refresh_sessions) THEN 'identity.refresh_sessions'
                     WHEN EXISTS (SELECT FROM identity.sign_in_confirmation_requests)
                       THEN 'identity.sign_in_confirmation_requests'
                     WHEN EXISTS (SELECT FROM identity.users) THEN 'identity.users' END",
    )
    .fetch_one(conn)
    .await
    .context("looking whether the tables are empty")?;
    if let Some(table) = filled {
        anyhow::bail!("table {table} is not empty: give --append to add to it");
    }
    Ok(())
}

/// The database's clock; the same for the whole transaction.
pub async fn now(conn: &mut PgConnection) -> anyhow::Result<Micros> {
    query_scalar(
        "SELECT (extract(epoch FROM now() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint",
    )
    .fetch_one(conn)
    .await
    .context("reading the database's clock")
}

/// Turns foreign key checks off for this transaction, if the role may; says whether it did.
pub async fn skip_foreign_key_checks(conn: &mut PgConnection) -> anyhow::Result<bool> {
    let permitted: bool = query_scalar("SELECT has_parameter_privilege('session_replication_role', 'SET')")
        .fetch_one(&mut *conn)
        .await
        .context("asking for the right to set session_replication_role")?;
    if permitted {
        raw_sql("SET LOCAL session_replication_role = replica")
            .execute(conn)
            .await
            .context("turning foreign key checks off")?;
    }
    Ok(permitted)
}

/// Fails if a row refers to one that is not there, as nobody else has looked.
pub async fn require_no_dangling_reference(conn: &mut PgConnection) -> anyhow::Result<()> {
    let dangling: i64 = query_scalar(
        "SELECT (SELECT count(*) FROM identity.refresh_sessions child
                  WHERE parent_session_id IS NOT NULL AND NOT EXISTS
                        (SELECT FROM identity.refresh_sessions parent WHERE parent.id = child.parent_session_id))
              + (SELECT count(*) FROM identity.refresh_sessions session
                  WHERE NOT EXISTS (SELECT FROM identity.users WHERE users.id = session.user_id))
              + (SELECT count(*) FROM identity.sign_in_confirmation_requests request
                  WHERE user_id IS NOT NULL AND NOT EXISTS
                        (SELECT FROM identity.users WHERE users.id = request.user_id))",
    )
    .fetch_one(conn)
    .await
    .context("looking for dangling references")?;
    ensure!(dangling == 0, "{dangling} rows refer to rows that do not exist; nothing was kept");
    Ok(())
}

/// Applies the optional index for terminal sessions. Must not be called inside a transaction.
pub async fn create_retention_index(conn: &mut PgConnection) -> anyhow::Result<()> {
    raw_sql(RETENTION_INDEX).execute(conn).await.context("creating the retention index; the rows are in")?;
    Ok(())
}

/// Leaves the tables as they would be in use: vacuumed, with statistics. Must not be called inside a transaction.
pub async fn analyze(conn: &mut PgConnection) -> anyhow::Result<()> {
    raw_sql(
        "VACUUM (ANALYZE) identity.users, identity.sign_in_confirmation_requests, identity.refresh_sessions",
    )
    .execute(conn)
    .await
    .context("vacuuming and analyzing the tables; the rows are in")?;
    Ok(())
}
