//! A server that restarts, terminates our sessions, or turns read-only and back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use harness::{OwnCluster, Server, server};
use rstest::rstest;
use sqlx::AssertSqlSafe;
use tokio::sync::mpsc;

use super::*;

#[tokio::test]
async fn a_batch_whose_backend_is_terminated_is_tried_again_in_the_same_run() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 1000).await?;
    due_sessions(&rows, 1000).await?;
    let stall = Stall::begin(&database, &rows).await?;
    let failures = Failures::default();
    let noted = failures.clone();
    let job = patient_job()?.observed(move |event| noted.note(event));
    let fault = async {
        stall.reached(&rows).await?;
        terminate_workers(&rows).await?;
        stall.end().await
    };
    let began = Instant::now();
    let (report, fault) = tokio::join!(job.run(database.url()), fault);
    fault?;
    let report = report?;
    assert_drained(&report);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!((deleted(&report), left(&rows).await?), (2000, 0));
    assert!(failures.all().iter().any(|sentence| sentence.contains("57P01")), "{:?}", failures.all());
    nobody_in_a_transaction(&rows).await
}

#[tokio::test]
async fn backends_terminated_again_and_again_cost_no_row_and_no_run() -> Result<()> {
    const TIMES: usize = 15;
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 3000).await?;
    due_sessions(&rows, 3000).await?;
    let (sender, mut batches) = mpsc::unbounded_channel();
    let started = AtomicU32::new(0);
    let mut job = Job::new(100)?.observed(move |event| {
        // In the midst of a batch, and just after one.
        let moment = match event {
            RunEvent::BatchStarted { .. } => started.fetch_add(1, Ordering::SeqCst).is_multiple_of(3),
            RunEvent::BatchEnded { .. } => started.load(Ordering::SeqCst) % 3 == 2,
            _ => false,
        };
        if moment {
            let _ = sender.send(());
        }
    });
    job.limits.concurrency = 2;
    let store = job.store(database.url())?;
    let fault = async {
        for _ in 0..TIMES {
            batches.recv().await.context("the run ended before")?;
            terminate_workers(&rows).await?;
        }
        anyhow::Ok(())
    };
    let (report, fault) = tokio::join!(job.run_on(&store), fault);
    fault?;
    let report = report?;
    assert_drained(&report);
    assert_eq!(left(&rows).await?, 0);
    // A backend may die after its commit and before it says so.
    assert!(deleted(&report) <= 6000, "{report:?}");
    nobody_in_a_transaction(&rows).await?;
    due_requests(&rows, 10).await?;
    let next = job.run_on(&store).await?;
    assert_eq!((next.outcome(), deleted(&next)), (Outcome::Completed, 10));
    Ok(())
}

#[rstest]
#[case::in_good_order("fast")]
#[case::as_in_a_crash("immediate")]
#[tokio::test]
async fn a_server_restarts_between_runs_and_during_one(#[case] mode: &str) -> Result<()> {
    let Some(cluster) = OwnCluster::start().await? else { return Ok(()) };
    let database = TestDatabase::migrated_on(cluster.server()).await?;
    // What was committed shall have survived, so that rows can be counted.
    alter(cluster.server(), &database, "synchronous_commit = on").await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 1000).await?;
    let failures = Failures::default();
    let noted = failures.clone();
    let mut job = patient_job()?.observed(move |event| noted.note(event));
    job.limits.concurrency = 3;
    let store = job.store(database.url())?;
    assert_drained(&job.run_on(&store).await?);

    cluster.restart(mode).await?;
    due_requests(&rows, 1000).await?;
    let report = job.run_on(&store).await?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (1000, 0));
    assert_eq!(failures.all(), [""; 0], "connections of before are not used after");

    due_requests(&rows, 1000).await?;
    due_sessions(&rows, 1000).await?;
    let stall = Stall::begin(&database, &rows).await?;
    let fault = async {
        stall.reached(&rows).await?;
        // Nobody holds the lock afterwards.
        cluster.restart(mode).await
    };
    let (report, fault) = timeout(DEADLINE, async { tokio::join!(job.run_on(&store), fault) }).await?;
    fault?;
    assert_drained(&report?);
    assert_eq!(left(&rows).await?, 0);
    assert!(!failures.all().is_empty());
    nobody_in_a_transaction(&rows).await?;
    assert_drained(&job.run_on(&store).await?);
    Ok(())
}

/// Changes a setting of the database for sessions to come, as somebody whom that does not concern.
async fn alter(server: &Server, database: &TestDatabase, setting: &str) -> Result<()> {
    let mut admin = PgConnection::connect(server.maintenance_url()).await?;
    let statement = format!("ALTER DATABASE {} SET {setting}", database.name());
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await?;
    Ok(admin.close().await?)
}

#[tokio::test]
async fn a_server_that_turns_read_only_fails_the_run_and_the_next_one_works_when_it_is_back() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let mut job = patient_job()?;
    job.limits.concurrency = 3;
    let store = job.store(database.url())?;
    due_requests(&rows, 1000).await?;
    due_sessions(&rows, 1000).await?;
    assert_drained(&job.run_on(&store).await?);

    due_requests(&rows, 1000).await?;
    due_sessions(&rows, 1000).await?;
    let stall = Stall::begin(&database, &rows).await?;
    let fault = async {
        stall.reached(&rows).await?;
        alter(server().await?, &database, "default_transaction_read_only = on").await?;
        terminate_workers(&rows).await?;
        stall.end().await
    };
    let began = Instant::now();
    let (report, fault) = tokio::join!(job.run_on(&store), fault);
    fault?;
    let report = report?;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(report.outcome(), Outcome::Failed, "{report:?}");
    assert!(report.policies[0].error.as_deref().unwrap().contains("25006"), "{report:?}");
    assert_eq!(left(&rows).await?, 2000 - deleted(&report));

    let failed = job.run_on(&store).await?;
    assert_eq!((failed.outcome(), deleted(&failed)), (Outcome::Failed, 0), "no success with nothing deleted");

    // Sessions of the read-only time are not told of its end: nobody terminates them.
    alter(server().await?, &database, "default_transaction_read_only = off").await?;
    let report = job.run_on(&store).await?;
    assert_drained(&report);
    assert_eq!(left(&rows).await?, 0);
    nobody_in_a_transaction(&rows).await
}

/// A server tells of an error before it lets go of the rows: who asks at once would take them for somebody else's.
#[tokio::test]
async fn what_a_failed_batch_held_is_free_when_the_next_one_asks() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 1).await?;
    rows.execute(
        "CREATE FUNCTION object() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$; \
         CREATE TRIGGER object BEFORE DELETE ON identity.sign_in_confirmation_requests \
           FOR EACH ROW EXECUTE FUNCTION object()",
    )
    .await?;
    let job = Job::new(10)?;
    let store = job.store(database.url())?;
    // One in ten went wrong.
    for _ in 0..60 {
        let report = job.run_on(&store).await?;
        let requests = &report.policies[0];
        assert_eq!((requests.failed_rows, requests.skipped), (1, 0), "{report:?}");
    }
    Ok(())
}
