//! Deletes that take longer than they may: batches shrink, the run ends in time, and each run makes progress.

use std::time::Duration;

use anyhow::Result;
use harness::{Job, Rows, TestDatabase, shape};
use retention_domain::ports::RetentionStore;
use retention_domain::{FailureKind, Outcome, StopReason};
use rstest::rstest;

use crate::faults::thousands;
use crate::held::{batch_of_all, due_sessions};

fn sleeping(milliseconds: u32, table: &str) -> String {
    format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({milliseconds} / 1000.0); \
         RETURN OLD; END $$; CREATE TRIGGER slow BEFORE DELETE ON identity.{table} FOR EACH ROW EXECUTE FUNCTION slow()"
    )
}

#[tokio::test]
async fn a_batch_that_takes_too_long_is_halved_until_it_goes() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 20)).await?;
    rows.execute(sleeping(5, "refresh_sessions")).await?;
    let mut job = Job::new(200)?;
    // A hundred rows take half a second, so at most fifty can go at once.
    job.limits.statement_timeout = Duration::from_millis(400);
    let report = job.run(database.url()).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 200), "{report:?}");
    assert!(report.policies[1].batches > 2);
    Ok(())
}

#[rstest]
#[case::requests("sign_in_confirmation_requests")]
#[case::sessions("refresh_sessions")]
#[tokio::test]
async fn slow_deletes_end_with_the_run_s_time_and_are_no_error(#[case] table: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(sleeping(20, table)).await?;
    let mut job = Job::new(5000)?;
    // The thousand rows take twenty seconds.
    job.limits.max_run_duration = Duration::from_secs(2);
    let report = job.run(database.url()).await?;
    assert!(report.duration < Duration::from_secs(10), "{:?}", report.duration);
    assert_eq!(
        (report.outcome(), report.stop_reason()),
        (Outcome::Stopped, StopReason::MaxRunDuration),
        "{report:?}"
    );
    assert!(report.is_success());
    let slow = report.policies.iter().find(|policy| policy.table.name == table).unwrap();
    assert_eq!((slow.error.as_deref(), slow.failed_rows), (None, 0));
    // It says how much remains, although its time is up.
    assert_eq!(slow.backlog.unwrap().pending, 1000 - slow.deleted);
    Ok(())
}

/// A batch of a thousand rows takes longer than its share of the run: every run must bring some rows, or none ever
/// will. And the slow policy must leave the other one its turn.
#[rstest]
#[case::requests("sign_in_confirmation_requests")]
#[case::sessions("refresh_sessions")]
#[tokio::test]
async fn a_run_too_short_for_one_batch_still_makes_progress(#[case] table: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(sleeping(5, table)).await?;
    let mut job = Job::new(1000)?;
    job.limits.max_run_duration = Duration::from_secs(8);
    let report = job.run(database.url()).await?;
    for policy in &report.policies {
        assert!(policy.deleted > 0, "{policy:?}");
    }
    Ok(())
}

/// A client that waits for a batch looks for a deadlock after a second, by default. A batch that does not know of it holds
/// nothing for that long.
#[tokio::test]
async fn a_batch_that_reckons_with_nobody_gives_up_before_anybody_looks_for_a_deadlock() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::singles(1, 500)).await?;
    // Two and a half seconds in all.
    rows.execute(sleeping(5, "refresh_sessions")).await?;
    let store = Job::new(500)?.store(database.url())?;
    let target = due_sessions(&store).await?;
    let mut batch = batch_of_all(&store, &target).await?;
    let failure = store.delete_batch(&target, &batch).await.unwrap_err();
    assert_eq!((failure.kind, rows.count_sessions().await?), (FailureKind::Timeout, 500), "{failure}");
    batch.contended = true;
    assert_eq!(
        store.delete_batch(&target, &batch).await?.deleted,
        500,
        "who looks first has the time it needs"
    );
    Ok(())
}
