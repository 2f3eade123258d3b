//! As many connections as the contract says, and what happens when there are fewer.

use std::time::Instant;

use harness::Role;
use rstest::rstest;

use super::*;

#[rstest]
#[case(1)]
#[case(2)]
#[case(8)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_more_than_delete_at_once_is_enough(#[case] concurrency: usize) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 2000).await?;
    rows.sessions(harness::shape::chains(1, 200, 10)).await?;
    let role = Role::worker(&database).await?;
    rows.execute(format!("ALTER ROLE {} CONNECTION LIMIT {}", role.name(), concurrency + 1)).await?;
    let failures = Failures::default();
    let noted = failures.clone();
    let mut job = Job::new(100)?.observed(move |event| noted.note(event));
    job.limits.concurrency = concurrency;
    let began = Instant::now();
    let report = job.run(role.url()).await?;
    assert_drained(&report);
    assert_eq!((deleted(&report), left(&rows).await?), (4000, 0));
    assert_eq!(failures.all(), [""; 0]);
    assert!(began.elapsed() < SOON, "nothing waits for a connection: {:?}", began.elapsed());
    nobody_in_a_transaction(&rows).await
}

#[tokio::test]
async fn too_many_connections_refuse_the_run_in_time_and_the_next_one_works() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    due_requests(&rows, 100).await?;
    let role = Role::worker(&database).await?;
    rows.execute(format!("ALTER ROLE {} CONNECTION LIMIT 2", role.name())).await?;
    let first = PgConnection::connect(role.url()).await?;
    let second = PgConnection::connect(role.url()).await?;
    let job = Job::new(10)?;
    let store = job.store(role.url())?;
    let began = Instant::now();
    let error = job.run_on(&store).await.unwrap_err().to_string();
    assert!(error.starts_with("no usable database") && error.contains("53300"), "{error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(left(&rows).await?, 100);

    // Places that come free while a run waits for one are taken; it need not fail first.
    let freed = async {
        rows.wait_until("SELECT true").await?;
        first.close().await?;
        second.close().await?;
        anyhow::Ok(())
    };
    let (report, freed) = tokio::join!(job.run_on(&store), freed);
    freed?;
    assert_drained(&report?);
    assert_eq!(left(&rows).await?, 0);
    nobody_in_a_transaction(&rows).await
}
