//! The delivered handbook policies on the tables of the example service: exactly what each definition says goes, and
//! nothing else. What must go is said here once more, in SQL written by hand: nothing of the worker's statements or of the
//! file's conditions is used for it.

use std::collections::BTreeSet;

use anyhow::Result;
use chrono::{DateTime, Utc};
use harness::{Job, Role, TestDatabase};
use retention_domain::ports::RunEvent;
use retention_domain::{RetentionPolicy, StopReason};
use retention_worker::policy_file;
use rstest::rstest;
use sqlx::{AssertSqlSafe, PgPool};

pub(crate) const SCHEMA: &str = include_str!("../../deploy/policies/example-schema.sql");
const HANDBOOK: &str = include_str!("../../deploy/policies/handbook.toml");

/// What the database's clock is taken to show.
const NOW: &str = "2026-11-30T02:00:00Z";

/// Every table with ages around every period of the handbook (the limit itself, a microsecond to each side), ancient, to
/// come, infinite and missing; and each kind of row at each age.
const ROWS: &str = "\
    CREATE TEMPORARY TABLE ages AS \
      SELECT 'NOW'::timestamptz - make_interval(hours => hours) + side * interval '1 microsecond' AS at \
      FROM unnest(ARRAY[24, 72, 168, 720, 2160, 4320, 8760, 17520]) AS hours, generate_series(-1, 1) AS side \
      UNION ALL VALUES ('NOW'::timestamptz - interval '30 years'), ('NOW'::timestamptz + interval '1 day'), ('infinity'), ('-infinity'); \
    CREATE TEMPORARY TABLE actions AS SELECT unnest(ARRAY['login_success', 'login_failed', 'password_change', 'role_change', \
      'ban', 'unban', 'delete_requested', 'review_created', 'Ban', '', NULL]) AS action; \
    INSERT INTO review.outbox (topic, payload, created_at, offset_acked) \
      SELECT 't', '{}', at, acked FROM ages, unnest(ARRAY[NULL, 0, 7]) AS acked; \
    INSERT INTO review.sessions (user_id, token_hash, created_at) SELECT 1, '\\x00', at FROM ages; \
    INSERT INTO review.rate_limit_violations (client_hash, route, created_at) SELECT '\\x00', '/', at FROM ages; \
    INSERT INTO review.audit_log (action, created_at) \
      SELECT action, at FROM actions, (TABLE ages UNION ALL SELECT NULL) AS ages; \
    INSERT INTO review.idempotency_keys (key, created_at) SELECT row_number() OVER (), at FROM ages; \
    INSERT INTO review.failed_logins (login_hash, created_at) SELECT '\\x00', at FROM ages; \
    INSERT INTO review.upload_sessions (user_id, object_key, created_at, completed_at) \
      SELECT 1, 'k', at, done FROM ages, unnest(ARRAY[NULL, 'NOW'::timestamptz - interval '5 years']) AS done; \
    INSERT INTO review.webhook_deliveries (endpoint_id, status, created_at) SELECT 1, 200, at FROM ages; \
    INSERT INTO review.reviews (author_id, subject_id, body, created_at, deleted_at) \
      SELECT row_number() OVER (), 1, 'b', 'NOW'::timestamptz - interval '9 years', at FROM (TABLE ages UNION ALL SELECT NULL) AS ages; \
    INSERT INTO review.moderation_decisions (review_id, verdict, created_at) SELECT 1, 'kept', at FROM ages";

/// The tables, and what must go of each, in the words of the handbook.
const GOES: [(&str, &str); 10] = [
    ("outbox", "offset_acked IS NOT NULL AND OLDER(created_at, 168)"),
    ("sessions", "OLDER(created_at, 720)"),
    ("rate_limit_violations", "OLDER(created_at, 2160)"),
    (
        "audit_log",
        "CASE WHEN action = 'delete_requested' OR action IS NULL THEN FALSE \
         WHEN action ~ '^(login_(success|failed)|(password|role)_change|(un)?ban)$' THEN OLDER(created_at, 8760) \
         ELSE OLDER(created_at, 4320) END",
    ),
    ("idempotency_keys", "OLDER(created_at, 24)"),
    ("failed_logins", "OLDER(created_at, 720)"),
    ("upload_sessions", "completed_at IS NULL AND OLDER(created_at, 24)"),
    ("webhook_deliveries", "OLDER(created_at, 720)"),
    ("reviews", "OLDER(deleted_at, 2160)"),
    ("moderation_decisions", "OLDER(created_at, 17520)"),
];

fn policies() -> Result<Vec<RetentionPolicy>> {
    let declared = policy_file::parse("handbook.toml", HANDBOOK)?;
    Ok(declared.into_iter().map(|declared| declared.policy).collect())
}

fn job(batch_size: u32) -> Result<Job> {
    let mut job = Job::new(batch_size)?;
    job.policies = policies()?;
    job.now = Some(NOW.parse::<DateTime<Utc>>()?);
    Ok(job)
}

/// The example service, and nothing else: the built-in tables are not there.
async fn service() -> Result<(TestDatabase, PgPool)> {
    let database = TestDatabase::empty().await?;
    let pool = database.connect().await?;
    execute(&pool, SCHEMA).await?;
    execute(
        &pool,
        "CREATE FUNCTION older(at timestamptz, hours integer) RETURNS boolean LANGUAGE sql AS \
         $$ SELECT coalesce(isfinite(at) AND 'NOW'::timestamptz - at > make_interval(hours => hours), FALSE) $$",
    )
    .await?;
    execute(&pool, ROWS).await?;
    Ok((database, pool))
}

async fn execute(pool: &PgPool, statements: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statements.replace("NOW", NOW))).execute(pool).await?;
    Ok(())
}

/// Rows in full, as text.
async fn rows(pool: &PgPool, table: &str, which: &str) -> Result<BTreeSet<String>> {
    let query = AssertSqlSafe(format!("SELECT row::text FROM review.{table} AS row WHERE {which}"));
    Ok(sqlx::query_scalar::<_, String>(query).fetch_all(pool).await?.into_iter().collect())
}

async fn number(pool: &PgPool, query: &str) -> Result<i64> {
    Ok(sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(pool).await?)
}

#[rstest]
#[case::one_by_one(1, 1)]
#[case::in_batches(7, 3)]
#[tokio::test]
async fn of_every_table_exactly_what_the_handbook_says_goes(
    #[case] batch_size: u32,
    #[case] concurrency: usize,
) -> Result<()> {
    let (database, pool) = service().await?;
    let mut expected = Vec::new();
    for (table, goes) in GOES {
        let going = rows(&pool, table, goes).await?;
        let staying = rows(&pool, table, &format!("NOT ({goes})")).await?;
        assert!(going.len() > 1 && staying.len() > 2, "{table}: nothing would be seen");
        expected.push((table, going, staying));
    }
    let mut job = job(batch_size)?;
    job.limits.concurrency = concurrency;
    let previews = job.preview(database.url()).await?;
    let report = job.run(database.url()).await?;
    assert_eq!((report.policies.len(), report.stop_reason()), (11, StopReason::Drained), "{report:?}");
    for (table, going, staying) in &expected {
        assert_eq!(&rows(&pool, table, "TRUE").await?, staying, "{table}");
        let of_table = || report.policies.iter().zip(&previews).filter(|(of, _)| of.table.name == *table);
        let deleted: u64 = of_table().map(|(of, _)| of.deleted).sum();
        let planned: u64 = of_table().map(|(_, preview)| preview.deletable).sum();
        assert_eq!((deleted, planned), (going.len() as u64, going.len() as u64), "{table}");
    }
    let (_, moved, _) = &expected[9];
    assert_eq!(&rows(&pool, "moderation_decisions_archive", "TRUE").await?, moved);
    let again = job.run(database.url()).await?;
    assert!(again.policies.iter().all(|policy| policy.deleted == 0), "{again:?}");
    Ok(())
}

/// The promises that matter most, each by itself and far beyond every period.
#[tokio::test]
async fn neither_unacknowledged_events_nor_requests_for_deletion_ever_go() -> Result<()> {
    let (database, pool) = service().await?;
    let unacked = rows(&pool, "outbox", "offset_acked IS NULL").await?;
    let requests = rows(&pool, "audit_log", "action = 'delete_requested'").await?;
    let mut job = job(100)?;
    job.now = Some("2200-01-01T00:00:00Z".parse()?);
    let report = job.run(database.url()).await?;
    assert_eq!(report.stop_reason(), StopReason::Drained);
    assert!(unacked.len() > 20 && requests.len() > 20);
    assert_eq!(
        rows(&pool, "outbox", "isfinite(created_at)").await?,
        rows(&pool, "outbox", "isfinite(created_at) AND offset_acked IS NULL").await?
    );
    assert_eq!(rows(&pool, "outbox", "offset_acked IS NULL").await?, unacked);
    assert_eq!(rows(&pool, "audit_log", "action = 'delete_requested'").await?, requests);
    assert_eq!(
        number(&pool, "SELECT count(*) FROM review.audit_log WHERE isfinite(created_at) AND action <> 'delete_requested'").await?,
        0
    );
    Ok(())
}

/// Restored after its page was read and before its batch is sent: the delete itself asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_review_that_is_restored_before_its_batch_stays() -> Result<()> {
    let (database, pool) = service().await?;
    execute(
        &pool,
        "DELETE FROM review.reviews; INSERT INTO review.reviews (author_id, subject_id, body, deleted_at) \
         SELECT n, 1, 'b', 'NOW'::timestamptz - interval '100 days' FROM generate_series(1, 500) AS n",
    )
    .await?;
    let restore = pool.clone();
    let mut job = job(100)?.observed(move |event| {
        if let RunEvent::BatchStarted { policy, .. } = event
            && policy.table.name == "reviews"
        {
            let restoring =
                execute(&restore, "UPDATE review.reviews SET deleted_at = NULL WHERE author_id % 50 = 0");
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(restoring)).unwrap();
        }
    });
    job.policies.retain(|policy| policy.table.name == "reviews");
    let report = job.run(database.url()).await?;
    assert_eq!((report.policies[0].deleted, report.policies[0].failed_rows), (490, 0));
    assert_eq!(number(&pool, "SELECT count(*) FROM review.reviews WHERE deleted_at IS NULL").await?, 10);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.reviews").await?, 10);
    Ok(())
}

/// The archive's own retention is just another policy: the one the file proposes.
#[tokio::test]
async fn the_archive_s_own_end_is_just_another_policy() -> Result<()> {
    let (database, pool) = service().await?;
    let (start, proposed) = HANDBOOK.rsplit_once("#\n# [[policy]]\n").unwrap();
    let uncommented = format!("{start}\n[[policy]]\n{}", proposed.replace("# ", ""));
    let mut job = job(100)?;
    job.policies =
        policy_file::parse("x", &uncommented)?.into_iter().map(|declared| declared.policy).collect();
    let all = number(&pool, "SELECT count(*) FROM review.moderation_decisions").await?;
    for _ in 0..2 {
        job.run(database.url()).await?;
    }
    assert_eq!(number(&pool, "SELECT count(*) FROM review.moderation_decisions_archive").await?, 1);
    // Of the rows older than two years only the one of thirty years has passed through the archive.
    assert_eq!(number(&pool, "SELECT count(*) FROM review.moderation_decisions").await?, all - 2);
    Ok(())
}

/// What the example schema grants suffices, and lets the worker read no archive and change no row.
#[tokio::test]
async fn the_granted_rights_suffice() -> Result<()> {
    let (database, pool) = service().await?;
    let role = Role::create(&database, "").await?;
    let grants = SCHEMA.split_once("DO $$").unwrap().1.replace("session_retention", role.name());
    execute(&pool, &format!("DO $${grants}")).await?;
    let report = job(100)?.run(role.url()).await?;
    assert_eq!(report.stop_reason(), StopReason::Drained, "{report:?}");
    for refused in
        ["SELECT FROM review.moderation_decisions_archive", "UPDATE review.outbox SET offset_acked = 1"]
    {
        let mut as_role = pool.begin().await?;
        sqlx::query(AssertSqlSafe(format!("SET LOCAL ROLE {}", role.name()))).execute(&mut *as_role).await?;
        let error = sqlx::query(refused).execute(&mut *as_role).await.unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{error}");
    }
    Ok(())
}
