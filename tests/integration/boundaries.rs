//! On the line: instants, missing and infinite dates, unknown statuses, column types, time zones and names.

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use harness::{Job, Role, Rows, TestDatabase};
use retention_domain::{Outcome, RunReport, StopReason};
use rstest::rstest;

/// The clock of the runs below: nothing about it is round.
fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 123_456_000).unwrap()
}

async fn run_at_now(url: &str) -> Result<RunReport> {
    let mut job = Job::new(1000)?;
    job.now = Some(now());
    job.run(url).await
}

/// One row per offset from the cutoff in microseconds, in both tables.
async fn on_the_line(rows: &Rows, offsets: &[i64]) -> Result<()> {
    for (n, offset) in (1..).zip(offsets) {
        let at = |days| (now() - TimeDelta::days(days) + TimeDelta::microseconds(*offset)).to_rfc3339();
        rows.session(n, None, "Rotated", 0).await?;
        rows.request(n, "Expired", 0).await?;
        rows.execute(format!(
            "UPDATE identity.refresh_sessions SET updated_at = '{}' WHERE id = lpad(to_hex({n}), 32, '0')::uuid; \
             UPDATE identity.sign_in_confirmation_requests SET created_at = '{}' WHERE id = lpad(to_hex({n}), 32, '0')::uuid",
            at(90),
            at(30)
        ))
        .await?;
    }
    Ok(())
}

async fn left(rows: &Rows) -> Result<(Vec<u64>, Vec<u64>)> {
    Ok((rows.all_requests().await?.into_keys().collect(), rows.all_sessions().await?.into_keys().collect()))
}

#[tokio::test]
async fn a_microsecond_before_the_cutoff_goes_the_cutoff_itself_stays() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    on_the_line(&rows, &[-1, 0, 1]).await?;
    let report = run_at_now(database.url()).await?;
    assert_eq!((report.outcome(), report.started_at), (Outcome::Completed, now()));
    assert_eq!(left(&rows).await?, (vec![2, 3], vec![2, 3]));
    Ok(())
}

#[rstest]
#[case("America/New_York")]
#[case("UTC")]
#[case("Asia/Tokyo")]
#[case("Asia/Kolkata")]
#[tokio::test]
async fn the_same_rows_go_in_every_time_zone(#[case] zone: &str) -> Result<()> {
    const HOUR: i64 = 3_600_000_000;
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    on_the_line(&rows, &[-12 * HOUR, -4 * HOUR, -1, 0, 4 * HOUR, 12 * HOUR]).await?;
    let role = Role::worker(&database).await?;
    let (name, role_name) = (database.name(), role.name());
    rows.execute(format!(
        "ALTER DATABASE {name} SET timezone = '{zone}'; ALTER ROLE {role_name} SET timezone = '{zone}'; \
         ALTER ROLE {role_name} SET datestyle = 'German'"
    ))
    .await?;
    run_at_now(role.url()).await?;
    assert_eq!(left(&rows).await?, (vec![4, 5, 6], vec![4, 5, 6]));
    Ok(())
}

#[tokio::test]
async fn undated_and_infinitely_dated_rows_stay_and_block_their_ancestors() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.execute(
        "ALTER TABLE identity.refresh_sessions ALTER updated_at DROP NOT NULL; \
         ALTER TABLE identity.sign_in_confirmation_requests ALTER created_at DROP NOT NULL",
    )
    .await?;
    for (n, date) in
        (1..).zip(["NULL", "'infinity'", "'-infinity'", "'epoch'", "'4000-01-01 BC'", "'9999-01-01'"])
    {
        rows.session(10 + n, None, "Rotated", 200).await?;
        rows.session(n, Some(10 + n), "Rotated", 0).await?;
        rows.request(n, "Expired", 0).await?;
        rows.execute(format!(
            "UPDATE identity.refresh_sessions SET updated_at = {date} WHERE id = lpad(to_hex({n}), 32, '0')::uuid; \
             UPDATE identity.sign_in_confirmation_requests SET created_at = {date} WHERE id = lpad(to_hex({n}), 32, '0')::uuid"
        ))
        .await?;
    }
    let preview = Job::new(10)?.preview(database.url()).await?;
    assert_eq!((preview[0].due, preview[0].undated), (2, 3));
    assert_eq!((preview[1].due, preview[1].undated, preview[1].blocked), (8, 3, 4));
    let report = Job::new(10)?.run(database.url()).await?;
    assert_eq!(report.outcome(), Outcome::Completed, "{report:?}");
    let ids = "SELECT array_agg(('x' || right(id::text, 8))::bit(32)::int ORDER BY id)";
    for (table, stay) in [
        ("sign_in_confirmation_requests", vec![1, 2, 3, 6]),
        ("refresh_sessions", vec![1, 2, 3, 6, 11, 12, 13, 16]),
    ] {
        let left: Vec<i32> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("{ids} FROM identity.{table}")))
            .fetch_one(rows.pool())
            .await?;
        assert_eq!(left, stay, "{table}");
    }
    Ok(())
}

/// Also a NULL where the real installation should have none.
async fn every_status(rows: &Rows) -> Result<()> {
    for (n, status) in (1..).zip(["Rotated", "Revoked", "Expired", "Active"]) {
        rows.session(n, None, status, 200).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_unknown_status_stays_whatever_its_spelling() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    every_status(&rows).await?;
    rows.execute("ALTER TABLE identity.refresh_sessions ALTER status DROP NOT NULL").await?;
    for (n, status) in (10..).zip(["rotated", "ROTATED", " Rotated", "Rotated ", "", "Compromised", "Супер"])
    {
        rows.session(n, None, status, 200).await?;
    }
    rows.sessions("VALUES (17, NULL, NULL::text, interval '200 days')").await?;
    let preview = Job::new(10)?.preview(database.url()).await?;
    assert_eq!((preview[1].due, preview[1].unknown_status), (3, 8));
    let report = Job::new(10)?.run(database.url()).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 3));
    assert_eq!(
        rows.number("SELECT count(*) FROM identity.refresh_sessions WHERE status = 'Active'").await?,
        1
    );
    assert_eq!(rows.count_sessions().await?, 9);
    Ok(())
}

const ENUM: &str = "CREATE TYPE identity.session_status AS ENUM";

#[rstest]
#[case::varchar("ALTER TABLE identity.refresh_sessions ALTER status TYPE varchar(16)".to_owned(), 3)]
#[case::padded("ALTER TABLE identity.refresh_sessions ALTER status TYPE character(10)".to_owned(), 3)]
#[case::domain("CREATE DOMAIN identity.word AS text; ALTER TABLE identity.refresh_sessions ALTER status TYPE identity.word".to_owned(), 3)]
#[case::an_enum(format!("{ENUM} ('Active', 'Rotated', 'Revoked', 'Expired'); ALTER TABLE identity.refresh_sessions \
    ALTER status TYPE identity.session_status USING status::identity.session_status"), 3)]
#[case::an_enum_that_lacks_a_label(format!("{ENUM} ('Active', 'Rotated', 'Expired'); \
    DELETE FROM identity.refresh_sessions WHERE status = 'Revoked'; ALTER TABLE identity.refresh_sessions \
    ALTER status TYPE identity.session_status USING status::identity.session_status"), 2)]
#[case::an_enum_with_a_label_more(format!("{ENUM} ('Active', 'Rotated', 'Revoked', 'Expired', 'Compromised'); \
    ALTER TABLE identity.refresh_sessions ALTER status TYPE identity.session_status \
    USING status::identity.session_status"), 3)]
#[tokio::test]
async fn the_status_may_be_of_any_textual_type(#[case] alter: String, #[case] goes: u64) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    every_status(&rows).await?;
    rows.execute(alter).await?;
    let report = Job::new(10)?.run(database.url()).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, goes), "{report:?}");
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), [4]);
    Ok(())
}

#[rstest]
#[case::without_a_zone("timestamp", "timestamp without time zone")]
#[case::a_date("date", "date")]
#[tokio::test]
async fn a_date_that_is_no_point_in_time_fails_its_policy_before_anything_goes(
    #[case] kind: &str,
    #[case] named: &str,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    every_status(&rows).await?;
    rows.request(1, "Expired", 40).await?;
    rows.execute(format!("ALTER TABLE identity.refresh_sessions ALTER updated_at TYPE {kind}")).await?;
    let report = Job::new(10)?.run(database.url()).await?;
    let [sicr, refresh] = &report.policies[..] else { panic!("two policies") };
    assert_eq!((sicr.deleted, refresh.deleted, refresh.stop_reason), (1, 0, StopReason::Error));
    let error = refresh.error.as_deref().unwrap();
    assert!(error.contains("updated_at") && error.contains(named), "{error}");
    assert_eq!(rows.count_sessions().await?, 4);
    Ok(())
}

#[tokio::test]
async fn tables_of_the_same_name_elsewhere_are_not_touched_whatever_the_search_path() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    every_status(&rows).await?;
    rows.request(1, "Expired", 40).await?;
    for table in ["refresh_sessions", "sign_in_confirmation_requests"] {
        rows.execute(format!("CREATE TABLE public.{table} AS SELECT * FROM identity.{table}")).await?;
    }
    let role = Role::worker(&database).await?;
    for path in ["''", "public", "public, identity", "\"$user\""] {
        rows.execute(format!("ALTER ROLE {} SET search_path = {path}", role.name())).await?;
        let report = Job::new(10)?.run(role.url()).await?;
        assert_eq!(report.outcome(), Outcome::Completed, "{path}: {report:?}");
        assert_eq!(left(&rows).await?, (vec![], vec![4]), "{path}");
        assert_eq!(rows.number("SELECT count(*) FROM public.refresh_sessions").await?, 4);
        assert_eq!(rows.number("SELECT count(*) FROM public.sign_in_confirmation_requests").await?, 1);
        every_status_again(&rows).await?;
    }
    Ok(())
}

/// What the last run has deleted, once more.
async fn every_status_again(rows: &Rows) -> Result<()> {
    rows.execute("INSERT INTO identity.refresh_sessions SELECT * FROM public.refresh_sessions ON CONFLICT DO NOTHING; \
                  INSERT INTO identity.sign_in_confirmation_requests SELECT * FROM public.sign_in_confirmation_requests")
        .await
}

/// A table that inherits from a policy's table has rows of its own, with parents and dates of its own.
#[tokio::test]
async fn tables_that_inherit_are_not_touched() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    every_status(&rows).await?;
    rows.execute(
        "CREATE TABLE identity.kept () INHERITS (identity.refresh_sessions); \
         INSERT INTO identity.kept SELECT * FROM identity.refresh_sessions",
    )
    .await?;
    let report = Job::new(10)?.run(database.url()).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 3));
    assert_eq!(rows.number("SELECT count(*) FROM identity.kept").await?, 4);
    Ok(())
}
