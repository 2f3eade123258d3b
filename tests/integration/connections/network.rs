//! A network that hangs, loses connections without a word, and is slow.

use std::time::Instant;

use harness::{Proxy, Worker};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::sync::Notify;

use super::*;

/// What the store allows an answer beyond the statement's own bound, and then some for a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A migrated database with 1000 due requests, behind a proxy.
async fn behind_a_proxy() -> Result<(TestDatabase, Rows, Proxy)> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 1000).await?;
    let proxy = Proxy::before(database.url()).await?;
    Ok((database, rows, proxy))
}

#[tokio::test]
async fn a_server_that_stops_answering_in_mid_batch_fails_the_run_in_time() -> Result<()> {
    // One wait for the batch, five tries to get a connection with back-off between them, one for the backlog; most
    // of it is waiting, so a slow machine adds little.
    const BOUND: Duration = Duration::from_mins(3);
    let (database, rows, proxy) = behind_a_proxy().await?;
    let mut job = patient_job()?;
    job.policies.truncate(1);
    job.limits.statement_timeout = Duration::from_secs(5);
    let store = job.store(proxy.url())?;
    let stall = Stall::begin(&database, &rows).await?;
    let fault = async {
        stall.reached(&rows).await?;
        proxy.freeze();
        stall.end().await
    };
    let began = Instant::now();
    let (report, fault) = timeout(BOUND, async { tokio::join!(job.run_on(&store), fault) }).await?;
    fault?;
    let report = report?;
    eprintln!("the run failed after {:?}", began.elapsed());
    assert_eq!((report.outcome(), deleted(&report)), (Outcome::Failed, 0), "{report:?}");
    assert_eq!(report.policies[0].backlog, None, "{report:?}");
    // The server ends a session that waits for its next statement in vain. One whose statement it has ended before stays,
    // until the network tells it more: it holds nothing.
    rows.wait_until(
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity AS session WHERE datname = current_database() \
           AND state LIKE 'idle in transaction%' AND (state = 'idle in transaction' OR backend_xid IS NOT NULL \
             OR backend_xmin IS NOT NULL OR EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = session.pid)))",
    )
    .await?;

    assert!(timeout(PATIENCE, store_is_refused(&job, &store)).await?, "a run on a frozen network is refused");
    proxy.lose();
    proxy.thaw();
    let began = Instant::now();
    let report = job.run_on(&store).await?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (1000, 0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    nobody_in_a_transaction(&rows).await
}

async fn store_is_refused(job: &Job, store: &retention_postgres::PgRetentionStore) -> bool {
    job.run_on(store).await.is_err_and(|error| error.to_string().starts_with("no usable database"))
}

#[tokio::test]
async fn a_server_that_answers_again_is_used_again_in_the_same_run() -> Result<()> {
    let (database, rows, proxy) = behind_a_proxy().await?;
    let failed = Arc::new(Notify::new());
    let told = Arc::clone(&failed);
    let mut job = patient_job()?.observed(move |event| {
        if let RunEvent::AttemptFailed { .. } = event {
            told.notify_one();
        }
    });
    job.limits.statement_timeout = Duration::from_secs(5);
    let stall = Stall::begin(&database, &rows).await?;
    let fault = async {
        stall.reached(&rows).await?;
        proxy.freeze();
        stall.end().await?;
        timeout(job.limits.statement_timeout + PATIENCE, failed.notified())
            .await
            .context("waits for ever")?;
        proxy.thaw();
        anyhow::Ok(())
    };
    let (report, fault) = tokio::join!(job.run(proxy.url()), fault);
    fault?;
    let report = report?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (1000, 0));
    nobody_in_a_transaction(&rows).await
}

#[tokio::test]
async fn connections_lost_while_idle_do_not_cost_the_next_run() -> Result<()> {
    let (_database, rows, proxy) = behind_a_proxy().await?;
    let mut job = patient_job()?;
    job.limits.concurrency = 3;
    let store = job.store(proxy.url())?;
    assert_drained(&job.run_on(&store).await?);
    // What a firewall does that forgets connections: nobody is told.
    proxy.lose();
    due_requests(&rows, 1000).await?;
    let began = Instant::now();
    let report = job.run_on(&store).await?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (1000, 0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    nobody_in_a_transaction(&rows).await
}

/// More often than the pool has places: a place lost each time would be noticed.
#[tokio::test]
async fn a_freeze_just_after_a_commit_costs_the_pool_no_place() -> Result<()> {
    let (_database, rows, proxy) = behind_a_proxy().await?;
    let proxy = Arc::new(proxy);
    let store = Job::new(10)?.store(proxy.url())?;
    for round in 1..=4 {
        let (frozen, stop) = (Arc::clone(&proxy), harness::Stop::default());
        let stopped = stop.clone();
        let mut job = Job::new(10)?.observed(move |event| {
            if let RunEvent::BatchEnded { .. } = event {
                frozen.freeze();
                stopped.request();
            }
        });
        job.stop = stop;
        let began = Instant::now();
        let report = job.run_on(&store).await.with_context(|| format!("round {round}"))?;
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(deleted(&report), 10, "round {round}: {report:?}");
        proxy.lose();
        proxy.thaw();
    }
    assert_eq!(left(&rows).await?, 960);
    nobody_in_a_transaction(&rows).await
}

#[tokio::test]
async fn asking_a_frozen_server_again_and_again_costs_the_pool_no_place() -> Result<()> {
    let (_database, rows, proxy) = behind_a_proxy().await?;
    let job = Job::new(100)?;
    let store = job.store(proxy.url())?;
    store.database().ping().await?;
    proxy.freeze();
    for _ in 0..4 {
        let answer = timeout(Duration::from_secs(1), store.database().ping()).await;
        assert!(!matches!(answer, Ok(Ok(()))), "{answer:?}");
    }
    proxy.lose();
    proxy.thaw();
    timeout(SOON, store.database().ping()).await??;
    assert_drained(&job.run_on(&store).await?);
    nobody_in_a_transaction(&rows).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_stopped_at_the_beginning_of_a_transaction_leave_none_open() -> Result<()> {
    const STOPS: usize = 30;
    let (database, rows, proxy) = behind_a_proxy().await?;
    // A few rows a batch: many transactions, each of which may be the one that is met.
    let job = Arc::new(Job::new(5)?);
    let store = job.store(proxy.url())?;
    proxy.delay(Duration::from_millis(30));
    for stop in 0..STOPS {
        let mut begins = proxy.begins();
        let (job, of_run) = (Arc::clone(&job), store.clone());
        let run = tokio::spawn(async move { job.run_on(&of_run).await });
        // Further in each time, round and round: the clock, the preparations, scans, batches.
        let reached = *begins.borrow() + 1 + (stop as u64 % 6);
        begins.wait_for(|begins| *begins >= reached).await?;
        if stop % 2 == 1 {
            // It has begun on the server, and the answer is on its way.
            rows.wait_until(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                             AND state = 'idle in transaction')",
            )
            .await?;
        }
        run.abort();
        assert!(run.await.is_err_and(|error| error.is_cancelled()), "stop {stop}: the run was over already");
    }
    proxy.delay(Duration::ZERO);
    nobody_in_a_transaction(&rows).await?;
    let before = left(&rows).await?;
    let report = job.run_on(&store).await?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (before, 0));
    nobody_in_a_transaction(&rows).await?;
    drop(database);
    Ok(())
}

#[tokio::test]
async fn a_worker_told_to_stop_ends_although_its_server_does_not_answer() -> Result<()> {
    let (database, rows, proxy) = behind_a_proxy().await?;
    let stall = Stall::begin(&database, &rows).await?;
    let worker = Worker::on(proxy.url())
        .set("SESSION_RETENTION_LOCK_TIMEOUT", "1h")
        .set("SESSION_RETENTION_STATEMENT_TIMEOUT", "1h")
        .set("SESSION_RETENTION_SHUTDOWN_GRACE", "500ms");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    stall.reached(&rows).await?;
    proxy.freeze();
    let signalled = Instant::now();
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert!(signalled.elapsed() < SOON, "{:?}", signalled.elapsed());
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!(
        (&report["stop_reason"], &report["sicr_deleted"]),
        (&"shutdown".into(), &0.into()),
        "{report}"
    );
    proxy.cut();
    stall.end().await?;
    nobody_in_a_transaction(&rows).await
}
