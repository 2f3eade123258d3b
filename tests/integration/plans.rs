//! How PostgreSQL executes the statements of a run: the plans of the real ones, with the real settings of their
//! transactions, as the server tells them through `auto_explain`.

use anyhow::{Context, Result};
use harness::{Job, Role, Rows, TestDatabase, Worker, shape};
use retention_domain::plan::targets;
use retention_domain::ports::RetentionStore;
use rstest::rstest;
use serde_json::Value;

use crate::held::{held, lock_session};

/// One executed statement.
struct Executed {
    sql: String,
    plan: String,
}

/// When the planner's statistics are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Analysed {
    Never,
    WhileEmpty,
    WhenFull,
}

impl Executed {
    /// Whether a node of the plan reads this table from end to end.
    fn scans(&self, table: &str) -> bool {
        self.plan.lines().any(|line| line.contains(&format!("Seq Scan on {table}")))
    }
}

/// 60,000 rows a table, of which a tenth is due: sessions in chains with and without a living end, trees, and alone.
async fn seeded(analysed: Analysed) -> Result<(TestDatabase, Rows)> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    for table in ["refresh_sessions", "sign_in_confirmation_requests"] {
        rows.execute(format!("ALTER TABLE identity.{table} SET (autovacuum_enabled = off)")).await?;
    }
    if analysed == Analysed::WhileEmpty {
        rows.execute("VACUUM ANALYZE identity.refresh_sessions").await?;
        rows.execute("VACUUM ANALYZE identity.sign_in_confirmation_requests").await?;
    }
    rows.sessions("SELECT n, CASE WHEN n % 10 > 0 THEN n - 1 END, CASE WHEN n % 10 < 9 THEN 'Rotated' ELSE 'Active' END, \
                   interval '20 days' - make_interval(secs => n) FROM generate_series(0, 53999) AS n ORDER BY random()")
        .await?;
    rows.sessions(shape::chains(100_000, 20, 100)).await?;
    rows.sessions(shape::trees(200_000, 300)).await?;
    rows.sessions(shape::singles(300_000, 1900)).await?;
    rows.requests(
        "SELECT n, 'Expired', make_interval(days => (n % 33)::int) FROM generate_series(1, 60000) AS n",
    )
    .await?;
    if analysed == Analysed::WhenFull {
        rows.execute("ANALYZE identity.refresh_sessions; ANALYZE identity.sign_in_confirmation_requests")
            .await?;
    }
    Ok((database, rows))
}

/// One run in batches of a thousand, and every statement of it. Takes everything but what lies above a held row.
async fn explained_run(database: &TestDatabase, rows: &Rows, held: u64) -> Result<Vec<Executed>> {
    // Only a superuser may load a library into a session that somebody else starts.
    let role = Role::create(database, "SUPERUSER").await?;
    for setting in [
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_level = 'notice'",
    ] {
        rows.execute(format!("ALTER ROLE {} SET {setting}", role.name())).await?;
    }
    let worker = Worker::on(role.url())
        .set("SESSION_RETENTION_BATCH_SIZE", "1000")
        .set("RUST_LOG", "info,sqlx::postgres::notice=trace");
    let (finished, report) = worker.run().await?;
    let stop_reason = if held == 0 { "drained" } else { "rows_held" };
    assert_eq!(
        (finished.code(), &report["stop_reason"]),
        (Some(0), &stop_reason.into()),
        "{}",
        finished.stderr
    );
    assert_eq!(report["refresh_deleted"], 6000 - held);
    let executed: Vec<_> = finished
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["target"] == "sqlx::postgres::notice")
        .filter_map(|line| Some(line["message"].as_str()?.split_once("Query Text: ")?.1.to_owned()))
        .filter_map(|explained| {
            // The plan begins at the first line that tells of costs.
            let first = explained.find("(cost=")?;
            let start = explained[..first].rfind('\n')?;
            // Bound values make lines of any length.
            let plan = explained[start..]
                .lines()
                .map(|line| line.chars().take(160).collect())
                .collect::<Vec<String>>();
            Some(Executed { sql: explained[..start].to_owned(), plan: plan.join("\n") })
        })
        .collect();
    Some(executed)
        .filter(|executed| !executed.is_empty())
        .with_context(|| format!("no plans in {}", finished.stderr))
}

fn those<'a>(executed: &'a [Executed], part: &str, table: &str) -> Vec<&'a Executed> {
    let found: Vec<_> = executed
        .iter()
        .filter(|one| one.sql.contains(part) && one.sql.contains(&format!("\"{table}\"")))
        .collect();
    assert!(!found.is_empty(), "no statement with {part} on {table}");
    found
}

#[rstest]
#[tokio::test]
async fn a_batch_finds_its_rows_by_address_and_their_children_by_index(
    #[values(Analysed::Never, Analysed::WhileEmpty, Analysed::WhenFull)] analysed: Analysed,
) -> Result<()> {
    let (database, rows) = seeded(analysed).await?;
    let executed = explained_run(&database, &rows, 0).await?;
    let batches = those(&executed, "DELETE FROM", "refresh_sessions");
    assert!(batches.len() >= 6, "{}", batches.len());
    for batch in batches {
        assert!(!batch.scans("refresh_sessions"), "{}", batch.plan);
        assert!(batch.plan.contains("Tid Scan on refresh_sessions goes"), "{}", batch.plan);
        // The one that is allowed joins the catalogue's few rows; any other would be quadratic in a batch's rows.
        assert!(batch.plan.matches("Nested Loop").count() <= 1, "{}", batch.plan);
    }
    for batch in those(&executed, "DELETE FROM", "sign_in_confirmation_requests") {
        assert!(!batch.scans("sign_in_confirmation_requests"), "{}", batch.plan);
        assert!(batch.plan.contains("Tid Scan on sign_in_confirmation_requests"), "{}", batch.plan);
    }
    // The table is read for windows and counts alone: a fixed number of times, whatever the number of batches.
    let scans = executed.iter().filter(|one| one.scans("refresh_sessions")).count();
    assert!(scans <= 6, "{scans} statements read the whole table");
    Ok(())
}

/// Statistics that are missing or old make a few rows of a million; a nested loop over them is quadratic.
#[rstest]
#[tokio::test]
async fn a_window_over_many_blocked_rows_is_read_by_hash_joins_whatever_the_statistics_say(
    #[values(Analysed::Never, Analysed::WhileEmpty, Analysed::WhenFull)] analysed: Analysed,
) -> Result<()> {
    let (database, rows) = seeded(analysed).await?;
    rows.sessions(
        "SELECT 400000 + n, CASE WHEN n % 2 = 1 THEN 400000 + n - 1 END, CASE WHEN n % 2 = 0 THEN 'Rotated' ELSE 'Active' END, \
         interval '100 days' FROM generate_series(0, 9999) AS n",
    )
    .await?;
    let executed = explained_run(&database, &rows, 0).await?;
    for part in ["SELECT DISTINCT pg_catalog.hashtextextended", "page AS MATERIALIZED"] {
        for statement in those(&executed, part, "refresh_sessions") {
            assert!(statement.plan.contains("Hash"), "{}", statement.plan);
            assert!(!statement.plan.contains("Nested Loop"), "{}", statement.plan);
        }
    }
    Ok(())
}

/// How often the sessions were read from end to end, and through an index, by sessions that have ended.
async fn scans_of_sessions(rows: &Rows) -> Result<(i64, i64)> {
    let scans = "SELECT pg_stat_get_numscans('identity.refresh_sessions'::regclass), \
         pg_stat_get_numscans('identity.ix_refresh_sessions_parent_session_id'::regclass)";
    Ok(sqlx::query_as(scans).fetch_one(rows.pool()).await?)
}

/// Whatever the statistics say: a sample of a table of a hundred gigabytes must not read all of it.
#[rstest]
#[tokio::test]
async fn a_sample_looks_children_up_by_index_and_does_not_read_the_table(
    #[values(Analysed::Never, Analysed::WhileEmpty, Analysed::WhenFull)] analysed: Analysed,
) -> Result<()> {
    let (database, rows) = seeded(analysed).await?;
    let job = Job::new(1)?;
    let store = job.store(database.url())?;
    let target = targets(&job.policies, store.now().await?)?.remove(1);
    let (whole, by_index) = scans_of_sessions(&rows).await?;
    let sample = store.sample(&target, 4, job.limits.statement_timeout).await?;
    store.database().close().await;
    // What a session has done is known once it has ended.
    let (whole_after, by_index_after) = loop {
        let after = scans_of_sessions(&rows).await?;
        if after != (whole, by_index) {
            break after;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(whole_after, whole, "reads of the whole table");
    let looked_up = by_index_after - by_index;
    assert!((100..5_000).contains(&looked_up), "{looked_up} of 6,000 due rows are looked at");
    assert!(sample.leaves > 100 && sample.blocked_ends == 0, "{sample:?}");
    Ok(())
}

#[rstest]
#[tokio::test]
async fn a_contended_batch_finds_who_refers_to_its_rows_by_index(
    #[values(Analysed::Never, Analysed::WhileEmpty, Analysed::WhenFull)] analysed: Analysed,
) -> Result<()> {
    let (database, rows) = seeded(analysed).await?;
    // The lowest row but one of a chain of a hundred.
    let holder = held(rows.pool(), &lock_session(100_098)).await?;
    let executed = explained_run(&database, &rows, 99).await?;
    let (looked, deleted) = (
        those(&executed, "held_back AS MATERIALIZED", "refresh_sessions"),
        those(&executed, "NOT EXISTS (SELECT FROM outside)", "refresh_sessions"),
    );
    for statement in looked.iter().chain(&deleted) {
        assert!(!statement.scans("refresh_sessions"), "{}", statement.plan);
        assert!(statement.plan.contains("Tid Scan on refresh_sessions due"), "{}", statement.plan);
        assert!(statement.plan.contains("ix_refresh_sessions_parent_session_id"), "{}", statement.plan);
        assert!(!statement.plan.contains("Nested Loop"), "{}", statement.plan);
    }
    drop(holder);
    Ok(())
}

#[tokio::test]
async fn a_window_of_requests_is_read_through_its_index() -> Result<()> {
    let (database, rows) = seeded(Analysed::WhenFull).await?;
    let executed = explained_run(&database, &rows, 0).await?;
    for window in those(&executed, "ORDER BY due", "sign_in_confirmation_requests") {
        assert!(window.plan.contains("ix_sicr_created_at"), "{}", window.plan);
        assert!(!window.scans("sign_in_confirmation_requests"), "{}", window.plan);
    }
    Ok(())
}

#[tokio::test]
async fn a_window_of_sessions_is_read_through_the_optional_index_where_there_is_one() -> Result<()> {
    let (database, rows) = seeded(Analysed::WhenFull).await?;
    rows.execute(include_str!("../../deploy/postgres/retention-index.sql")).await?;
    rows.execute("ANALYZE identity.refresh_sessions").await?;
    let executed = explained_run(&database, &rows, 0).await?;
    for window in those(&executed, " AS parent\nFROM", "refresh_sessions") {
        assert!(window.plan.contains("ix_refresh_sessions_terminal_updated_at"), "{}", window.plan);
    }
    Ok(())
}
