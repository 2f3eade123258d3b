//! Chains, forks, stars and cycles of every proportion: each drains in one run, to the row, within the bound of its
//! batches.
//!
//! Ten times these sizes are the load test's business (`cargo xtask bench`).

use std::collections::BTreeSet;

use anyhow::Result;
use harness::{Job, Rows, TestDatabase, Watch, reference, shape};
use retention_domain::{Outcome, RunReport};
use rstest::rstest;

/// One run over what is there: everything the reference says goes, and nothing else, in batches within their bound.
async fn drains(database: &TestDatabase, rows: &Rows, batch_size: u32) -> Result<RunReport> {
    drains_by(&Job::new(batch_size)?, database, rows).await
}

async fn drains_by(job: &Job, database: &TestDatabase, rows: &Rows) -> Result<RunReport> {
    let batch_size = u64::from(job.limits.batch_size);
    let before = rows.all_sessions().await?;
    let watch = Watch::over(rows).await?;
    let preview = job.preview(database.url()).await?.pop().unwrap();
    let report = job.run(database.url()).await?;
    let expected = reference::sessions(&before, report.started_at);
    let (goes, blocked) = (expected.goes.len() as u64, expected.blocked.len() as u64);
    assert_eq!((preview.due, preview.deletable, preview.blocked), (goes + blocked, goes, blocked));
    assert_eq!(preview.oldest, expected.goes.union(&expected.blocked).filter_map(|n| before[n].age).min());
    let left: BTreeSet<u64> = rows.all_sessions().await?.into_keys().collect();
    let stays: BTreeSet<u64> = before.keys().copied().filter(|n| !expected.goes.contains(n)).collect();
    assert_eq!(left, stays);
    let refresh = &report.policies[1];
    assert_eq!((report.outcome(), refresh.error.as_deref()), (Outcome::Completed, None));
    assert_eq!(refresh.deleted, goes);
    let backlog = refresh.backlog.unwrap();
    assert_eq!((backlog.pending, backlog.blocked), (0, blocked));
    let oldest = expected.blocked.iter().filter_map(|n| before[n].age).min();
    assert_eq!(backlog.oldest(), oldest);

    assert_eq!(watch.deleted().await?, refresh.deleted);
    assert_eq!(watch.statements().await?, refresh.batches);
    assert!(watch.largest_statement().await? <= batch_size);
    assert!(watch.largest_transaction().await? <= batch_size);
    let again = job.run(database.url()).await?;
    assert_eq!((again.deleted("refresh"), again.outcome()), (0, Outcome::Completed));
    assert_eq!(again.policies[1].backlog.unwrap(), backlog);
    Ok(report)
}

/// The batches are at most twice as many as full ones would be: a deep chain goes thousands of rows at a time.
fn few_batches(report: &RunReport, batch_size: u64) {
    let refresh = &report.policies[1];
    let full = refresh.deleted.div_ceil(batch_size);
    assert!(refresh.batches <= 2 * full + 8, "{} batches where {full} could do", refresh.batches);
}

#[rstest]
#[case::one_chain_of_8640(shape::chains(1, 1, 8640), 5000)]
#[case::one_chain_of_8640_in_small_batches(shape::chains(1, 1, 8640), 500)]
#[case::a_hundred_chains_of_1000(shape::chains(1, 100, 1000), 5000)]
#[case::ten_thousand_chains_of_10(shape::chains(1, 10_000, 10), 5000)]
#[case::ten_thousand_trees_of_7(shape::trees(1, 10_000), 5000)]
#[case::a_binary_tree_of_14_levels(shape::binary_tree(14), 1000)]
#[case::a_parent_of_20_000(shape::star(1, 20_000), 1000)]
#[tokio::test]
async fn drains_in_one_run_and_a_second_deletes_0(
    #[case] shape: String,
    #[case] batch_size: u32,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape).await?;
    let report = drains(&database, &rows, batch_size).await?;
    assert_eq!(rows.count_sessions().await?, 0);
    few_batches(&report, u64::from(batch_size));
    Ok(())
}

#[rstest]
#[case::one_row_at_a_time(1)]
#[case::two_rows_at_a_time(2)]
#[case::not_a_divisor_of_the_depth(7)]
#[tokio::test]
async fn the_smallest_batches_and_windows_drain_every_shape(
    #[case] batch_size: u32,
    #[values(1, 5, 1000)] window_rows: usize,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::binary_tree(5)).await?;
    rows.sessions(shape::chains(1000, 2, 15)).await?;
    rows.sessions(shape::star(2000, 15)).await?;
    rows.sessions(shape::trees(3000, 3)).await?;
    let mut job = Job::new(batch_size)?;
    job.limits.window_rows = window_rows;
    drains_by(&job, &database, &rows).await?;
    assert_eq!(rows.count_sessions().await?, 0);
    Ok(())
}

/// Somebody revoked everything at once: only addresses tell the rows of a window from those beyond it.
#[rstest]
#[tokio::test]
async fn chains_whose_rows_are_all_of_one_age_drain_over_windows_of_any_size(
    #[values(1, 7, 50, 1000)] window_rows: usize,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(
        "SELECT n, CASE WHEN n % 10 > 0 THEN n - 1 END, CASE WHEN n % 40 = 39 THEN 'Active' ELSE 'Revoked' END, \
         interval '100 days' FROM generate_series(0, 199) AS n ORDER BY random()",
    )
    .await?;
    let mut job = Job::new(20)?;
    job.limits.window_rows = window_rows;
    let report = drains_by(&job, &database, &rows).await?;
    assert_eq!((report.deleted("refresh"), report.policies[1].backlog.unwrap().blocked), (150, 45));
    Ok(())
}

#[tokio::test]
async fn a_living_fork_in_the_middle_of_a_long_chain_blocks_what_is_above_it_alone() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1, 4000)).await?;
    rows.session(10_000, Some(2000), "Rotated", 100).await?;
    rows.session(10_001, Some(10_000), "Active", 0).await?;
    let report = drains(&database, &rows, 1000).await?;
    assert_eq!((report.deleted("refresh"), report.policies[1].backlog.unwrap().blocked), (2000, 2001));
    Ok(())
}

/// In a window that holds all of it, and in small ones: then a sample shows that most of what is due need not be read.
#[rstest]
#[case::one_window(1_000_000)]
#[case::windows_of_leaves(700)]
#[tokio::test]
async fn blocked_roots_do_not_hold_up_what_is_free_behind_them(#[case] window_rows: usize) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    // Every signed-in user leaves a chain that is blocked to its root.
    rows.sessions(format!(
        "SELECT * FROM ({} UNION ALL {} UNION ALL \
         SELECT 100000 + chain, (chain + 1) * 10, 'Active', interval '1 day' FROM generate_series(0, 1999) AS chain \
         UNION ALL SELECT 200000 + n, NULL, 'Revoked', interval '91 days' FROM generate_series(1, 500) AS n) AS shape \
         ORDER BY random()",
        shape::chains(1, 2000, 10),
        shape::chains(300_000, 20, 50)
    ))
    .await?;
    let mut job = Job::new(500)?;
    job.policies.remove(0);
    job.limits.window_rows = window_rows;
    let report = job.run(database.url()).await?;
    let refresh = &report.policies[0];
    assert_eq!((refresh.deleted, refresh.backlog.unwrap().blocked), (1500, 20_000));
    assert_eq!(rows.count_sessions().await?, 22_000);
    assert!(refresh.batches <= 5, "{} batches", refresh.batches);
    assert_eq!(job.windows(), usize::from(window_rows == 1_000_000), "windows of all that is due");
    assert_eq!(job.run(database.url()).await?.policies[0].deleted, 0);
    Ok(())
}

#[rstest]
#[case::of_two("VALUES (1, 2), (2, 1), (3, 1), (4, 3)", &[1, 2])]
#[case::of_one("VALUES (1, 1), (2, 1), (3, NULL)", &[1])]
#[case::of_three_with_tails("VALUES (1, 2), (2, 3), (3, 1), (4, 1), (5, 4), (6, 2), (7, 3), (8, 7)", &[1, 2, 3])]
#[case::two_at_once("VALUES (1, 2), (2, 1), (5, 6), (6, 7), (7, 5), (8, NULL), (9, 8)", &[1, 2, 5, 6, 7])]
#[tokio::test]
async fn a_cycle_stays_as_blocked_and_what_hangs_below_it_goes(
    #[case] shape: &str,
    #[case] stays: &[u64],
    #[values(
        "interval '200 days'",
        "n * interval '100 days'",
        "interval '2000 days' - n * interval '1 day'"
    )]
    age: &str,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(format!("SELECT n, parent, 'Rotated', {age} FROM ({shape}) AS pairs (n, parent)")).await?;
    drains(&database, &rows, 2).await?;
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), stays);
    Ok(())
}

#[tokio::test]
async fn a_cycle_with_a_living_row_blocks_its_due_rows_once() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(
        "VALUES (1, 2, 'Rotated', interval '100 days'), (2, 3, 'Active', interval '100 days'), \
                   (3, 1, 'Revoked', interval '100 days'), (4, 3, 'Revoked', interval '1 day'), \
                   (5, 1, 'Expired', interval '100 days')",
    )
    .await?;
    let report = drains(&database, &rows, 10).await?;
    assert_eq!((report.deleted("refresh"), report.policies[1].backlog.unwrap().blocked), (1, 2));
    Ok(())
}

#[tokio::test]
async fn rows_of_one_instant_drain_in_windows_and_batches_of_any_size() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions("SELECT n, CASE WHEN n % 5 > 0 THEN n - 1 END, 'Expired', interval '100 days' FROM generate_series(0, 4999) AS n")
        .await?;
    drains(&database, &rows, 333).await?;
    assert_eq!(rows.count_sessions().await?, 0);
    Ok(())
}
