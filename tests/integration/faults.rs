//! What goes wrong in a database: missing tables and rights, rows that refuse, a server that is read-only, cuts a
//! connection or plans badly. Each costs its own rows or its own policy, is reported, and leaks nothing of a row.

use std::time::Duration;

use anyhow::Result;
use harness::{Job, PERSONAL, Role, Rows, TestDatabase, Watch, Worker, shape};
use retention_domain::{Outcome, StopReason};
use rstest::rstest;
use serde_json::{Value, json};

/// A thousand rows of each kind, due, that nothing refers to.
pub(crate) async fn thousands(rows: &Rows) -> Result<()> {
    rows.sessions(shape::singles(1, 1000)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 1000) AS n").await
}

/// One run as a process that logs everything it can. Nothing of any row is on stdout or stderr.
async fn run_discreetly(url: &str) -> Result<(Option<i32>, Value, String)> {
    let worker = Worker::on(url).set("SESSION_RETENTION_BATCH_SIZE", "100").set("RUST_LOG", "trace");
    let (finished, report) = worker.run().await?;
    let said = finished.stdout.clone() + &finished.stderr;
    for personal in PERSONAL {
        if let Some(line) = said.lines().find(|line| line.contains(personal)) {
            panic!("{personal} in {line}");
        }
    }
    Ok((finished.code(), report, finished.stderr))
}

const RAISING: &str = "CREATE FUNCTION object() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     RAISE EXCEPTION 'not %, called %', OLD.user_agent, OLD.ip_address USING DETAIL = OLD::text; END $$; ";
const VETOING: &str = "CREATE FUNCTION object() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     RAISE WARNING 'not %, called %', OLD.user_agent, OLD.ip_address; RETURN NULL; END $$; ";
const ON_ONE_SESSION: &str = "CREATE TRIGGER object BEFORE DELETE ON identity.refresh_sessions FOR EACH ROW \
     WHEN (OLD.id = lpad(to_hex(500), 32, '0')::uuid) EXECUTE FUNCTION object();";
const ON_ONE_REQUEST: &str = "CREATE TRIGGER object BEFORE DELETE ON identity.sign_in_confirmation_requests FOR EACH ROW \
     WHEN (OLD.id = lpad(to_hex(500), 32, '0')::uuid) EXECUTE FUNCTION object();";
const REFERENCE: &str = "CREATE TABLE identity.devices (session_id uuid REFERENCES identity.refresh_sessions); \
     INSERT INTO identity.devices VALUES (lpad(to_hex(500), 32, '0')::uuid);";

#[rstest]
#[case::a_foreign_key_from_elsewhere(REFERENCE, "", 1, "2350|23001")]
#[case::a_raising_trigger(RAISING, ON_ONE_SESSION, 1, "P0001")]
#[case::a_raising_trigger_on_requests(RAISING, ON_ONE_REQUEST, 0, "P0001")]
#[case::a_vetoing_trigger(VETOING, ON_ONE_SESSION, 1, "stays")]
#[case::a_vetoing_trigger_on_requests(VETOING, ON_ONE_REQUEST, 0, "stays")]
#[tokio::test]
async fn one_row_that_refuses_is_set_aside_and_all_others_go(
    #[case] prepare: &str,
    #[case] trigger: &str,
    #[case] policy: usize,
    #[case] reason: &str,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(format!("{prepare}{trigger}")).await?;
    let (code, report, log) = run_discreetly(database.url()).await?;
    assert_eq!(
        (code, &report["outcome"], &report["stop_reason"]),
        (Some(1), &json!("failed"), &json!("error"))
    );
    let [failed, other] = [policy, 1 - policy].map(|policy| &report["policies"][policy]);
    assert_eq!((&failed["deleted"], &failed["failed_rows"]), (&json!(999), &json!(1)), "{report}");
    assert_eq!((&failed["stop_reason"], &failed["backlog"]["pending"]), (&json!("error"), &json!(1)));
    let error = failed["error"].as_str().unwrap();
    assert!(reason.split('|').any(|reason| error.contains(reason)), "{error}");
    assert_eq!((&other["deleted"], &other["stop_reason"]), (&json!(1000), &json!("drained")));
    assert_eq!(rows.count_sessions().await? + rows.count_requests().await?, 1);
    assert_eq!(log.matches("\"row set aside\"").count(), 1);
    assert!(!log.contains("25P02"));
    // Nothing is repeated without end: the next run finds one row, and leaves it.
    let (code, report, _) = run_discreetly(database.url()).await?;
    assert_eq!((code, &report["policies"][policy]["failed_rows"]), (Some(1), &json!(1)));
    Ok(())
}

#[tokio::test]
async fn a_row_that_refuses_in_a_chain_costs_its_own_ancestors() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 10, 100)).await?;
    rows.execute(REFERENCE).await?;
    let report = Job::new(100)?.run(database.url()).await?;
    let refresh = &report.policies[1];
    assert_eq!((refresh.deleted, refresh.failed_rows, refresh.stop_reason), (900, 1, StopReason::Error));
    assert_eq!(rows.all_sessions().await?.into_keys().collect::<Vec<_>>(), (401..=500).collect::<Vec<_>>());
    assert_eq!(refresh.backlog.unwrap().pending, 100);
    Ok(())
}

#[tokio::test]
async fn a_table_that_refuses_everything_ends_its_policy_after_a_hundred_rows() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(format!(
        "{RAISING} CREATE TRIGGER object BEFORE DELETE ON identity.sign_in_confirmation_requests \
         FOR EACH ROW EXECUTE FUNCTION object()"
    ))
    .await?;
    let report = Job::new(5000)?.run(database.url()).await?;
    let [sicr, refresh] = &report.policies[..] else { panic!("two policies") };
    assert_eq!((sicr.failed_rows, sicr.deleted, sicr.stop_reason), (100, 0, StopReason::Error));
    assert_eq!((refresh.deleted, refresh.stop_reason), (1000, StopReason::Drained));
    Ok(())
}

#[rstest]
#[case::requests("sign_in_confirmation_requests", 0)]
#[case::sessions("refresh_sessions", 1)]
#[tokio::test]
async fn a_table_renamed_away_exits_1_and_the_other_policy_ran(
    #[case] table: &str,
    #[case] policy: usize,
) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(format!("ALTER TABLE identity.{table} RENAME TO elsewhere")).await?;
    let (code, report, log) = run_discreetly(database.url()).await?;
    assert_eq!((code, &report["outcome"]), (Some(1), &json!("failed")));
    let [gone, other] = [policy, 1 - policy].map(|policy| &report["policies"][policy]);
    let error = gone["error"].as_str().unwrap();
    assert!(error.contains(table) && error.contains("42P01"), "{error}");
    assert_eq!(gone["backlog"], json!({ "pending": null, "blocked": null, "oldest_age_seconds": null }));
    assert_eq!((&gone["deleted"], &report["backlog_remaining"]), (&json!(0), &Value::Null));
    assert_eq!((&other["deleted"], &other["stop_reason"]), (&json!(1000), &json!("drained")));
    assert_eq!(log.matches("\"phase failed\"").count(), 1);
    assert_eq!(rows.number("SELECT count(*) FROM identity.elsewhere").await?, 1000);
    Ok(())
}

#[tokio::test]
async fn rows_that_row_security_hides_from_the_delete_are_reported() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    let role = Role::worker(&database).await?;
    rows.execute(
        "ALTER TABLE identity.refresh_sessions ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY see ON identity.refresh_sessions FOR SELECT USING (true); \
         CREATE POLICY lock ON identity.refresh_sessions FOR UPDATE USING (true); \
         CREATE POLICY go ON identity.refresh_sessions FOR DELETE USING (id <> lpad(to_hex(500), 32, '0')::uuid)",
    )
    .await?;
    let (code, report, _) = run_discreetly(role.url()).await?;
    let refresh = &report["policies"][1];
    assert_eq!(
        (code, &refresh["deleted"], &refresh["failed_rows"]),
        (Some(1), &json!(999), &json!(1)),
        "{report}"
    );
    assert_eq!((&refresh["stop_reason"], &refresh["backlog"]["pending"]), (&json!("error"), &json!(1)));
    assert!(refresh["error"].as_str().unwrap().contains("row security"), "{refresh}");
    Ok(())
}

/// Hidden from the lock but not from the scan, they would look as if somebody else held them for ever.
#[tokio::test]
async fn rows_that_row_security_hides_from_the_lock_are_not_taken_for_drained() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    let role = Role::worker(&database).await?;
    rows.execute(
        "ALTER TABLE identity.refresh_sessions ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY see ON identity.refresh_sessions FOR SELECT USING (true)",
    )
    .await?;
    let (code, report, _) = run_discreetly(role.url()).await?;
    let refresh = &report["policies"][1];
    assert_eq!(
        (code, &refresh["deleted"], &refresh["stop_reason"]),
        (Some(1), &json!(0), &json!("error")),
        "{report}"
    );
    assert!(refresh["error"].as_str().unwrap().contains("row security"), "{refresh}");
    assert_eq!(rows.count_sessions().await?, 1000);
    Ok(())
}

/// A key that does not forbid would take a living child along that is inserted in mid-run.
#[rstest]
#[case::cascade(
    "ALTER TABLE identity.refresh_sessions ADD FOREIGN KEY (parent_session_id) \
    REFERENCES identity.refresh_sessions (id) ON DELETE CASCADE"
)]
#[case::set_null(
    "ALTER TABLE identity.refresh_sessions ADD FOREIGN KEY (parent_session_id) \
    REFERENCES identity.refresh_sessions (id) ON DELETE SET NULL"
)]
#[case::by_way_of_another_table(
    "CREATE TABLE identity.devices (id uuid PRIMARY KEY, \
    last_session uuid REFERENCES identity.refresh_sessions ON DELETE CASCADE); \
    ALTER TABLE identity.refresh_sessions ADD device uuid REFERENCES identity.devices ON DELETE CASCADE"
)]
#[tokio::test]
async fn a_self_reference_that_spreads_deletes_is_refused(#[case] spreading: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(format!(
        "ALTER TABLE identity.refresh_sessions DROP CONSTRAINT refresh_sessions_parent_session_id_fkey; {spreading}"
    ))
    .await?;
    let (code, report, _) = run_discreetly(database.url()).await?;
    assert_eq!(
        (code, &report["sicr_deleted"], &report["refresh_deleted"]),
        (Some(1), &json!(1000), &json!(0))
    );
    assert!(report["policies"][1]["error"].as_str().unwrap().contains("CASCADE"), "{report}");
    assert_eq!(rows.count_sessions().await?, 1000);
    Ok(())
}

#[rstest]
#[case::update("UPDATE (id)")]
#[case::delete("DELETE")]
#[case::select("SELECT")]
#[tokio::test]
async fn a_role_that_lacks_a_right_fails_with_the_table_s_name_and_42501(#[case] right: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    let role = Role::worker(&database).await?;
    rows.execute(format!("REVOKE {right} ON identity.refresh_sessions FROM {}", role.name())).await?;
    let (code, report, log) = run_discreetly(role.url()).await?;
    let [sicr, refresh] = &report["policies"].as_array().unwrap()[..] else { panic!("two policies") };
    let error = refresh["error"].as_str().unwrap();
    assert!(error.contains("refresh_sessions") && error.contains("42501"), "{error}");
    assert_eq!((code, &refresh["deleted"], &sicr["deleted"]), (Some(1), &json!(0), &json!(1000)));
    assert_eq!(log.matches("42501").count(), 1, "told once: {log}");
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_suffice() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    let role = Role::worker(&database).await?;
    let (code, report, _) = run_discreetly(role.url()).await?;
    assert_eq!(
        (code, &report["sicr_deleted"], &report["refresh_deleted"]),
        (Some(0), &json!(1000), &json!(1000))
    );
    Ok(())
}

#[tokio::test]
async fn a_read_only_server_is_a_failure_even_when_nothing_is_due() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    thousands(&rows).await?;
    rows.execute(format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()))
        .await?;
    let (code, report, _) = run_discreetly(database.url()).await?;
    assert_eq!(
        (code, &report["outcome"], &report["stop_reason"]),
        (Some(1), &json!("failed"), &json!("error"))
    );
    for policy in report["policies"].as_array().unwrap() {
        assert!(policy["error"].as_str().unwrap().contains("25006"), "{policy}");
    }
    rows.execute(format!("ALTER DATABASE {} RESET default_transaction_read_only", database.name())).await?;
    let (code, report, _) = run_discreetly(database.url()).await?;
    assert_eq!((code, &report["outcome"]), (Some(0), &json!("completed")));
    Ok(())
}

#[tokio::test]
async fn cut_connections_are_retried_and_nothing_is_counted_twice() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 200, 50)).await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_BATCH_SIZE", "100");
    let mut process = worker.spawn(&["run", "--format", "json"]).await?;
    for _ in 0..3 {
        process.wait_for_line(|line| line.contains("\"batch deleted\""), Duration::from_mins(1)).await?;
        rows.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name = 'SessionRetentionJob'",
        )
        .await?;
    }
    let finished = process.wait(Duration::from_mins(1)).await?;
    let report: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!((finished.code(), &report["outcome"]), (Some(0), &json!("completed")), "{}", finished.stderr);
    assert_eq!(rows.count_sessions().await?, 0);
    // A commit whose acknowledgement was lost stays uncounted; nothing else does.
    let deleted = report["refresh_deleted"].as_u64().unwrap();
    assert!((9700..=10_000).contains(&deleted), "{deleted}");
    Ok(())
}

/// A nested loop may run a locking sub-select once per outer row, and then `LIMIT` bounds nothing.
#[tokio::test]
async fn no_plan_takes_more_rows_than_a_batch() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 200) AS n").await?;
    rows.sessions(shape::trees(1, 30)).await?;
    let role = Role::worker(&database).await?;
    for planner in
        ["hashjoin", "mergejoin", "hashagg", "sort", "material", "indexscan", "indexonlyscan", "bitmapscan"]
    {
        rows.execute(format!("ALTER ROLE {} SET enable_{planner} = off", role.name())).await?;
    }
    let watch = Watch::over(&rows).await?;
    let report = Job::new(10)?.run(role.url()).await?;
    assert_eq!(
        (report.outcome(), report.deleted("sicr"), report.deleted("refresh")),
        (Outcome::Completed, 200, 210)
    );
    assert!(watch.largest_statement().await? <= 10 && watch.largest_transaction().await? <= 10);
    Ok(())
}

/// The role's own bound is lower than ours or absent: ours is set per transaction.
#[tokio::test]
async fn settings_of_the_role_do_not_bound_a_batch() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::chains(1, 1000, 20)).await?;
    let role = Role::worker(&database).await?;
    for setting in [
        "statement_timeout = '20ms'",
        "lock_timeout = '1ms'",
        "search_path = ''",
        "default_transaction_isolation = 'serializable'",
    ] {
        rows.execute(format!("ALTER ROLE {} SET {setting}", role.name())).await?;
    }
    let report = Job::new(5000)?.run(role.url()).await?;
    assert_eq!((report.outcome(), report.deleted("refresh")), (Outcome::Completed, 20_000));
    Ok(())
}
