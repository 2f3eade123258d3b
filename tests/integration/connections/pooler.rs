//! Behind PgBouncer in transaction mode, as Debian packages it: without support for named prepared statements.

use harness::{PgBouncer, Worker};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Executor, Row};
use tempfile::TempDir;

use super::*;

/// Fewer connections to the server than the workers have to the pooler: each is used by all of them in turn.
const POOL: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_the_connections_of_a_pooler() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let folder = TempDir::new()?;
    let Some(pooler) = PgBouncer::before(database.url(), folder.path(), POOL).await? else { return Ok(()) };
    let worker = Worker::on(&pooler.url(database.name()))
        .set("SESSION_RETENTION_BATCH_SIZE", "100")
        .set("SESSION_RETENTION_CONCURRENCY", "2");
    // The second round meets whatever the first left on the server's sessions.
    for _ in 0..2 {
        due_requests(&rows, 3000).await?;
        rows.sessions(harness::shape::chains(1, 300, 10)).await?;
        let (first, second) = tokio::try_join!(worker.run(), worker.run())?;
        let mut sum = 0;
        for (finished, report) in [first, second] {
            assert_eq!((finished.code(), &report["outcome"]), (Some(0), &json!("completed")), "{report}");
            assert!(!finished.stderr.contains("SQLSTATE"), "{}", finished.stderr);
            sum += report["sicr_deleted"].as_u64().unwrap() + report["refresh_deleted"].as_u64().unwrap();
        }
        assert_eq!((sum, left(&rows).await?), (6000, 0));
        nobody_in_a_transaction(&rows).await?;
    }
    let plan = worker.finish(&["plan"]).await?;
    assert_eq!(plan.code(), Some(0), "{}", plan.stderr);
    // A session that has none is any of theirs: they were used in turn.
    let through: PgConnectOptions = pooler.url(database.name()).parse()?;
    let mut session = PgConnection::connect_with(&through.extra_float_digits(None)).await?;
    let named = session.fetch_one(sqlx::raw_sql("SELECT count(*) FROM pg_prepared_statements")).await?;
    assert_eq!(named.try_get::<i64, _>(0)?, 0);
    Ok(())
}

#[tokio::test]
async fn a_batch_is_cancelled_through_a_pooler_too() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 10).await?;
    let folder = TempDir::new()?;
    let Some(pooler) = PgBouncer::before(database.url(), folder.path(), POOL).await? else { return Ok(()) };
    let stall = Stall::begin(&database, &rows).await?;
    let worker = Worker::on(&pooler.url(database.name()))
        .set("SESSION_RETENTION_LOCK_TIMEOUT", "1h")
        .set("SESSION_RETENTION_STATEMENT_TIMEOUT", "1h")
        .set("SESSION_RETENTION_SHUTDOWN_GRACE", "1ms");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    stall.reached(&rows).await?;
    process.signal(Signal::SIGTERM)?;
    let finished = timeout(SOON, process.wait(DEADLINE)).await??;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!(
        (&report["stop_reason"], &report["sicr_deleted"]),
        (&json!("shutdown"), &json!(0)),
        "{report}"
    );
    nobody_in_a_transaction(&rows).await?;
    stall.end().await
}
