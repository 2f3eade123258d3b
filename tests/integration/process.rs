//! The worker's one-shot commands as processes: what they print and how they exit. How they stop: `signals.rs`.

use std::collections::BTreeSet;

use anyhow::Result;
use harness::{Role, Rows, TestDatabase, Worker, reference, shape};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

async fn seeded(rows: &Rows) -> Result<()> {
    rows.sessions(shape::trees(1, 20)).await?;
    rows.session(1000, Some(4), "Active", 0).await?;
    rows.session(1001, None, "Odd", 100).await?;
    rows.requests("SELECT n, 'Expired', make_interval(days => n::int) FROM generate_series(1, 60) AS n")
        .await?;
    rows.execute(
        "ALTER TABLE identity.refresh_sessions ALTER updated_at DROP NOT NULL; \
         UPDATE identity.refresh_sessions SET updated_at = NULL WHERE id::text LIKE '%-00000000008c'",
    )
    .await
}

/// The report, written anew by hand: its keys and their order are public interface.
fn spelled_out(report: &Value) -> String {
    let of = |value: &Value, keys: &[&str]| {
        let pairs: Vec<String> = keys.iter().map(|key| format!("\"{key}\":{}", value[key])).collect();
        pairs.join(",")
    };
    let counts = ["deleted", "batches", "skipped", "failed_rows", "stop_reason", "error"];
    let mut policies = Vec::new();
    for policy in report["policies"].as_array().unwrap() {
        let own = of(policy, &["policy", "table", "cutoff"]);
        let backlog = of(&policy["backlog"], &["pending", "blocked", "oldest_age_seconds"]);
        policies.push(format!("{{{own},{},\"backlog\":{{{backlog}}}}}", of(policy, &counts)));
    }
    let run = of(report, &["job_run_id", "started_at", "duration_ms", "outcome", "stop_reason"]);
    let sums = of(report, &["sicr_deleted", "refresh_deleted", "backlog_remaining"]);
    format!("{{{run},{sums},\"policies\":[{}]}}\n", policies.join(","))
}

#[tokio::test]
async fn run_prints_the_report_of_the_contract_and_nothing_else() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    seeded(&rows).await?;
    let (sessions, requests) = (rows.all_sessions().await?, rows.all_requests().await?);
    let (finished, report) = Worker::on(database.url()).run().await?;
    assert_eq!(finished.code(), Some(0));
    assert_eq!(finished.stdout, spelled_out(&report));

    let now = report["started_at"].as_str().unwrap().parse()?;
    let (expected, gone) =
        (reference::sessions(&sessions, now), reference::requests(&requests, now).goes.len());
    assert_eq!(report["refresh_deleted"], expected.goes.len());
    assert_eq!(report["sicr_deleted"], gone);
    assert_eq!(report["backlog_remaining"], expected.blocked.len());
    let [sicr, refresh] = &report["policies"].as_array().unwrap()[..] else { panic!("two policies") };
    assert_eq!(
        (&sicr["policy"], &sicr["table"]),
        (&json!("sicr"), &json!("identity.sign_in_confirmation_requests"))
    );
    assert_eq!(
        (&refresh["policy"], &refresh["table"]),
        (&json!("refresh"), &json!("identity.refresh_sessions"))
    );
    assert_eq!(sicr["backlog"], json!({ "pending": 0, "blocked": 0, "oldest_age_seconds": null }));
    let oldest = expected.blocked.iter().filter_map(|n| sessions[n].age).min().unwrap();
    assert_eq!(
        refresh["backlog"],
        json!({ "pending": 0, "blocked": expected.blocked.len(), "oldest_age_seconds": (now - oldest).num_seconds() })
    );
    Ok(())
}

#[tokio::test]
async fn the_log_is_flat_json_with_the_events_of_the_specification() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    seeded(&rows).await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_BATCH_SIZE", "50");
    let (finished, report) = worker.run().await?;
    let lines: Vec<Value> =
        finished.stderr.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>()?;
    for line in &lines {
        for (key, value) in line.as_object().unwrap() {
            assert!(!value.is_array() && (!value.is_object() || key == "backlogRemaining"), "{line}");
        }
        for key in ["timestamp", "level", "target", "message"] {
            assert!(line[key].is_string(), "{line}");
        }
        assert_eq!(line["jobRunId"], report["job_run_id"], "{line}");
    }
    let of = |event: &str| lines.iter().filter(|line| line["message"] == event).collect::<Vec<_>>();
    let [started] = of("job started")[..] else { panic!("{lines:?}") };
    assert_eq!(started["cutoffSicr"], report["policies"][0]["cutoff"]);
    assert_eq!(started["cutoffRefresh"], report["policies"][1]["cutoff"]);
    let batches = of("batch deleted");
    let sum = |phase: &str| -> u64 {
        batches
            .iter()
            .filter(|line| line["phase"] == phase)
            .map(|line| line["deletedCount"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(
        (json!(sum("sicr")), json!(sum("refresh"))),
        (report["sicr_deleted"].clone(), report["refresh_deleted"].clone())
    );
    assert!(of("phase failed").is_empty());
    let [completed] = of("job completed")[..] else { panic!("{lines:?}") };
    assert_eq!(completed["sicrDeleted"], report["sicr_deleted"]);
    assert_eq!(completed["refreshDeleted"], report["refresh_deleted"]);
    assert_eq!(completed["durationMs"], report["duration_ms"]);
    assert_eq!(
        (&completed["outcome"], &completed["stopReason"]),
        (&report["outcome"], &report["stop_reason"])
    );
    let left = report["policies"][1]["backlog"]["blocked"].as_u64().unwrap();
    assert_eq!(
        completed["backlogRemaining"],
        json!({ "identity.sign_in_confirmation_requests": 0, "identity.refresh_sessions": left })
    );
    Ok(())
}

#[tokio::test]
async fn bad_settings_exit_2_with_all_faults_at_once_and_touch_nothing() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_SICR_RETENTION", "30")
        .set("SESSION_RETENTION_BATCH_SIZE", "0")
        .set("SESSION_RETENTION_BACTH_PAUSE", "1s")
        .set("SESSION_RETENTION_MAX_RUN_DURATION", "");
    for command in ["run", "plan", "serve", "config"] {
        let finished = worker.finish(&[command]).await?;
        assert_eq!(
            (finished.code(), finished.stdout.as_str()),
            (Some(2), ""),
            "{command}: {}",
            finished.stderr
        );
        for fault in ["SICR_RETENTION", "BATCH_SIZE", "BACTH_PAUSE", "BATCH_PAUSE", "MAX_RUN_DURATION"] {
            assert!(
                finished.stderr.contains(&format!("SESSION_RETENTION_{fault}")),
                "{fault}: {}",
                finished.stderr
            );
        }
    }
    let usage = Worker::on(database.url()).finish(&["run", "--format", "yaml"]).await?;
    assert_eq!((usage.code(), usage.stdout.as_str()), (Some(2), ""));
    assert_eq!(rows.count_requests().await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_usable_database_exits_3_with_nothing_on_stdout() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let crowded = Role::create(&database, "CONNECTION LIMIT 0").await?;
    let barred = Role::create(&database, "").await?;
    Rows::of(&database).await?.execute(format!("ALTER ROLE {} NOLOGIN", barred.name())).await?;
    let unknown = database.url().replace(database.name(), "retention_no_such_database");
    let nobody = "postgres://nobody:secret@127.0.0.1:1/nothing".to_owned();
    let urls = [
        (nobody, "refused"),
        (unknown, "3D000"),
        (crowded.url().to_owned(), "53300"),
        (barred.url().to_owned(), "28000"),
    ];
    let mut checks = tokio::task::JoinSet::new();
    for (url, reason) in urls {
        for command in ["run", "plan"] {
            let worker = Worker::on(&url);
            checks.spawn(async move { anyhow::Ok((worker.finish(&[command]).await?, reason, command)) });
        }
    }
    while let Some(checked) = checks.join_next().await {
        let (finished, reason, command) = checked??;
        assert_eq!(
            (finished.code(), finished.stdout.as_str()),
            (Some(3), ""),
            "{command}: {}",
            finished.stderr
        );
        assert!(finished.stderr.contains(reason), "{command}, {reason}: {}", finished.stderr);
        assert!(!finished.stderr.contains("secret"));
    }
    Ok(())
}

#[tokio::test]
async fn plan_counts_like_the_reference_deletes_nothing_and_waits_for_no_lock() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    seeded(&rows).await?;
    let (sessions, requests) = (rows.all_sessions().await?, rows.all_requests().await?);
    let mut holder = rows.pool().begin().await?;
    sqlx::raw_sql("SELECT FROM identity.refresh_sessions FOR UPDATE; SELECT FROM identity.sign_in_confirmation_requests FOR UPDATE; \
                   LOCK TABLE identity.refresh_sessions, identity.sign_in_confirmation_requests IN EXCLUSIVE MODE")
        .execute(&mut *holder)
        .await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_BATCH_SIZE", "50");
    let finished = worker.finish(&["plan", "--format", "json"]).await?;
    let text = worker.finish(&["plan"]).await?;
    holder.rollback().await?;
    assert_eq!((finished.code(), text.code()), (Some(0), Some(0)), "{}", finished.stderr);
    let plan: Value = serde_json::from_str(&finished.stdout)?;
    let now = plan["now"].as_str().unwrap().parse()?;
    let expected = reference::sessions(&sessions, now);
    let gone = reference::requests(&requests, now).goes.len();
    let [sicr, refresh] = &plan["policies"].as_array().unwrap()[..] else { panic!("two policies") };
    assert_eq!((&sicr["due"], &sicr["deletable"], &sicr["blocked"]), (&json!(gone), &json!(gone), &json!(0)));
    assert_eq!(refresh["due"], expected.goes.len() + expected.blocked.len());
    assert_eq!(
        (&refresh["deletable"], &refresh["blocked"]),
        (&json!(expected.goes.len()), &json!(expected.blocked.len()))
    );
    assert_eq!((&refresh["undated"], &refresh["unknown_status"]), (&json!(1), &json!(1)));
    assert_eq!(refresh["expected_batches"], expected.goes.len().div_ceil(50));
    let keys: BTreeSet<&String> = refresh.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 11);
    let warnings: Vec<_> =
        refresh["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect();
    let about = [
        "without a usable date",
        "unknown status",
        "no index finds due rows",
        "finds rows by parent_session_id",
    ];
    assert_eq!(warnings.len(), about.len(), "{warnings:?}");
    for (warning, about) in warnings.iter().zip(about) {
        assert!(warning.contains(about), "{warnings:?}");
    }
    assert_eq!((rows.all_sessions().await?, rows.all_requests().await?), (sessions, requests));
    Ok(())
}

#[tokio::test]
async fn plan_exits_1_when_a_policy_cannot_be_examined_and_shows_the_other() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    rows.execute("ALTER TABLE identity.refresh_sessions RENAME TO elsewhere").await?;
    let finished = Worker::on(database.url()).finish(&["plan", "--format", "json"]).await?;
    assert_eq!(finished.code(), Some(1));
    let plan: Value = serde_json::from_str(&finished.stdout)?;
    assert_eq!((&plan["policies"][0]["due"], &plan["policies"][1]["due"]), (&json!(1), &Value::Null));
    assert!(plan["policies"][1]["warnings"][0].as_str().unwrap().contains("42P01"), "{plan}");
    Ok(())
}

#[tokio::test]
async fn config_needs_no_database_and_hides_the_secret() -> Result<()> {
    let worker = Worker::on("postgres://worker:secret@127.0.0.1:1/nothing");
    let finished = worker.finish(&["config", "--format", "json"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(!finished.stdout.contains("secret") && !finished.stderr.contains("secret"));
    let config: Value = serde_json::from_str(&finished.stdout)?;
    let settings = config.as_array().unwrap();
    let of = |variable: &str| settings.iter().find(|setting| setting["variable"] == variable).unwrap();
    assert_eq!(of("DATABASE_URL")["source"], "environment");
    assert_eq!(
        of("SESSION_RETENTION_SICR_RETENTION"),
        &json!({ "variable": "SESSION_RETENTION_SICR_RETENTION", "value": "30d", "unit": "duration", "source": "default" })
    );
    assert_eq!(of("SESSION_RETENTION_BATCH_PAUSE")["value"], "0s");
    Ok(())
}

#[tokio::test]
async fn run_writes_the_metrics_file_and_binds_no_port() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    seeded(&rows).await?;
    let folder = TempDir::new()?;
    let path = folder.path().join("retention.prom");
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let worker =
        Worker::on(database.url()).set("SESSION_RETENTION_HTTP_ADDR", taken.local_addr()?.to_string());
    let finished = worker.finish(&["run", "--metrics-file", path.to_str().unwrap()]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("completed: drained"), "{}", finished.stdout);
    let metrics = std::fs::read_to_string(&path)?;
    for line in [
        "identity_session_retention_sicr_deleted_total 31",
        "identity_session_retention_runs_total{outcome=\"completed\"} 1",
        "identity_session_retention_runs_total{outcome=\"failed\"} 0",
        "identity_session_retention_backlog{policy=\"sicr\",state=\"pending\",table=\"identity.sign_in_confirmation_requests\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1, "nothing is left beside it");

    let nowhere = folder.path().join("missing/retention.prom");
    let finished = worker.finish(&["run", "--metrics-file", nowhere.to_str().unwrap()]).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(2), ""));
    Ok(())
}

#[tokio::test]
async fn a_failed_run_is_counted_as_such_in_the_metrics_file() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    rows.execute("ALTER TABLE identity.refresh_sessions RENAME TO elsewhere").await?;
    let folder = TempDir::new()?;
    let path = folder.path().join("retention.prom");
    let worker = Worker::on(database.url());
    assert_eq!(worker.finish(&["run", "--metrics-file", path.to_str().unwrap()]).await?.code(), Some(1));
    let metrics = std::fs::read_to_string(&path)?;
    for line in [
        "deleted_total{policy=\"sicr\",table=\"identity.sign_in_confirmation_requests\"} 1",
        "errors_total{kind=\"fatal\",phase=\"refresh\"} 1",
        "errors_total{kind=\"fatal\",phase=\"sicr\"} 0",
        "runs_total{outcome=\"completed\"} 0",
        "runs_total{outcome=\"failed\"} 1",
        "last_success_timestamp_seconds 0",
        "backlog{policy=\"refresh\",state=\"pending\",table=\"identity.refresh_sessions\"} NaN",
    ] {
        let line = format!("identity_session_retention_{line}");
        assert!(metrics.lines().any(|found| found == line), "{line}:\n{metrics}");
    }
    Ok(())
}
