//! Signals in the middle of a run: what was reported is what is gone, and nothing is left behind.

use std::time::{Duration, Instant};

use anyhow::Result;
use harness::{Rows, TestDatabase, Worker, shape};
use nix::sys::signal::Signal;
use rstest::rstest;
use serde_json::{Value, json};

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

fn message(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    line["message"].as_str().map(ToOwned::to_owned)
}

fn says(text: &'static str) -> impl Fn(&str) -> bool {
    move |line| message(line).as_deref() == Some(text)
}

#[tokio::test]
async fn sigterm_in_the_middle_keeps_what_was_reported_and_the_next_run_finishes() -> Result<()> {
    const ROWS: u64 = 200_000;
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests(format!(
        "SELECT n, 'Expired', interval '40 days' FROM generate_series(1, {ROWS} / 2) AS n"
    ))
    .await?;
    rows.sessions(shape::chains(1, ROWS / 200, 100)).await?;
    let grace = Duration::from_secs(25);
    let slow = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_PAUSE", "1s")
        .set("SESSION_RETENTION_BATCH_SIZE", "1000");
    let mut process = slow.spawn(&["run", "--format", "json"]).await?;
    for _ in 0..3 {
        process.wait_for_line(says("batch deleted"), DEADLINE).await?;
    }
    let signalled = Instant::now();
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert!(signalled.elapsed() < grace, "{:?}", signalled.elapsed());
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!((&report["outcome"], &report["stop_reason"]), (&json!("stopped"), &json!("shutdown")));
    let (sicr, refresh) =
        (report["sicr_deleted"].as_u64().unwrap(), report["refresh_deleted"].as_u64().unwrap());
    assert!(sicr + refresh >= 3000);
    assert_eq!(
        (rows.count_requests().await?, rows.count_sessions().await?),
        (ROWS / 2 - sicr, ROWS / 2 - refresh)
    );

    let (finished, rest) = Worker::on(database.url()).run().await?;
    assert_eq!((finished.code(), &rest["stop_reason"]), (Some(0), &json!("drained")));
    assert_eq!(
        rest["sicr_deleted"].as_u64().unwrap() + rest["refresh_deleted"].as_u64().unwrap(),
        ROWS - sicr - refresh
    );
    assert_eq!(rows.count_requests().await? + rows.count_sessions().await?, 0);
    Ok(())
}

#[rstest]
#[case::the_second_signal("1h", 2)]
#[case::the_end_of_the_grace_period("100ms", 1)]
#[tokio::test]
async fn a_batch_in_flight_is_cancelled_by(#[case] grace: &str, #[case] signals: usize) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 10) AS n").await?;
    rows.execute(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN OLD; END $$; \
         CREATE TRIGGER stall BEFORE DELETE ON identity.sign_in_confirmation_requests FOR EACH ROW EXECUTE FUNCTION stall()",
    )
    .await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_SHUTDOWN_GRACE", grace)
        .set("SESSION_RETENTION_STATEMENT_TIMEOUT", "1h");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    rows.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database() \
                     AND application_name = 'SessionRetentionJob')")
        .await?;
    for _ in 0..signals {
        process.signal(Signal::SIGTERM)?;
        process
            .wait_for_line(
                |line| message(line).is_some_and(|text| text.contains("batch in flight")),
                DEADLINE,
            )
            .await?;
    }
    let finished = process.wait(DEADLINE).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!((&report["stop_reason"], &report["sicr_deleted"]), (&json!("shutdown"), &json!(0)));
    assert_eq!(report["policies"][0]["error"], Value::Null, "a shutdown is no error");
    assert_eq!(rows.count_requests().await?, 10);
    rows.wait_until(
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                     AND application_name = 'SessionRetentionJob')",
    )
    .await
}

#[tokio::test]
async fn between_batches_nothing_is_left_in_a_transaction_and_a_signal_ends_the_pause() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 20) AS n").await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_PAUSE", "1h")
        .set("SESSION_RETENTION_BATCH_SIZE", "10");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    process.wait_for_line(says("batch deleted"), DEADLINE).await?;
    // Refresh has nothing to do; once it is known, nothing happens any more.
    rows.wait_until(
        "SELECT count(*) > 0 AND bool_and(state = 'idle') FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name = 'SessionRetentionJob'",
    )
    .await?;
    process.signal(Signal::SIGINT)?;
    let finished = process.wait(DEADLINE).await?;
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!(
        (finished.code(), &report["stop_reason"], &report["sicr_deleted"]),
        (Some(0), &json!("shutdown"), &json!(10))
    );
    assert_eq!(rows.count_requests().await?, 10);
    Ok(())
}
