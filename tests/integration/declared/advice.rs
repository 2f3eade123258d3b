//! What `plan` and `check` advise on declared policies: indexes, foreign keys, autovacuum, and how long it takes.

use anyhow::Result;
use harness::{Rows, TestDatabase, Worker};
use serde_json::Value;

use super::{furnished, json_of, service, worker};

async fn plan(worker: &Worker, more: &[&str]) -> Result<Vec<String>> {
    let arguments = [&["plan", "--format", "json"], more].concat();
    let finished = worker.finish(&arguments).await?;
    let plan = json_of(&finished)?;
    let outbox = plan["policies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|policy| policy["policy"] == "outbox-acked")
        .unwrap();
    assert_eq!(outbox.as_object().unwrap().len(), 11, "{outbox}");
    let warnings = outbox["warnings"].as_array().unwrap();
    Ok(warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn plan_names_the_index_or_the_statement_for_it_and_foreign_keys_in_the_way() -> Result<()> {
    let (database, pool) = service().await?;
    let worker = worker(&database);
    let index = "index ix_outbox_acked_created_at finds due rows by created_at";
    assert_eq!(plan(&worker, &[]).await?, [index]);
    let with_rate = plan(&worker, &["--rows-per-second", "2"]).await?;
    assert_eq!(with_rate, [index, "at 2 rows per second, 4 rows take 2s, and the pauses between batches 0s"]);

    sqlx::raw_sql(
        "DROP INDEX review.ix_outbox_acked_created_at; \
         CREATE TABLE review.deliveries (event bigint CONSTRAINT of_event REFERENCES review.outbox)",
    )
    .execute(&pool)
    .await?;
    let found = plan(&worker, &[]).await?;
    let [missing, key] = &found[..] else { panic!("{found:?}") };
    let (_, statement) = missing.split_once("reads the whole table: ").unwrap();
    assert!(
        statement.starts_with("CREATE INDEX CONCURRENTLY ON \"review\".\"outbox\" (\"created_at\") WHERE"),
        "{missing}"
    );
    assert!(key.contains("foreign key of_event of review.deliveries (event)"), "{key}");
    // The statement is what it says.
    let statement = statement.trim_end_matches(';').to_owned();
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await?;
    let found = plan(&worker, &[]).await?;
    assert!(found.last().unwrap().starts_with("index ") && found.len() == 2, "{found:?}");

    let text = worker.finish(&["plan", "--rows-per-second", "2"]).await?;
    assert!(
        text.stdout.contains("note: index ") && text.stdout.contains("note: at 2 rows per second"),
        "{}",
        text.stdout
    );
    assert!(!worker.finish(&["plan"]).await?.stdout.contains("rows per second"));
    assert_eq!(worker.finish(&["plan", "--rows-per-second", "0"]).await?.code(), Some(2));
    Ok(())
}

/// The outbox after a large clean-up, and a partitioned table of which one partition has seen as much.
#[tokio::test]
async fn high_churn_gets_the_handbook_s_settings_and_nothing_more_once_they_hold() -> Result<()> {
    let (database, _) = furnished(TestDatabase::migrated().await?).await?;
    let rows = Rows::of(&database).await?;
    rows.execute(
        "CREATE TABLE review.events (id bigint, at timestamptz NOT NULL) PARTITION BY LIST (id); \
         CREATE TABLE review.events_quiet PARTITION OF review.events DEFAULT; \
         CREATE TABLE review.events_busy PARTITION OF review.events FOR VALUES IN (1); \
         CREATE INDEX ON review.events (at); \
         INSERT INTO review.events SELECT 1, now() - interval '2 days' FROM generate_series(1, 100000); \
         INSERT INTO review.outbox (topic, payload, created_at, offset_acked) \
           SELECT 't', '{}', now() - interval '9 days', n FROM generate_series(1, 100000) AS n",
    )
    .await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("policies.toml");
    let policy = |name: &str, table: &str, age: &str| {
        format!(
            "[[policy]]\nname = \"{name}\"\ntable = \"review.{table}\"\nage_column = \"{age}\"\nretention = \"1d\"\n"
        )
    };
    std::fs::write(&file, policy("events", "events", "at") + &policy("outbox", "outbox", "created_at"))?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_POLICY_FILE", file.to_str().unwrap());
    assert_eq!(advice(&worker).await?, [""; 0]);
    for (table, policy) in [("events", "events"), ("outbox", "outbox")] {
        let finished = worker.finish(&["cleanup", "--table", table, "--older-than", "1d"]).await?;
        assert_eq!(finished.code(), Some(0), "{policy}: {}", finished.stderr);
    }
    // A server process reports its numbers when it ends.
    rows.wait_until(
        "SELECT bool_and(pg_stat_get_tuples_deleted(t::regclass) >= 100000) \
         FROM unnest(ARRAY['review.outbox', 'review.events_busy']) AS t",
    )
    .await?;
    let settings = "(autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_limit = 2000);";
    let expected =
        ["events_busy", "outbox"].map(|table| format!("ALTER TABLE review.{table} SET {settings}"));
    let found = advice(&worker).await?;
    assert_eq!(found.len(), 2, "{found:?}");
    for (advice, expected) in found.iter().zip(&expected) {
        // Followed by a VACUUM unless autovacuum was faster.
        assert!(advice.starts_with(expected) && !advice.contains("quiet"), "{advice}");
        rows.execute(expected.as_str()).await?;
    }
    // By now only what is still dead is worth a word.
    rows.execute("VACUUM review.outbox").await?;
    rows.execute("VACUUM review.events_busy").await?;
    assert_eq!(advice(&worker).await?, [""; 0]);
    Ok(())
}

/// What `check` and, in the same words, `plan` advise on autovacuum.
async fn advice(worker: &Worker) -> Result<Vec<String>> {
    let finished = worker.finish(&["check", "--format", "json"]).await?;
    let check = json_of(&finished)?;
    let of_check: Vec<&Value> = check["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["id"] == "autovacuum")
        .collect();
    let finished = worker.finish(&["plan", "--format", "json"]).await?;
    let plan = json_of(&finished)?;
    let warnings =
        plan["policies"].as_array().unwrap().iter().flat_map(|policy| policy["warnings"].as_array().unwrap());
    let of_plan = warnings.filter(|warning| warning.as_str().unwrap().contains("dead rows")).count();
    assert_eq!(of_plan, of_check.len(), "{plan:#}");
    assert!(of_check.iter().all(|finding| finding["level"] == "warning"));
    Ok(of_check.iter().map(|finding| finding["advice"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn check_says_which_column_of_a_condition_is_missing_or_of_another_type() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.execute("CREATE SCHEMA s; CREATE TABLE s.t (id bigint PRIMARY KEY, at timestamptz, local timestamp, kind text)").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("policies.toml");
    for (age, condition, says) in [
        (
            "at",
            "column = \"knd\", op = \"is_null\"",
            "column knd does not exist (SQLSTATE 42703); the nearest is kind",
        ),
        ("at", "column = \"kind\", op = \"eq\", value = 7", "column kind is text, but must be a number"),
        (
            "at",
            "column = \"id\", op = \"in\", values = [\"7\"]",
            "column id is bigint, but must be text or an enum",
        ),
        ("at", "column = \"id\", op = \"eq\", value = true", "column id is bigint, but must be boolean"),
        ("local", "column = \"kind\", op = \"is_null\"", "column local is timestamp without time zone"),
    ] {
        std::fs::write(
            &file,
            format!(
                "[[policy]]\nname = \"p\"\ntable = \"s.t\"\nage_column = \"{age}\"\nretention = \"1d\"\nwhere = [{{ {condition} }}]\n"
            ),
        )?;
        let worker = Worker::on(database.url()).set("SESSION_RETENTION_POLICY_FILE", file.to_str().unwrap());
        let check = json_of(&worker.finish(&["check", "--format", "json"]).await?)?;
        let of_policy = |finding: &&Value| finding["policy"] == "p" && finding["level"] == "error";
        let found: Vec<_> = check["findings"].as_array().unwrap().iter().filter(of_policy).collect();
        assert_eq!((found.len(), &found[0]["id"]), (1, &Value::from("column-types")), "{found:?}");
        let message = found[0]["message"].as_str().unwrap();
        let line = if age == "local" { 4 } else { 6 };
        assert!(message.contains(says) && message.ends_with(&format!("policies.toml:{line})")), "{message}");
        let cleanup =
            worker.finish(&["cleanup", "--table", "t", "--older-than", "1d", "--format", "json"]).await?;
        assert_eq!(cleanup.code(), Some(1));
        assert!(json_of(&cleanup)?["policies"][0]["error"].as_str().unwrap().contains(says));
    }
    Ok(())
}
