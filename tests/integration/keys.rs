//! Chains whose keys are of every kind: who is whose parent is known before the first batch, and each goes whole in one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use harness::{Job, TestDatabase};
use retention_domain::guard::Condition;
use retention_domain::ports::RunEvent;
use retention_domain::{RetentionPeriod, RetentionPolicy, StopReason, TableName};
use rstest::rstest;

use crate::dispositions::{execute, number};

const CHAINS: u64 = 40;

/// Chains of five old rows, parents older than their children. The rows after them, one for each chain of ten, are young and
/// refer to the youngest row of it.
///
/// `value`: the key of the row that is called `N`; `refers`: how it is written by a row that refers to it.
async fn chains(key: &str, value: &str, refers: &str) -> Result<TestDatabase> {
    let database = TestDatabase::migrated().await?;
    let pool = database.connect().await?;
    execute(
        &pool,
        &format!(
            "CREATE EXTENSION IF NOT EXISTS citext; \
             CREATE TABLE public.nodes (key {key} PRIMARY KEY, parent {key} REFERENCES public.nodes (key), \
               at timestamptz NOT NULL, kind text NOT NULL); \
             CREATE INDEX ON public.nodes (parent); \
             INSERT INTO public.nodes SELECT {own}, CASE WHEN n % 5 > 0 THEN {before} END, \
               now() - interval '200 days' + make_interval(secs => n), 'old' FROM generate_series(0, {last}) AS n; \
             INSERT INTO public.nodes SELECT {young}, {referred}, now(), 'old' FROM generate_series(4, {last}, 50) AS n",
            own = value.replace('N', "n"),
            referred = refers.replace('N', "n"),
            before = refers.replace('N', "(n - 1)"),
            young = value.replace('N', "(n + 10000)"),
            last = CHAINS * 5 - 1,
        ),
    )
    .await?;
    Ok(database)
}

/// One policy over those rows, in batches of sixty.
fn job() -> Result<Job> {
    let mut job = Job::new(60)?;
    job.policies = vec![RetentionPolicy {
        table: TableName::new("public", "nodes"),
        key: vec!["key".to_owned()],
        age_column: "at".to_owned(),
        conditions: vec![Condition::is_in("kind", ["old"])],
        known_values: Vec::new(),
        parent_column: Some("parent".to_owned()),
        ..RetentionPolicy::refresh(RetentionPeriod::from_days(90)?)
    }];
    Ok(job)
}

#[rstest]
#[case::whole_numbers("bigint", "N")]
#[case::texts("text", "'k' || N")]
#[case::padded("char(12)", "('k' || N)::char(12)")]
#[case::case_insensitive("citext", "('k' || N)::citext")]
#[case::bytes("bytea", "int4send(N::int)")]
#[case::decimals("numeric", "N + 0.5")]
#[case::addresses("inet", "'192.0.2.0'::inet + N")]
#[case::moments("timestamptz", "'epoch'::timestamptz + make_interval(mins => N)")]
#[case::money_which_has_no_hash("money", "N::money")]
#[case::bits_which_have_no_hash("bit(32)", "N::bit(32)")]
#[tokio::test]
async fn chains_go_whole_in_full_batches(#[case] key: &str, #[case] value: &str) -> Result<()> {
    let database = chains(key, value, value).await?;
    let pool = database.connect().await?;
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&sent);
    let job = job()?.observed(move |event| {
        seen.fetch_add(u64::from(matches!(event, RunEvent::BatchStarted { .. })), Ordering::SeqCst);
    });
    let report = job.run(database.url()).await?.policies.remove(0);
    let (blocked, goes) = (CHAINS / 10 * 5, CHAINS * 9 / 10 * 5);
    assert_eq!((report.stop_reason, report.error), (StopReason::Drained, None));
    assert_eq!((report.deleted, report.backlog.unwrap().blocked), (goes, blocked));
    assert_eq!(sent.load(Ordering::SeqCst), report.batches, "none of them was undone");
    assert_eq!(report.batches, goes / 60, "full batches");
    assert_eq!(
        number(&pool, "SELECT count(*) FROM public.nodes").await?,
        (blocked + CHAINS / 10).cast_signed()
    );
    Ok(())
}

/// The key is the same for PostgreSQL, and not for whoever only looks at its text: batches are tried in a wrong order.
#[rstest]
#[case::decimals("numeric", "N::numeric", "(N || '.00')::numeric")]
#[case::case_insensitive("citext", "('k' || N)::citext", "('K' || N)::citext")]
#[tokio::test]
async fn keys_that_are_written_differently_cost_time_and_nothing_else(
    #[case] key: &str,
    #[case] value: &str,
    #[case] refers: &str,
    #[values((60, 1_000_000), (3, 1_000_000), (3, 7), (60, 23))] sizes: (u32, usize),
) -> Result<()> {
    let database = chains(key, value, refers).await?;
    let mut job = job()?;
    (job.limits.batch_size, job.limits.window_rows) = sizes;
    let report = job.run(database.url()).await?.policies.remove(0);
    let (blocked, goes) = (CHAINS / 10 * 5, CHAINS * 9 / 10 * 5);
    assert_eq!((report.stop_reason, report.error), (StopReason::Drained, None));
    assert_eq!((report.deleted, report.backlog.unwrap().blocked), (goes, blocked));
    Ok(())
}
