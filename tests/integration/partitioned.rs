//! Partitioned tables: a row's partition is part of its address. The layout is the one `pg_partman` makes: ranges of the age
//! column, `_pYYYYMMDD`, and a default partition; here one partition is divided again, and one lives in another schema.

use std::time::Duration;

use anyhow::Result;
use harness::{Job, Role, TestDatabase};
use retention_domain::guard::Condition;
use retention_domain::period::parse_duration;
use retention_domain::plan::targets;
use retention_domain::policy::Disposition;
use retention_domain::ports::{RetentionStore, RunEvent};
use retention_domain::{PolicyReport, RetentionPeriod, RetentionPolicy, RunReport, StopReason, TableName};
use retention_postgres::{Finding, Level};
use rstest::rstest;
use sqlx::{AssertSqlSafe, PgPool};

use crate::dispositions::{execute, number};

/// Twenty days of a hundred rows each, all at the same addresses within their partitions; every tenth row is kept.
const EVENTS: &str = "CREATE SCHEMA log; CREATE SCHEMA cold; \
    CREATE TABLE log.events (id bigint NOT NULL, kind text NOT NULL, at timestamptz NOT NULL) PARTITION BY RANGE (at); \
    CREATE TABLE log.events_default PARTITION OF log.events DEFAULT; \
    DO $$ DECLARE day timestamptz; BEGIN FOR n IN 1..20 LOOP \
      day := date_trunc('minute', now()) - make_interval(days => n); \
      EXECUTE format('CREATE TABLE %I.%I PARTITION OF log.events FOR VALUES FROM (%L) TO (%L) %s', \
        CASE n WHEN 12 THEN 'cold' ELSE 'log' END, 'events_p' || to_char(day, 'YYYYMMDD'), day, day + interval '1 day', \
        CASE n WHEN 15 THEN 'PARTITION BY LIST (kind)' END); \
      IF n = 15 THEN \
        EXECUTE format('CREATE TABLE log.fifteenth_a PARTITION OF log.%I FOR VALUES IN (''event'')', 'events_p' || to_char(day, 'YYYYMMDD')); \
        EXECUTE format('CREATE TABLE log.fifteenth_b PARTITION OF log.%I DEFAULT', 'events_p' || to_char(day, 'YYYYMMDD')); \
      END IF; \
      INSERT INTO log.events SELECT n * 1000 + k, CASE WHEN k % 10 = 0 THEN 'kept' ELSE 'event' END, day + make_interval(secs => k) \
        FROM generate_series(1, 100) AS k; \
    END LOOP; END $$; \
    INSERT INTO log.events SELECT 90000 + k, 'event', now() - interval '1 year' FROM generate_series(1, 50) AS k";

/// What must stay: the days before the ninth, and what is kept.
const STAYS: &str = "SELECT count(*) FROM log.events WHERE id < 9000 OR kind = 'kept'";

async fn events() -> Result<(TestDatabase, PgPool)> {
    let database = TestDatabase::migrated().await?;
    let pool = database.connect().await?;
    execute(&pool, EVENTS).await?;
    Ok((database, pool))
}

fn policy() -> Result<RetentionPolicy> {
    Ok(RetentionPolicy {
        table: TableName::new("log", "events"),
        key: Vec::new(),
        age_column: "at".to_owned(),
        conditions: vec![Condition::is_in("kind", ["event"])],
        ..RetentionPolicy::sicr(RetentionPeriod::new(parse_duration("8d 23h 50m")?)?)
    })
}

/// One run in batches of 70, over pages of 333 rows, so that both cut across partitions.
fn job(policy: RetentionPolicy) -> Result<Job> {
    let mut job = Job::new(70)?;
    job.limits.window_rows = 333;
    job.policies = vec![policy];
    Ok(job)
}

fn only(mut report: RunReport) -> PolicyReport {
    report.policies.remove(0)
}

#[tokio::test]
async fn exactly_the_due_rows_of_every_partition_go() -> Result<()> {
    let (database, pool) = events().await?;
    let due = 12 * 90 + 50;
    let preview = job(policy()?)?.preview(database.url()).await?;
    assert_eq!((preview[0].due, preview[0].deletable), (due, due));
    let report = only(job(policy()?)?.run(database.url()).await?);
    assert_eq!((report.deleted, report.failed_rows, report.error), (due, 0, None));
    assert_eq!(report.stop_reason, StopReason::Drained);
    assert_eq!(report.backlog.map(|left| left.total()), Some(0));
    let left = number(&pool, "SELECT count(*) FROM log.events").await?;
    assert_eq!((left, number(&pool, STAYS).await?), (8 * 100 + 12 * 10, left));
    Ok(())
}

#[tokio::test]
async fn several_connections_and_an_archive_take_each_row_once() -> Result<()> {
    let (database, pool) = events().await?;
    execute(&pool, "CREATE TABLE log.events_archive (LIKE log.events INCLUDING ALL)").await?;
    let archive = TableName::new("log", "events_archive");
    let mut job = job(RetentionPolicy { disposition: Disposition::Archive(archive), ..policy()? })?;
    job.limits.concurrency = 4;
    let report = only(job.run(database.url()).await?);
    assert_eq!((report.deleted, report.error), (12 * 90 + 50, None));
    assert_eq!(number(&pool, "SELECT count(DISTINCT id) FROM log.events_archive").await?, 12 * 90 + 50);
    assert_eq!(number(&pool, "SELECT count(*) FROM log.events").await?, 8 * 100 + 12 * 10);
    Ok(())
}

/// Between window and batch, rows move to other partitions, and a partition goes or changes places with another.
#[rstest]
#[case::rows_become_young("UPDATE log.events SET at = now() WHERE id IN (11001, 12002, 90003)", 3)]
#[case::rows_become_kept("UPDATE log.events SET kind = 'kept' WHERE id % 1000 = 7 AND id > 9000", 13)]
#[case::a_partition_is_dropped("DROP TABLE IF EXISTS log.fifteenth_a", 90)]
#[case::a_partition_is_detached("ALTER TABLE log.events_DAY15 DETACH PARTITION log.fifteenth_a", 90)]
#[case::a_partition_changes_its_name(
    "DROP TABLE IF EXISTS log.other; ALTER TABLE log.fifteenth_a RENAME TO other",
    0
)]
#[case::another_table_takes_its_name(
    "DROP TABLE IF EXISTS log.other; ALTER TABLE log.fifteenth_a RENAME TO other; \
     CREATE TABLE log.fifteenth_a (LIKE log.events); INSERT INTO log.fifteenth_a SELECT * FROM log.other",
    0
)]
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_after_the_window_was_read_is_seen_at_the_delete(
    #[case] change: &'static str,
    #[case] spared: u64,
) -> Result<()> {
    let (database, pool) = events().await?;
    let fifteenth: String = sqlx::query_scalar(
        "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = 'log.fifteenth_a'::regclass",
    )
    .fetch_one(&pool)
    .await?;
    let change = change.replace("log.events_DAY15", &fifteenth);
    let (changing, changed) = (pool.clone(), change.clone());
    let once = std::sync::Once::new();
    let job = job(policy()?)?.observed(move |event| {
        if matches!(event, RunEvent::BatchStarted { .. }) {
            once.call_once(|| {
                tokio::task::block_in_place(|| {
                    let done = tokio::runtime::Handle::current().block_on(execute(&changing, &changed));
                    assert!(done.is_ok(), "{done:?}");
                });
            });
        }
    });
    let report = only(job.run(database.url()).await?);
    assert_eq!((report.deleted, report.failed_rows, report.error), (12 * 90 + 50 - spared, 0, None));
    assert_eq!(number(&pool, "SELECT count(*) FROM log.events WHERE id < 9000").await?, 800);
    if change.contains("CREATE TABLE") {
        assert_eq!(
            number(&pool, "SELECT count(*) FROM log.fifteenth_a").await?,
            90,
            "no partition, so not ours"
        );
    }
    Ok(())
}

#[rstest]
#[case::no_right_on_a_partition(
    "REVOKE DELETE ON cold.{TWELFTH} FROM {ROLE}",
    "lacks DELETE on partition cold.events_p"
)]
#[case::a_statement_trigger(
    "CREATE FUNCTION log.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
     CREATE TRIGGER audit AFTER DELETE ON log.events FOR EACH STATEMENT EXECUTE FUNCTION log.f()",
    "statement trigger on DELETE, which would not fire"
)]
#[case::row_security_of_a_partition(
    "ALTER TABLE cold.{TWELFTH} ENABLE ROW LEVEL SECURITY",
    "row security of partition cold.events_p"
)]
#[case::a_key_of_a_partition_that_spreads(
    "ALTER TABLE log.fifteenth_a ADD UNIQUE (id); \
     ALTER TABLE cold.{TWELFTH} ADD FOREIGN KEY (id) REFERENCES log.fifteenth_a (id) ON DELETE CASCADE NOT VALID",
    "directly or by way of other tables"
)]
#[case::row_security(
    "ALTER TABLE log.events ENABLE ROW LEVEL SECURITY",
    "row security of a partitioned table"
)]
#[tokio::test]
async fn what_would_fail_in_a_partition_is_refused_before_anything_goes(
    #[case] defect: &str,
    #[case] reason: &str,
) -> Result<()> {
    let (database, pool) = events().await?;
    let role = Role::create(&database, "").await?;
    execute(
        &pool,
        &format!(
            "GRANT USAGE ON SCHEMA log, cold TO {0}; \
             GRANT SELECT, DELETE, UPDATE ON ALL TABLES IN SCHEMA log, cold TO {0}",
            role.name()
        ),
    )
    .await?;
    let twelfth: String = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'cold'::regnamespace AND relkind = 'r'",
    )
    .fetch_one(&pool)
    .await?;
    execute(&pool, &defect.replace("{TWELFTH}", &twelfth).replace("{ROLE}", role.name())).await?;
    let report = only(job(policy()?)?.run(role.url()).await?);
    assert_eq!((report.deleted, report.stop_reason), (0, StopReason::Error));
    let error = report.error.unwrap();
    assert!(error.contains(reason), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_partitioned_table_that_refers_to_itself_is_refused() -> Result<()> {
    let (database, _pool) = events().await?;
    let policy =
        RetentionPolicy { key: vec!["id".to_owned()], parent_column: Some("id".to_owned()), ..policy()? };
    let report = only(job(policy)?.run(database.url()).await?);
    assert_eq!((report.deleted, report.stop_reason), (0, StopReason::Error));
    assert!(report.error.unwrap().contains("partitioned and refers to itself"));
    Ok(())
}

#[tokio::test]
async fn partitions_that_could_be_dropped_are_named_with_the_statements() -> Result<()> {
    let (database, pool) = events().await?;
    let day = |n: u32| {
        format!("events_p' || to_char(date_trunc('minute', now()) - interval '{n} days', 'YYYYMMDD'")
    };
    let unconditional = RetentionPolicy { conditions: Vec::new(), ..policy()? };
    let job = job(unconditional.clone())?;
    let store = job.store(database.url())?;
    let limit = Duration::from_secs(30);
    let found = async |policy: RetentionPolicy| -> Result<Vec<Finding>> {
        let target = targets(&[policy], store.now().await?)?.remove(0);
        Ok(store.preflight(&target, limit).await?)
    };
    let findings = found(unconditional.clone()).await?;
    let whole = findings.iter().find(|finding| finding.id == "whole-partitions").unwrap();
    assert_eq!(whole.level, Level::Warning);
    let drops = whole.advice.clone().unwrap();
    // The ninth day began before the cutoff and ended after it.
    assert_eq!(drops.matches("DROP TABLE").count(), 11, "{drops}");
    for (n, named) in [(20, true), (12, true), (10, true), (9, false), (1, false)] {
        let name: String =
            sqlx::query_scalar(AssertSqlSafe(format!("SELECT '{})", day(n)))).fetch_one(&pool).await?;
        assert_eq!(drops.contains(&name), named, "{n}: {name} in {drops}");
    }
    assert!(!drops.contains("events_default"), "{drops}");
    execute(&pool, &drops).await?;
    let report = only(job.run(database.url()).await?);
    assert_eq!((report.deleted, report.error), (100 + 50, None));

    let conditional = found(policy()?).await?;
    assert!(
        conditional.iter().all(|finding| finding.id != "whole-partitions"),
        "a condition may keep rows of it"
    );
    assert!(conditional.iter().any(|finding| finding.id == "partitions" && finding.level == Level::Ok));
    store.database().close().await;
    Ok(())
}
