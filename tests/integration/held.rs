//! Rows and tables that somebody else holds: passed over, tried once more, reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use harness::{Job, Rows, TestDatabase, Worker, shape};
use retention_domain::plan::Target;
use retention_domain::ports::{RetentionStore, RunEvent};
use retention_domain::{
    BatchRequest, Cutoff, FailureKind, Outcome, RetentionPeriod, RetentionPolicy, RunReport, StopReason,
};
use retention_postgres::PgRetentionStore;
use rstest::rstest;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Postgres, Transaction};
use tokio::sync::Notify;

use crate::stores::{LIMIT, RUN};

/// A transaction of somebody else that has executed these statements.
pub(crate) async fn held(pool: &PgPool, statements: &str) -> Result<Transaction<'static, Postgres>> {
    let mut transaction = pool.begin().await?;
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut *transaction).await?;
    Ok(transaction)
}

pub(crate) fn lock_session(n: u64) -> String {
    format!("SELECT FROM identity.refresh_sessions WHERE id = lpad(to_hex({n}), 32, '0')::uuid FOR UPDATE")
}

#[tokio::test]
async fn a_row_held_in_the_middle_of_a_chain_costs_its_own_ancestors() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1, 100)).await?;
    rows.sessions(shape::chains(1000, 100, 50)).await?;
    rows.sessions(shape::singles(10_000, 5000)).await?;
    let holder = held(rows.pool(), &lock_session(50)).await?;

    let worker = Worker::on(database.url()).set("SESSION_RETENTION_BATCH_SIZE", "500");
    let (finished, report) = worker.run().await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!((&report["outcome"], &report["stop_reason"]), (&"stopped".into(), &"rows_held".into()));
    let refresh = &report["policies"][1];
    assert_eq!((&refresh["stop_reason"], &refresh["error"]), (&"rows_held".into(), &serde_json::Value::Null));
    assert_eq!(refresh["skipped"], 1);
    assert_eq!((&refresh["backlog"]["pending"], &refresh["backlog"]["blocked"]), (&50.into(), &0.into()));
    assert_eq!(refresh["deleted"], 10_050);
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());

    holder.rollback().await?;
    let (finished, report) = worker.run().await?;
    assert_eq!((finished.code(), &report["stop_reason"]), (Some(0), &"drained".into()));
    assert_eq!(report["refresh_deleted"], 50);
    Ok(())
}

#[tokio::test]
async fn held_rows_of_both_tables_are_passed_over_and_counted() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 1000) AS n").await?;
    rows.sessions(shape::trees(1, 100)).await?;
    let requests = "SELECT FROM identity.sign_in_confirmation_requests WHERE id::text LIKE '%0' FOR UPDATE";
    let holder = held(rows.pool(), requests).await?;
    // The root of the first tree, a fork of the second, and a leaf of the third.
    let sessions = held(rows.pool(), &[1, 9, 21].map(lock_session).join(";")).await?;
    let report = Job::new(100)?.run(database.url()).await?;
    assert_eq!((report.outcome(), report.stop_reason()), (Outcome::Stopped, StopReason::RowsHeld));
    assert!(report.is_success());
    let held_requests = rows.count_requests().await?;
    let [sicr, refresh] = &report.policies[..] else { panic!("two policies") };
    assert_eq!(
        (sicr.skipped, sicr.deleted, sicr.backlog.unwrap().pending),
        (held_requests, 1000 - held_requests, held_requests)
    );
    assert_eq!(refresh.skipped, 3);
    // 1; 8 and 9; 15, 16, 18 and 21.
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), [1, 8, 9, 15, 16, 18, 21]);
    assert_eq!((refresh.backlog.unwrap().pending, refresh.backlog.unwrap().blocked), (7, 0));
    drop((holder, sessions));
    Ok(())
}

pub(crate) fn insert_child(parent: u64, child: u64) -> String {
    format!(
        "INSERT INTO identity.refresh_sessions SELECT lpad(to_hex({child}), 32, '0')::uuid, user_id, \
         decode(lpad(to_hex({child}), 16, '0'), 'hex'), id, 'Active', NULL, NULL, now(), now(), now() \
         FROM identity.refresh_sessions WHERE id = lpad(to_hex({parent}), 32, '0')::uuid"
    )
}

/// One run, during which somebody else commits once the run has met what they hold.
async fn run_while_committing(url: &str, other: Transaction<'static, Postgres>) -> Result<RunReport> {
    let met = Arc::new(Notify::new());
    let seen = Arc::clone(&met);
    let mut job = Job::new(1000)?.observed(move |event| {
        if matches!(event, RunEvent::BatchEnded { .. }) {
            seen.notify_one();
        }
    });
    // Held rows are tried once more after this, which is ample time for a commit.
    job.limits.lock_timeout = Duration::from_secs(2);
    let commit = async {
        met.notified().await;
        other.commit().await
    };
    let (report, committed) = tokio::join!(job.run(url), commit);
    committed?;
    report
}

#[tokio::test]
async fn rows_that_somebody_else_deletes_meanwhile_are_not_skipped() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::singles(1, 100)).await?;
    let delete = "DELETE FROM identity.refresh_sessions WHERE id = lpad(to_hex(10), 32, '0')::uuid";
    let other = held(rows.pool(), delete).await?;
    let report = run_while_committing(database.url(), other).await?;
    assert_eq!((report.stop_reason(), report.policies[1].skipped), (StopReason::Drained, 0));
    assert_eq!((report.deleted("refresh"), rows.count_sessions().await?), (99, 0));
    Ok(())
}

#[tokio::test]
async fn a_child_born_meanwhile_saves_its_parent_and_costs_nothing_else() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::singles(1, 100)).await?;
    let other = held(rows.pool(), &insert_child(10, 1000)).await?;
    let report = run_while_committing(database.url(), other).await?;
    let refresh = &report.policies[1];
    assert_eq!(
        (refresh.stop_reason, refresh.skipped, refresh.error.as_deref()),
        (StopReason::Drained, 0, None)
    );
    assert_eq!((refresh.deleted, refresh.backlog.unwrap().blocked), (99, 1));
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), [10, 1000]);
    Ok(())
}

#[tokio::test]
async fn a_row_that_comes_alive_meanwhile_stays() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 10)).await?;
    let revive =
        "UPDATE identity.refresh_sessions SET status = 'Active' WHERE id = lpad(to_hex(10), 32, '0')::uuid";
    let other = held(rows.pool(), revive).await?;
    let report = run_while_committing(database.url(), other).await?;
    assert_eq!((report.stop_reason(), report.policies[1].error.as_deref()), (StopReason::Drained, None));
    assert_eq!((report.deleted("refresh"), report.policies[1].backlog.unwrap().blocked), (90, 9));
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    Ok(())
}

#[rstest]
#[case::requests("sign_in_confirmation_requests", 0)]
#[case::sessions("refresh_sessions", 1)]
#[tokio::test]
async fn a_locked_table_fails_its_policy_in_bounded_time_and_the_other_is_drained(
    #[case] table: &str,
    #[case] policy: usize,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 100, 10)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 1000) AS n").await?;
    let lock = held(rows.pool(), &format!("LOCK TABLE identity.{table} IN ACCESS EXCLUSIVE MODE")).await?;
    let report = Job::new(100)?.run(database.url()).await?;
    assert_eq!(report.outcome(), Outcome::Failed);
    assert!(report.duration < Duration::from_secs(30), "{:?}", report.duration);
    let (locked, other) = (&report.policies[policy], &report.policies[1 - policy]);
    assert_eq!((locked.deleted, locked.stop_reason, locked.backlog), (0, StopReason::Error, None));
    let error = locked.error.as_deref().unwrap();
    assert!(error.contains(table) && error.contains("55P03"), "{error}");
    assert_eq!((other.deleted, other.stop_reason), (1000, StopReason::Drained));
    lock.rollback().await?;
    assert_eq!(Job::new(100)?.run(database.url()).await?.outcome(), Outcome::Completed);
    Ok(())
}

/// Executes statements on a connection of their own, and returns when they are committed.
fn execute_now(url: &str, statements: &str) -> Result<()> {
    std::thread::scope(|scope| {
        let execute = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
                let mut connection = PgConnection::connect(url).await?;
                sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await?;
                anyhow::Ok(())
            })
        });
        execute.join().unwrap()
    })
}

#[tokio::test]
async fn a_leaf_deleted_by_somebody_else_between_scan_and_batch_frees_its_ancestors_in_the_same_run()
-> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1, 10)).await?;
    let url = database.url().to_owned();
    let once = AtomicBool::new(true);
    let job = Job::new(1000)?.observed(move |event| {
        if matches!(event, RunEvent::BatchStarted { .. }) && once.swap(false, Ordering::SeqCst) {
            let leaf = "DELETE FROM identity.refresh_sessions WHERE id = lpad(to_hex(10), 32, '0')::uuid";
            execute_now(&url, leaf).unwrap();
        }
    });
    let report = job.run(database.url()).await?;
    assert_eq!(report.stop_reason(), StopReason::Drained);
    assert_eq!((report.deleted("refresh"), rows.count_sessions().await?), (9, 0));
    Ok(())
}

/// The sessions that are due by the database's clock.
pub(crate) async fn due_sessions(store: &PgRetentionStore) -> Result<Target> {
    let period = RetentionPeriod::from_days(90)?;
    let cutoff = Cutoff::before(store.now().await?, period)?;
    Ok(Target { policy: RetentionPolicy::refresh(period), cutoff })
}

/// A batch of all rows that are due, which reckons with nobody.
pub(crate) async fn batch_of_all(store: &PgRetentionStore, target: &Target) -> Result<BatchRequest> {
    let window = store.window(target, None, 10_000, LIMIT).await?;
    let rows = window.rows.iter().map(|row| row.address).collect();
    Ok(BatchRequest { job_run_id: RUN.to_owned(), rows, limit: LIMIT, contended: false })
}

#[tokio::test]
async fn every_row_of_a_chain_that_is_held_whole_is_told() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 20, 5)).await?;
    let holder = held(rows.pool(), &[1, 2, 3, 4, 5].map(lock_session).join(";")).await?;
    let report = Job::new(50)?.run(database.url()).await?;
    let refresh = &report.policies[1];
    assert_eq!((refresh.stop_reason, refresh.deleted, refresh.skipped), (StopReason::RowsHeld, 95, 5));
    drop(holder);
    Ok(())
}

/// Somebody rewrites the table, and commits while the window waits for it: a snapshot from before that would find nothing.
#[rstest]
#[case::of_sessions(RetentionPolicy::refresh, "refresh_sessions")]
#[case::of_requests(RetentionPolicy::sicr, "sign_in_confirmation_requests")]
#[tokio::test]
async fn a_window_that_waited_for_a_rewrite_of_its_table_finds_what_is_due(
    #[case] policy: fn(RetentionPeriod) -> RetentionPolicy,
    #[case] table: &str,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 10)).await?;
    rows.requests("SELECT n, 'Expired', interval '99 days' FROM generate_series(1, 100) AS n").await?;
    let mut job = Job::new(1)?;
    job.limits.lock_timeout = LIMIT;
    let store = job.store(database.url())?;
    let period = RetentionPeriod::from_days(30)?;
    let target = Target { policy: policy(period), cutoff: Cutoff::before(store.now().await?, period)? };
    let leaves = |target| store.leaves(target, None, 1000, LIMIT);
    let rewrite = format!("ALTER TABLE identity.{table} ALTER COLUMN status TYPE varchar(9)");
    for look_at_leaves in [false, true] {
        if look_at_leaves && target.policy.parent_column.is_none() {
            continue;
        }
        let holder = held(rows.pool(), &rewrite).await?;
        let committed = async {
            rows.wait_until(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())",
            )
            .await?;
            anyhow::Ok(holder.commit().await?)
        };
        let looked = async {
            if look_at_leaves {
                leaves(&target).await
            } else {
                store.window(&target, None, 1000, LIMIT).await
            }
        };
        let (window, committed) = tokio::join!(looked, committed);
        committed?;
        assert_eq!(window.unwrap().rows.len(), if look_at_leaves { 10 } else { 100 });
    }
    Ok(())
}

/// A batch that reckons with nobody may have to wait for a row.
#[rstest]
#[case::it_comes_alive("UPDATE identity.refresh_sessions SET status = 'Active'", false)]
#[case::it_becomes_young("UPDATE identity.refresh_sessions SET updated_at = now()", false)]
#[case::it_was_only_held("SELECT FROM identity.refresh_sessions FOR UPDATE", true)]
#[tokio::test]
async fn what_becomes_of_a_row_while_its_batch_waits_decides(
    #[case] meanwhile: &str,
    #[case] goes: bool,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.session(1, None, "Revoked", 100).await?;
    let store = Job::new(1)?.store(database.url())?.patient(LIMIT);
    let target = due_sessions(&store).await?;
    let request = batch_of_all(&store, &target).await?;
    let holder = held(rows.pool(), meanwhile).await?;
    let committed = async {
        rows.wait_until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())",
        )
        .await?;
        anyhow::Ok(holder.commit().await?)
    };
    let (done, committed) = tokio::join!(store.delete_batch(&target, &request), committed);
    committed?;
    match done {
        Ok(done) => assert_eq!((goes, done.deleted), (true, 1)),
        Err(failure) => assert_eq!((goes, failure.kind), (false, FailureKind::Row), "{failure}"),
    }
    assert_eq!(rows.count_sessions().await?, u64::from(!goes));
    Ok(())
}

#[tokio::test]
async fn a_table_locked_for_a_moment_costs_time_and_no_row_is_to_blame() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 10)).await?;
    // As for an index that is built: it reads and locks rows with others, but nobody deletes.
    let lock = held(rows.pool(), "LOCK TABLE identity.refresh_sessions IN SHARE MODE").await?;
    let (failed, seen) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let observed = Arc::clone(&failed);
    let mut job = Job::new(100)?.observed(move |event| {
        if matches!(event, RunEvent::AttemptFailed { .. }) && !seen.swap(true, Ordering::SeqCst) {
            observed.notify_one();
        }
    });
    job.limits.lock_timeout = Duration::from_millis(200);
    let released = async {
        failed.notified().await;
        anyhow::Ok(lock.rollback().await?)
    };
    let (report, released) = tokio::join!(job.run(database.url()), released);
    released?;
    let (report, refresh) = (report.as_ref().unwrap(), &report.as_ref().unwrap().policies[1]);
    assert_eq!((report.outcome(), refresh.deleted, refresh.failed_rows), (Outcome::Completed, 100, 0));
    assert_eq!(refresh.batches, 1, "no row was looked for that might be to blame");
    Ok(())
}
