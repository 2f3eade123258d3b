//! Declared policies and `cleanup`, as processes: what they print, what goes, how they exit.

mod advice;
mod refusals;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use harness::{Finished, TestDatabase, Worker};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};

use crate::handbook::SCHEMA;

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

/// Rows of the outbox: acknowledged ones of 1 to 10 days, and as many that are not.
const OUTBOX: &str = "INSERT INTO review.outbox (topic, payload, created_at, offset_acked) \
    SELECT 't', '{}', now() - make_interval(days => n), acked FROM generate_series(1, 10) AS n, unnest(ARRAY[NULL, 7]) AS acked";

fn handbook() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/policies/handbook.toml"))
}

/// The example service without the built-in tables.
async fn service() -> Result<(TestDatabase, PgPool)> {
    furnished(TestDatabase::empty().await?).await
}

async fn furnished(database: TestDatabase) -> Result<(TestDatabase, PgPool)> {
    let pool = database.connect().await?;
    for statements in [SCHEMA, OUTBOX] {
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&pool).await?;
    }
    Ok((database, pool))
}

async fn number(pool: &PgPool, query: &str) -> Result<i64> {
    Ok(sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(pool).await?)
}

fn worker(database: &TestDatabase) -> Worker {
    Worker::on(database.url()).set("SESSION_RETENTION_POLICY_FILE", handbook().to_str().unwrap())
}

fn json_of(finished: &Finished) -> Result<Value> {
    Ok(serde_json::from_str(&finished.stdout)?)
}

fn audit(finished: &Finished) -> Vec<Value> {
    let lines = finished.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["target"] == "audit").collect()
}

#[tokio::test]
async fn a_run_takes_declared_policies_after_the_built_in_ones_in_the_file_s_order() -> Result<()> {
    let (database, pool) = furnished(TestDatabase::migrated().await?).await?;
    let ledger = include_str!("../../deploy/postgres/ledger.sql");
    sqlx::raw_sql(AssertSqlSafe(ledger.to_owned())).execute(&pool).await?;
    sqlx::raw_sql(
        "INSERT INTO identity.sign_in_confirmation_requests (id, phone_number, code_hash, status, created_at, expires_at) \
         SELECT gen_random_uuid(), '+9990000000000', '\\x00', 'Expired', now() - interval '40 days', now() \
         FROM generate_series(1, 12)",
    )
    .execute(&pool)
    .await?;
    let worker = worker(&database)
        .set("SESSION_RETENTION_AUDIT_TABLE", "retention.ledger")
        .set("SESSION_RETENTION_BATCH_SIZE", "5")
        .set("RUST_LOG", "error");
    let folder = tempfile::tempdir()?;
    let metrics = folder.path().join("worker.prom");
    let finished =
        worker.finish(&["run", "--format", "json", "--metrics-file", metrics.to_str().unwrap()]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report = json_of(&finished)?;
    let names: Vec<_> =
        report["policies"].as_array().unwrap().iter().map(|of| of["policy"].as_str().unwrap()).collect();
    let file = std::fs::read_to_string(handbook())?;
    let declared =
        file.lines().filter_map(|line| line.strip_prefix("name = ")).map(|name| name.trim_matches('"'));
    assert_eq!(names, ["sicr", "refresh"].into_iter().chain(declared).collect::<Vec<_>>());
    assert_eq!((&report["sicr_deleted"], &report["policies"][2]["deleted"]), (&json!(12), &json!(4)));
    // The ledger is that of the built-in policies alone, one row a batch.
    let entries = "SELECT count(*) FROM retention.ledger WHERE policy = 'sicr' AND rows > 0";
    assert_eq!(number(&pool, entries).await?, 3);
    assert_eq!(number(&pool, "SELECT sum(rows)::bigint FROM retention.ledger").await?, 12);
    // One record a policy, whatever the level of the log.
    let records = audit(&finished);
    assert_eq!(records.iter().map(|line| line["policy"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for (record, policy) in records.iter().zip(report["policies"].as_array().unwrap()) {
        assert_eq!(
            [
                &record["table"],
                &record["cutoff"],
                &record["rows"],
                &record["stopReason"],
                &record["jobRunId"]
            ],
            [
                &policy["table"],
                &policy["cutoff"],
                &policy["deleted"],
                &policy["stop_reason"],
                &report["job_run_id"]
            ]
        );
    }
    let metrics = std::fs::read_to_string(metrics)?;
    for name in names {
        assert!(metrics.contains(&format!("retention_seconds{{policy=\"{name}\"}}")), "{metrics}");
    }
    assert!(
        metrics.contains("deleted_total{policy=\"outbox-acked\",table=\"review.outbox\"} 4"),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test]
async fn cleanup_runs_one_policy_with_the_retention_asked_for_and_needs_no_other_table() -> Result<()> {
    let (database, pool) = service().await?;
    sqlx::raw_sql("INSERT INTO review.sessions (user_id, token_hash, created_at) VALUES (1, '\\x00', now() - interval '1 year')")
        .execute(&pool)
        .await?;
    let worker = worker(&database);
    let plan = worker
        .finish(&["cleanup", "--table", "outbox", "--older-than", "5d", "--dry-run", "--format", "json"])
        .await?;
    assert_eq!(plan.code(), Some(0), "{}", plan.stderr);
    let plan = json_of(&plan)?;
    assert_eq!(plan["policies"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&plan["policies"][0]["policy"], &plan["policies"][0]["deletable"]),
        (&json!("outbox-acked"), &json!(6))
    );
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox").await?, 20);

    let finished =
        worker.finish(&["cleanup", "--table", "outbox", "--older-than", "5d", "--format", "json"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report = json_of(&finished)?;
    assert_eq!(report["policies"].as_array().map(Vec::len), Some(1));
    assert_eq!((&report["policies"][0]["deleted"], &report["outcome"]), (&json!(6), &json!("completed")));
    assert_eq!((&report["sicr_deleted"], &report["refresh_deleted"]), (&json!(0), &json!(0)));
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox WHERE offset_acked IS NOT NULL").await?, 4);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox WHERE offset_acked IS NULL").await?, 10);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.sessions").await?, 1);
    let records = audit(&finished);
    assert_eq!((records.len(), &records[0]["rows"]), (1, &json!(6)));

    // In text, qualified and by the policy's name.
    let text = worker
        .finish(&["cleanup", "--table", "review.outbox", "--policy", "outbox-acked", "--older-than", "P3D"])
        .await?;
    assert_eq!(text.code(), Some(0), "{}", text.stderr);
    assert!(text.stdout.contains("outbox-acked") && !text.stdout.contains("sicr"), "{}", text.stdout);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox WHERE offset_acked IS NOT NULL").await?, 2);
    Ok(())
}

#[tokio::test]
async fn one_failing_policy_does_not_stop_the_others() -> Result<()> {
    let (database, pool) = furnished(TestDatabase::migrated().await?).await?;
    sqlx::raw_sql(
        "DROP TABLE review.sessions; ALTER TABLE review.failed_logins RENAME created_at TO at; \
         INSERT INTO review.webhook_deliveries (endpoint_id, status, created_at) VALUES (1, 200, now() - interval '31 days')",
    )
    .execute(&pool)
    .await?;
    let worker = worker(&database);
    let (finished, report) = worker.run().await?;
    assert_eq!((finished.code(), &report["outcome"]), (Some(1), &json!("failed")));
    for policy in report["policies"].as_array().unwrap() {
        let failed = ["sessions", "failed-logins"].contains(&policy["policy"].as_str().unwrap());
        assert_eq!(policy["error"].is_string(), failed, "{policy}");
    }
    assert_eq!(number(&pool, "SELECT count(*) FROM review.webhook_deliveries").await?, 0);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox WHERE offset_acked IS NOT NULL").await?, 6);
    for (table, code) in [("sessions", 1), ("failed_logins", 1), ("webhook_deliveries", 0)] {
        let finished = worker.finish(&["cleanup", "--table", table, "--older-than", "30d"]).await?;
        assert_eq!(finished.code(), Some(code), "{table}: {}", finished.stderr);
        let dry = worker.finish(&["cleanup", "--table", table, "--older-than", "30d", "--dry-run"]).await?;
        assert_eq!(dry.code(), Some(code), "{table}: {}", dry.stderr);
    }
    let check = worker.finish(&["check", "--format", "json"]).await?;
    assert_eq!(check.code(), Some(1));
    let errors: Vec<_> = json_of(&check)?["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["level"] == "error")
        .map(|finding| (finding["policy"].to_string(), finding["id"].to_string()))
        .collect();
    let expected = [("sessions", "table-exists"), ("failed-logins", "column-types")];
    assert_eq!(errors, expected.map(|(policy, id)| (json!(policy).to_string(), json!(id).to_string())));
    Ok(())
}

#[tokio::test]
async fn the_example_service_passes_the_check() -> Result<()> {
    let (database, _) = furnished(TestDatabase::migrated().await?).await?;
    let finished = worker(&database).finish(&["check", "--format", "json"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stdout);
    let findings = json_of(&finished)?;
    let declared = findings["findings"].as_array().unwrap().iter().filter(|finding| {
        !["run", "sicr", "refresh"].contains(&finding["policy"].as_str().unwrap()) && finding["level"] != "ok"
    });
    assert_eq!(declared.collect::<Vec<_>>(), Vec::<&Value>::new());
    Ok(())
}

/// A nested loop may run a locking sub-select once per outer row, and then `LIMIT` bounds nothing. Seen by a trigger, which
/// counts what each statement takes.
#[tokio::test]
async fn cleanup_takes_no_more_than_a_batch_under_another_plan() -> Result<()> {
    let (database, pool) = service().await?;
    sqlx::raw_sql(
        "CREATE TABLE taken (rows bigint); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
           $$ BEGIN INSERT INTO public.taken SELECT count(*) FROM gone; RETURN NULL; END $$; \
         CREATE TRIGGER note AFTER DELETE ON review.outbox REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note(); \
         INSERT INTO review.outbox (topic, payload, created_at, offset_acked) \
           SELECT 't', '{}', now() - interval '9 days', n FROM generate_series(1, 196) AS n",
    )
    .execute(&pool)
    .await?;
    for planner in
        ["hashjoin", "mergejoin", "hashagg", "sort", "material", "indexscan", "indexonlyscan", "bitmapscan"]
    {
        let set = format!("ALTER DATABASE {} SET enable_{planner} = off", database.name());
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&pool).await?;
    }
    let worker = worker(&database).set("SESSION_RETENTION_BATCH_SIZE", "10");
    let finished = worker.finish(&["cleanup", "--table", "outbox", "--older-than", "7d"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!(number(&pool, "SELECT sum(rows)::bigint FROM taken").await?, 200);
    assert_eq!(number(&pool, "SELECT max(rows) FROM taken").await?, 10);
    Ok(())
}

#[tokio::test]
async fn cleanup_ends_on_sigterm_like_a_run() -> Result<()> {
    let (database, pool) = service().await?;
    sqlx::raw_sql(
        "INSERT INTO review.outbox (topic, payload, created_at, offset_acked) \
         SELECT 't', '{}', now() - interval '9 days', n FROM generate_series(1, 10000) AS n",
    )
    .execute(&pool)
    .await?;
    let worker = worker(&database)
        .set("SESSION_RETENTION_BATCH_SIZE", "100")
        .set("SESSION_RETENTION_BATCH_PAUSE", "1s");
    let mut process =
        worker.spawn(&["cleanup", "--table", "outbox", "--older-than", "7d", "--format", "json"]).await?;
    process.wait_for_line(|line| line.contains("batch deleted"), DEADLINE).await?;
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    let report = json_of(&finished)?;
    assert_eq!((&report["outcome"], &report["stop_reason"]), (&json!("stopped"), &json!("shutdown")));
    let deleted = report["policies"][0]["deleted"].as_i64().unwrap();
    assert!(deleted >= 100);
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox").await?, 10_020 - deleted);
    Ok(())
}

#[tokio::test]
async fn serve_runs_them_too() -> Result<()> {
    let (database, pool) = furnished(TestDatabase::migrated().await?).await?;
    let worker = worker(&database).set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always");
    let mut process = worker.spawn(&["serve"]).await?;
    process.wait_for_line(|line| line.contains("job completed"), DEADLINE).await?;
    assert_eq!(number(&pool, "SELECT count(*) FROM review.outbox").await?, 16);
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert_eq!((finished.code(), audit(&finished).len()), (Some(0), 13), "{}", finished.stderr);
    Ok(())
}
