//! The tests that the specification asks for by name (its section 8), against a real server.
//!
//! Cannot show what processes do: see `process.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use chrono::TimeDelta;
use harness::{Job, Rows, TestDatabase, Watch, reference, shape};
use retention_domain::ports::RunEvent;
use retention_domain::{Backlog, Outcome, RunReport, StopReason};
use rstest::rstest;
use tokio::task::JoinSet;

/// A day on either side of the line.
const SICR_STATUSES: [&str; 6] = ["Confirmed", "Expired", "Exhausted", "Superseded", "Pending", "Unheard-of"];

async fn run(database: &TestDatabase) -> Result<RunReport> {
    Job::new(1000)?.run(database.url()).await
}

/// The numbers of what is left.
async fn sessions_left(rows: &Rows) -> Result<Vec<u64>> {
    Ok(rows.all_sessions().await?.into_keys().collect())
}

#[tokio::test]
async fn empty_batch_is_a_success() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let report = run(&database).await?;
    assert_eq!((report.outcome(), report.stop_reason()), (Outcome::Completed, StopReason::Drained));
    assert!(report.is_success());
    for policy in &report.policies {
        assert_eq!((policy.deleted, policy.batches, policy.skipped, policy.failed_rows), (0, 0, 0, 0));
        assert_eq!((policy.error.as_deref(), policy.backlog), (None, Some(Backlog::default())));
    }
    assert_eq!(report.policies[0].cutoff.instant(), report.started_at - TimeDelta::days(30));
    assert_eq!(report.policies[1].cutoff.instant(), report.started_at - TimeDelta::days(90));
    Ok(())
}

#[tokio::test]
async fn sicr_older_than_30_days_goes_in_every_status_younger_stay() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    for (n, status) in (0..).zip(SICR_STATUSES) {
        rows.request(n, status, 31).await?;
        rows.request(100 + n, status, 29).await?;
    }
    let report = run(&database).await?;
    assert_eq!((report.deleted("sicr"), report.outcome()), (6, Outcome::Completed));
    assert_eq!(rows.all_requests().await?.into_keys().collect::<Vec<_>>(), (100..106).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn sicr_status_has_no_influence() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Confirmed", 40).await?;
    rows.request(2, "Expired", 40).await?;
    // Also without an owner, and whatever became of the owner's other rows.
    rows.execute("UPDATE identity.sign_in_confirmation_requests SET user_id = NULL").await?;
    assert_eq!(run(&database).await?.deleted("sicr"), 2);
    assert_eq!(rows.count_requests().await?, 0);
    Ok(())
}

#[tokio::test]
async fn terminal_refresh_older_than_90_days_goes_active_of_any_age_stays() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    for (n, status) in (1..).zip(["Rotated", "Revoked", "Expired", "Active"]) {
        rows.session(n, None, status, 91).await?;
        rows.session(10 + n, None, status, 89).await?;
        rows.session(20 + n, None, status, 3650).await?;
    }
    let report = run(&database).await?;
    assert_eq!(report.deleted("refresh"), 6);
    assert_eq!(sessions_left(&rows).await?, [4, 11, 12, 13, 14, 24]);
    Ok(())
}

#[tokio::test]
async fn revoked_10_days_stays() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.session(1, None, "Revoked", 10).await?;
    // It was created long ago: only the moment of the revocation counts.
    rows.execute("UPDATE identity.refresh_sessions SET created_at = now() - interval '400 days'").await?;
    assert_eq!(run(&database).await?.deleted("refresh"), 0);
    assert_eq!(sessions_left(&rows).await?, [1]);
    Ok(())
}

#[rstest]
#[case::living("Active", 100)]
#[case::young("Revoked", 1)]
#[case::of_unknown_status("Compromised", 100)]
#[tokio::test]
async fn rotation_chain_parent_with_living_or_young_child_stays_and_goes_once_aged(
    #[case] status: &str,
    #[case] days: u32,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.session(1, None, "Rotated", 102).await?;
    rows.session(2, Some(1), "Rotated", 101).await?;
    rows.session(3, Some(2), status, days).await?;
    // A sibling branch does not wait for the one that stays.
    rows.session(4, Some(1), "Revoked", 100).await?;
    let report = run(&database).await?;
    assert_eq!(sessions_left(&rows).await?, [1, 2, 3]);
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 1));
    let backlog = report.policies[1].backlog.unwrap();
    assert_eq!((backlog.pending, backlog.blocked), (0, 2));
    assert_eq!(report.policies[1].error, None, "no violation of the foreign key");

    rows.execute(
        "UPDATE identity.refresh_sessions SET status = 'Expired', updated_at = now() - interval '91 days' \
         WHERE parent_session_id = (SELECT id FROM identity.refresh_sessions WHERE id::text LIKE '%2')",
    )
    .await?;
    let report = run(&database).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 3));
    assert_eq!(sessions_left(&rows).await?, [0_u64; 0]);
    Ok(())
}

#[tokio::test]
async fn restart_second_run_deletes_0() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::trees(1, 50)).await?;
    rows.session(1000, Some(7), "Active", 0).await?;
    rows.requests("SELECT n, 'Pending', make_interval(days => n::int) FROM generate_series(1, 60) AS n")
        .await?;
    let (sessions, requests) = (rows.all_sessions().await?, rows.all_requests().await?);
    let first = run(&database).await?;
    let expected = reference::sessions(&sessions, first.started_at);
    assert_eq!(first.deleted("refresh"), expected.goes.len() as u64);
    assert_eq!(first.deleted("sicr"), reference::requests(&requests, first.started_at).goes.len() as u64);
    assert_eq!(first.backlog_remaining(), Some(expected.blocked.len() as u64));
    let left = (rows.all_sessions().await?, rows.all_requests().await?);
    let second = run(&database).await?;
    assert_eq!((second.deleted("refresh"), second.deleted("sicr")), (0, 0));
    assert_eq!(second.backlog_remaining(), first.backlog_remaining());
    assert_eq!((rows.all_sessions().await?, rows.all_requests().await?), left);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_instances_delete_no_row_twice() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::trees(1, 1000)).await?;
    rows.sessions(shape::chains(100_000, 300, 10)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 5000) AS n").await?;
    let watch = Watch::over(&rows).await?;
    let mut instances = JoinSet::new();
    for _ in 0..4 {
        let url = database.url().to_owned();
        instances.spawn(async move { Job::new(100)?.run(&url).await });
    }
    let (mut sicr, mut refresh) = (0, 0);
    while let Some(report) = instances.join_next().await {
        let report = report??;
        assert_eq!(report.outcome(), Outcome::Completed, "{report:?}");
        sicr += report.deleted("sicr");
        refresh += report.deleted("refresh");
    }
    assert_eq!((sicr, refresh), (5000, 10_000));
    assert_eq!((rows.count_requests().await?, rows.count_sessions().await?), (0, 0));
    assert_eq!(watch.deleted().await?, 15_000);
    assert!(watch.largest_transaction().await? <= 100);
    Ok(())
}

#[tokio::test]
async fn no_status_changed_no_other_table_touched() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 20, 10)).await?;
    rows.sessions("SELECT 1000 + n, n * 10, 'Active', interval '200 days' FROM generate_series(1, 10) AS n")
        .await?;
    rows.requests("SELECT n, 'Confirmed', make_interval(days => n::int) FROM generate_series(1, 60) AS n")
        .await?;
    // Everything that will stay, byte by byte, in every table of the schema.
    let content = "SELECT md5(concat((SELECT string_agg(s::text, ';' ORDER BY id) FROM identity.refresh_sessions AS s \
         WHERE id IN (SELECT id FROM stay)), (SELECT string_agg(r::text, ';' ORDER BY id) \
         FROM identity.sign_in_confirmation_requests AS r WHERE created_at > now() - interval '30 days'), \
         (SELECT string_agg(u::text, ';' ORDER BY id) FROM identity.users AS u)))";
    rows.execute(
        "CREATE TABLE stay AS WITH RECURSIVE up AS (SELECT * FROM identity.refresh_sessions WHERE status = 'Active' \
         UNION SELECT above.* FROM up JOIN identity.refresh_sessions AS above ON above.id = up.parent_session_id) \
         SELECT id FROM up",
    )
    .await?;
    let before: String = sqlx::query_scalar(content).fetch_one(rows.pool()).await?;
    // Raises on every write but a delete on the two tables, and on every write to users.
    Watch::over(&rows).await?;
    let report = run(&database).await?;
    assert_eq!(
        (report.outcome(), report.deleted("refresh"), report.deleted("sicr")),
        (Outcome::Completed, 100, 31)
    );
    let after: String = sqlx::query_scalar(content).fetch_one(rows.pool()).await?;
    assert_eq!(before, after);
    assert_eq!(rows.count_sessions().await?, rows.number("SELECT count(*) FROM stay").await?);
    Ok(())
}

#[tokio::test]
async fn cancellation_between_portions_keeps_what_was_committed() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 100)).await?;
    let watch = Watch::over(&rows).await?;
    let batches = Arc::new(AtomicU64::new(0));
    let mut job = Job::new(50)?;
    let (seen, stop) = (Arc::clone(&batches), job.stop.clone());
    job = job.observed(move |event| {
        if matches!(event, RunEvent::BatchEnded { deleted: 1.., .. })
            && seen.fetch_add(1, Ordering::SeqCst) == 2
        {
            stop.request();
        }
    });
    let report = job.run(database.url()).await?;
    assert_eq!((report.stop_reason(), report.outcome()), (StopReason::Shutdown, Outcome::Stopped));
    assert!(!report.is_success());
    assert_eq!((report.deleted("refresh"), batches.load(Ordering::SeqCst)), (150, 3));
    assert_eq!((rows.count_sessions().await?, watch.deleted().await?), (850, 150));
    let rest = run(&database).await?;
    assert_eq!((rest.outcome(), rest.deleted("refresh")), (Outcome::Completed, 850));
    Ok(())
}
