//! A cycle of waits with the worker in it: the client is not the one that pays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Job, Rows, TestDatabase, shape};
use retention_domain::StopReason;
use retention_domain::ports::RunEvent;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::held::{insert_child, lock_session};

/// A client that hangs a living session below row 10, holds it, and asks for row 10 once the worker waits for it.
async fn hang_below_and_ask_for_both(url: String, holds: mpsc::Sender<()>) -> Result<()> {
    let mut client = PgConnection::connect(&url).await?;
    sqlx::raw_sql(AssertSqlSafe(insert_child(10, 1000))).execute(&mut client).await?;
    let rows = PgConnection::connect(&url).await?;
    let mut online = client.begin().await?;
    sqlx::raw_sql(AssertSqlSafe(lock_session(1000))).execute(&mut *online).await?;
    holds.send(())?;
    worker_waits(rows).await?;
    sqlx::raw_sql(AssertSqlSafe(lock_session(10))).execute(&mut *online).await?;
    online.commit().await?;
    Ok(())
}

/// Waits until a worker waits for a lock, or its run is over without having had to.
async fn worker_waits(mut conn: PgConnection) -> Result<()> {
    let waits = "SELECT coalesce(bool_or(wait_event_type = 'Lock'), TRUE) FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'SessionRetentionJob'";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut conn).await? {
        sqlx::query("SELECT pg_sleep(0.01)").execute(&mut conn).await?;
    }
    Ok(())
}

/// The foreign key's check waits for a child that came after the plan; its owner asks for the parent, which the batch
/// has locked. The worker gives up first, whoever begins to wait when, and however long it may wait for locks elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_locks_a_family_upwards_is_not_the_victim() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::singles(1, 100)).await?;
    let url = database.url().to_owned();
    let (first, (ended, end)) = (AtomicBool::new(true), mpsc::channel());
    let mut job = Job::new(1000)?.observed(move |event| {
        if matches!(event, RunEvent::BatchStarted { .. }) && first.swap(false, Ordering::SeqCst) {
            let (url, ended, (holds, held)) = (url.clone(), ended.clone(), mpsc::channel());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let client = runtime
                    .map_err(Into::into)
                    .and_then(|runtime| runtime.block_on(hang_below_and_ask_for_both(url, holds)));
                let _ = ended.send(client);
            });
            held.recv().unwrap();
        }
    });
    job.limits.lock_timeout = Duration::from_secs(30);
    let report = job.run(database.url()).await?;
    end.recv()?.context("the client")?;
    let refresh = &report.policies[1];
    assert_eq!((refresh.stop_reason, refresh.error.as_deref()), (StopReason::Drained, None), "{refresh:?}");
    assert_eq!((refresh.deleted, refresh.backlog.unwrap().blocked), (99, 1));
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), [10, 1000]);
    Ok(())
}
