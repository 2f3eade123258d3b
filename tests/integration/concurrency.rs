//! Several workers at once, and online traffic meanwhile. What others hold: `held.rs`.

use std::time::Duration;

use anyhow::Result;
use harness::{Job, Rows, TestDatabase, Watch, Worker, reference, shape};
use retention_domain::ports::RunEvent;
use retention_domain::{Outcome, RetentionPeriod, RetentionPolicy, RunReport, StopReason};
use rstest::rstest;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinSet;

use crate::held::{held, insert_child, lock_session};

/// Some 60,000 due rows in chains, trees and alone, in no physical order.
async fn seed_many(rows: &Rows) -> Result<u64> {
    rows.sessions(format!("{} ORDER BY random()", shape::chains(1, 200, 100))).await?;
    rows.sessions(format!("{} ORDER BY random()", shape::chains(100_000, 1000, 10))).await?;
    rows.sessions(format!("{} ORDER BY random()", shape::trees(200_000, 1000))).await?;
    rows.sessions(format!("{} ORDER BY random()", shape::singles(300_000, 8000))).await?;
    rows.requests(
        "SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 15000) AS n ORDER BY random()",
    )
    .await?;
    Ok(rows.count_sessions().await? + rows.count_requests().await?)
}

async fn none_left(rows: &Rows) -> Result<bool> {
    Ok(rows.count_sessions().await? + rows.count_requests().await? == 0)
}

fn deleted(report: &RunReport) -> u64 {
    report.policies.iter().map(|policy| policy.deleted).sum()
}

#[rstest]
#[case::three_workers(3, 1)]
#[case::one_worker_with_four_connections(1, 4)]
#[case::two_workers_with_three_connections(2, 3)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_at_once_delete_every_row_once(
    #[case] workers: usize,
    #[case] concurrency: usize,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let due = seed_many(&rows).await?;
    let watch = Watch::over(&rows).await?;
    let mut runs = JoinSet::new();
    for _ in 0..workers {
        let url = database.url().to_owned();
        runs.spawn(async move {
            let mut job = Job::new(1000)?;
            job.limits.concurrency = concurrency;
            let job = job.observed(|event| {
                assert!(!matches!(event, RunEvent::AttemptFailed { .. }), "{event:?}");
            });
            job.run(&url).await
        });
    }
    let mut sum = 0;
    while let Some(report) = runs.join_next().await {
        let report = report??;
        assert_eq!(report.outcome(), Outcome::Completed, "{report:?}");
        sum += deleted(&report);
    }
    assert!(none_left(&rows).await?);
    assert_eq!((sum, watch.deleted().await?), (due, due));
    assert!(watch.largest_transaction().await? <= 1000);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_at_once_delete_every_row_once() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let due = seed_many(&rows).await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_BATCH_SIZE", "1000");
    let runs = tokio::try_join!(worker.run(), worker.run(), worker.run())?;
    let mut sum = 0;
    for (finished, report) in [runs.0, runs.1, runs.2] {
        assert_eq!((finished.code(), &report["outcome"]), (Some(0), &"completed".into()), "{report}");
        assert!(!finished.stderr.contains("SQLSTATE"), "{}", finished.stderr);
        sum += report["sicr_deleted"].as_u64().unwrap() + report["refresh_deleted"].as_u64().unwrap();
    }
    assert!(none_left(&rows).await?);
    assert_eq!(sum, due);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_workers_over_empty_tables_do_no_harm() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let url = database.url();
    let jobs: Vec<_> = (0..10).map(|_| Job::new(5000)).collect::<Result<_>>()?;
    for report in futures(jobs.iter().map(|job| job.run(url))).await {
        assert_eq!(report?.outcome(), Outcome::Completed);
    }
    Ok(())
}

/// All of them at once, in this task.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(Box::pin).map(|future| (Some(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut all {
            if let Some(running) = future
                && let std::task::Poll::Ready(done) = running.as_mut().poll(context)
            {
                *output = Some(done);
                *future = None;
            }
        }
        if all.iter().all(|(future, _)| future.is_none()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test]
async fn an_old_snapshot_does_not_stop_a_run() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1000, 20)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 20000) AS n").await?;
    let snapshot =
        held(rows.pool(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM identity.users")
            .await?;
    let report = Job::new(500)?.run(database.url()).await?;
    assert_eq!((report.outcome(), deleted(&report)), (Outcome::Completed, 40_000));
    assert!(none_left(&rows).await?);
    drop(snapshot);
    Ok(())
}

/// Rotates one session `rotations` times, as the service does, then revokes it; everything it leaves is due at once.
async fn rotate(pool: PgPool, first: u64, rotations: u64) -> Result<()> {
    for n in first..first + rotations {
        let mut online = pool.begin().await?;
        for statement in [
            lock_session(n),
            insert_child(n, n + 1),
            format!(
                "UPDATE identity.refresh_sessions SET status = 'Rotated', updated_at = now() - interval '1 day' \
                 WHERE id = lpad(to_hex({n}), 32, '0')::uuid"
            ),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *online).await?;
        }
        online.commit().await?;
    }
    let revoke = "UPDATE identity.refresh_sessions SET status = 'Revoked', updated_at = now() - interval '1 day' WHERE id =";
    let revoke = format!("{revoke} lpad(to_hex({}), 32, '0')::uuid", first + rotations);
    sqlx::raw_sql(AssertSqlSafe(revoke)).execute(&pool).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn online_rotation_meets_no_error_and_the_worker_none_either() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let mut clients = JoinSet::new();
    // Each device signs in five times, one chain after the other, so that there is always something to delete.
    for client in 0..4 {
        let rows = rows.clone();
        clients.spawn(async move {
            for chain in 0..5 {
                let first = (client * 5 + chain) * 1000;
                rows.session(first, None, "Active", 0).await?;
                rotate(rows.pool().clone(), first, 30).await?;
            }
            anyhow::Ok(())
        });
    }
    let mut job = Job::new(20)?;
    job.policies = vec![RetentionPolicy::refresh(RetentionPeriod::new(Duration::from_secs(1))?)];
    job.limits.lock_timeout = Duration::from_millis(1);
    let mut sum = 0;
    let mut online = true;
    while online || rows.count_sessions().await? > 0 {
        online = !clients.is_empty();
        let report = job.run(database.url()).await?;
        assert!(matches!(report.stop_reason(), StopReason::Drained | StopReason::RowsHeld), "{report:?}");
        sum += report.deleted("refresh");
        while let Some(client) = clients.try_join_next() {
            client??;
        }
    }
    assert_eq!(sum, 4 * 5 * 31);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_update_meanwhile_meets_no_error_and_the_worker_none_either() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    // The living ends of chains are revoked in bulk, in another order than the worker goes.
    rows.sessions(shape::chains(1, 1000, 5)).await?;
    rows.execute(
        "UPDATE identity.refresh_sessions AS s SET status = 'Active' WHERE NOT EXISTS \
                  (SELECT FROM identity.refresh_sessions AS c WHERE c.parent_session_id = s.id)",
    )
    .await?;
    rows.sessions(shape::chains(100_000, 1000, 5)).await?;
    let updates = async {
        for part in 0..5 {
            rows.execute(format!(
                "UPDATE identity.refresh_sessions SET status = 'Revoked' WHERE status = 'Active' \
                 AND id IN (SELECT id FROM identity.refresh_sessions WHERE status = 'Active' \
                            AND hashtext(id::text) & 7 >= {part} ORDER BY id DESC LIMIT 200)"
            ))
            .await?;
        }
        rows.execute("UPDATE identity.refresh_sessions SET status = 'Revoked' WHERE status = 'Active'").await
    };
    let before = rows.all_sessions().await?;
    let job = Job::new(50)?
        .observed(|event| assert!(!matches!(event, RunEvent::AttemptFailed { .. }), "{event:?}"));
    let (report, online) = tokio::join!(job.run(database.url()), updates);
    online?;
    let report = report?;
    assert!(matches!(report.stop_reason(), StopReason::Drained | StopReason::RowsHeld), "{report:?}");
    assert!(report.deleted("refresh") >= reference::sessions(&before, report.started_at).goes.len() as u64);
    let rest = job.run(database.url()).await?;
    assert_eq!((rest.outcome(), rows.count_sessions().await?), (Outcome::Completed, 0));
    Ok(())
}
