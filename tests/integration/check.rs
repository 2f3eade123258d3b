//! `check` against real defects, each made in a database of its own and looked at with the least privilege: that it
//! finds the defect and nothing else, that a run fails where it says so, and that its advice mends it.
//!
//! A skew of the clocks is not made here: the unit tests of the command judge it.

mod rights_and_indexes;
mod table;

use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Role, Rows, TestDatabase, Worker, shape};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);
const GRANTS: &str = include_str!("../../deploy/postgres/grants.sql");
const RETENTION_INDEX: &str = include_str!("../../deploy/postgres/retention-index.sql");

const SESSIONS: &str = "identity.refresh_sessions";
const SELF_KEY: &str = "refresh_sessions_parent_session_id_fkey";

/// A database in which everything is as the deployment's files make it, with due rows in both tables.
struct Deployed {
    // Before the database: it has to go first.
    role: Role,
    rows: Rows,
    _database: TestDatabase,
}

impl Deployed {
    async fn new() -> Result<Self> {
        let database = TestDatabase::migrated().await?;
        let rows = Rows::of(&database).await?;
        // All of the same age.
        rows.sessions(shape::singles(1, 3)).await?;
        rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 3) AS n").await?;
        rows.execute(RETENTION_INDEX).await?;
        let role = Role::create(&database, "").await?;
        let (_, grants) = GRANTS.split_once("BEGIN;").context("no transaction in the grants")?;
        rows.execute(format!("BEGIN;{}", grants.replace(":\"worker\"", role.name()))).await?;
        Ok(Self { role, rows, _database: database })
    }

    /// With this defect; `WORKER` stands for the worker's role.
    async fn with(defect: &str) -> Result<Self> {
        let deployed = Self::new().await?;
        deployed.execute(defect).await?;
        Ok(deployed)
    }

    /// One statement after the other, each in a transaction of its own.
    async fn execute(&self, statements: &str) -> Result<()> {
        for statement in statements.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            self.rows.execute(statement.replace("WORKER", self.role.name())).await?;
        }
        Ok(())
    }

    fn worker(&self) -> Worker {
        Worker::on(self.role.url())
    }

    /// The findings that are not ok, and the exit code.
    async fn check(&self) -> Result<(Vec<Value>, Option<i32>)> {
        let finished = self.worker().finish(&["check", "--format", "json"]).await?;
        let all: Value = serde_json::from_str(&finished.stdout).with_context(|| format!("{finished:?}"))?;
        let all = all["findings"].as_array().context("no findings")?;
        for finding in all {
            assert_eq!(finding["advice"].is_null(), finding["level"] == "ok", "{finding}");
        }
        let bad = all.iter().filter(|finding| finding["level"] != "ok").cloned().collect();
        Ok((bad, finished.code()))
    }

    /// Finds exactly this, and returns it.
    async fn finds(&self, id: &str, policy: &str, level: &str, says: &str) -> Result<Value> {
        let (mut bad, code) = self.check().await?;
        assert_eq!(bad.len(), 1, "{bad:#?}");
        let finding = bad.remove(0);
        assert_eq!(
            (&finding["id"], &finding["policy"], &finding["level"]),
            (&json!(id), &json!(policy), &json!(level))
        );
        assert!(finding["message"].as_str().unwrap().contains(says), "{finding}");
        assert_eq!(code, Some(i32::from(level == "error")));
        Ok(finding)
    }

    async fn is_ok(&self) -> Result<()> {
        assert_eq!(self.check().await?, (Vec::new(), Some(0)));
        Ok(())
    }

    /// Does what a finding advises.
    async fn mend(&self, finding: &Value) -> Result<()> {
        let advice = finding["advice"].as_str().context("no advice")?;
        let starts = ["GRANT ", "CREATE ", "DROP ", "ALTER "].iter().filter_map(|verb| advice.find(verb));
        let (start, end) =
            (starts.min().context("no statement")?, advice.rfind(';').context("no statement")?);
        for statement in advice[start..end].split(';') {
            self.rows.execute(statement).await?;
        }
        Ok(())
    }

    /// A run fails, for this policy alone.
    async fn run_fails(&self, policy: &str) -> Result<()> {
        let (finished, report) = self.worker().run().await?;
        assert_eq!(finished.code(), Some(1), "{report:#}");
        for part in report["policies"].as_array().unwrap() {
            assert_eq!(part["error"].is_null(), part["policy"] != policy, "{report:#}");
        }
        Ok(())
    }
}

#[tokio::test]
async fn under_the_deployments_grants_and_index_all_is_ok_and_a_run_works() -> Result<()> {
    let deployed = Deployed::new().await?;
    let finished = deployed.worker().finish(&["check", "--format", "json"]).await?;
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let findings: Value = serde_json::from_str(&finished.stdout)?;
    let findings = findings["findings"].as_array().unwrap();
    // Written anew by hand: the keys and their order are public interface.
    let spelled_out: Vec<String> = findings
        .iter()
        .map(|finding| {
            let of = |key: &str| finding[key].to_string();
            format!(
                r#"{{"id":{},"policy":{},"level":{},"message":{},"advice":null}}"#,
                of("id"),
                of("policy"),
                of("level"),
                of("message")
            )
        })
        .collect();
    assert_eq!(finished.stdout, format!("{{\"findings\":[{}]}}\n", spelled_out.join(",")));
    assert!(findings.iter().all(|finding| finding["level"] == "ok"), "{findings:#?}");
    let of = |policy: &str| -> Vec<&str> {
        findings
            .iter()
            .filter(|finding| finding["policy"] == policy)
            .map(|finding| finding["id"].as_str().unwrap())
            .collect()
    };
    assert_eq!(of("run"), ["clock-skew", "read-only"]);
    let common =
        ["self-reference", "foreign-keys-in", "row-security", "triggers", "rules", "replica-identity"];
    let beginning = ["table-exists", "table-kind", "column-types", "rights"];
    assert_eq!(of("sicr"), [&beginning[..], &["age-index"], &common].concat());
    assert_eq!(of("refresh"), [&beginning[..], &["parent-index", "age-index"], &common].concat());

    let text = deployed.worker().finish(&["check"]).await?;
    assert!(
        text.stdout.ends_with("\n0 errors, 0 warnings\n") && text.stdout.contains("parent-index"),
        "{}",
        text.stdout
    );

    let (finished, report) = deployed.worker().run().await?;
    assert_eq!((finished.code(), &report["outcome"]), (Some(0), &json!("completed")), "{report:#}");
    assert_eq!((&report["sicr_deleted"], &report["refresh_deleted"]), (&json!(3), &json!(3)));
    Ok(())
}

#[tokio::test]
async fn a_read_only_server_is_an_error_of_the_run_and_recovers() -> Result<()> {
    let deployed = Deployed::with("ALTER ROLE WORKER SET default_transaction_read_only = on").await?;
    deployed.finds("read-only", "run", "error", "(SQLSTATE 25006)").await?;
    assert_eq!(deployed.worker().run().await?.0.code(), Some(1));
    deployed.execute("ALTER ROLE WORKER RESET default_transaction_read_only").await?;
    deployed.is_ok().await
}

#[tokio::test]
async fn several_defects_are_all_found() -> Result<()> {
    let deployed = Deployed::with(
        "REVOKE DELETE ON identity.sign_in_confirmation_requests FROM WORKER;\n\
         DROP INDEX identity.ix_refresh_sessions_parent_session_id;\n\
         CREATE TABLE a (session uuid REFERENCES identity.refresh_sessions);\n\
         CREATE TABLE b (session uuid REFERENCES identity.refresh_sessions)",
    )
    .await?;
    let (bad, code) = deployed.check().await?;
    let ids: Vec<_> = bad.iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    assert_eq!((ids, code), (vec!["rights", "parent-index", "foreign-keys-in", "foreign-keys-in"], Some(1)));
    Ok(())
}

#[tokio::test]
async fn locked_rows_do_not_hold_it_up_and_a_locked_table_is_told_of() -> Result<()> {
    let deployed = Deployed::new().await?;
    let mut other = deployed.rows.pool().begin().await?;
    sqlx::query("SELECT FROM identity.refresh_sessions FOR UPDATE").execute(&mut *other).await?;
    deployed.is_ok().await?;
    sqlx::query("LOCK TABLE identity.refresh_sessions").execute(&mut *other).await?;
    deployed.finds("examination", "refresh", "error", "(SQLSTATE 55P03)").await?;
    other.rollback().await?;
    deployed.is_ok().await
}

#[tokio::test]
async fn without_a_database_it_exits_3_and_prints_nothing() -> Result<()> {
    let deployed = Deployed::with("ALTER ROLE WORKER NOLOGIN").await?;
    let finished = deployed.worker().finish(&["check", "--format", "json"]).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), ""), "{}", finished.stderr);
    let finished = deployed.worker().set("SESSION_RETENTION_BATCH_SIZE", "0").finish(&["check"]).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(2), ""), "{}", finished.stderr);
    Ok(())
}

async fn readyz(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn serve_tells_of_findings_and_goes_on() -> Result<()> {
    let deployed = Deployed::with(
        "REVOKE DELETE ON identity.refresh_sessions FROM WORKER;\n\
         DROP INDEX identity.ix_refresh_sessions_parent_session_id",
    )
    .await?;
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.to_string();
    let worker = deployed.worker().set("SESSION_RETENTION_HTTP_ADDR", address.as_str());
    // Outside of the window: no run speaks between.
    let hour = deployed
        .rows
        .number("SELECT extract(hour FROM now() AT TIME ZONE 'UTC' + interval '12 hours')::bigint")
        .await?;
    let worker = worker.set("SESSION_RETENTION_NIGHT_WINDOW_UTC", format!("{hour:02}:00-{hour:02}:01"));
    let mut process = worker.spawn(&["serve"]).await?;
    let says = |text: &'static str| move |line: &str| line.contains(text);
    process.wait_for_line(says("\"message\":\"the database answers\""), DEADLINE).await?;
    let stderr = process.stderr();
    let told: Vec<Value> = stderr
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line["message"] == "preflight finding")
        .collect();
    let told: Vec<_> = told.iter().map(|line| (&line["level"], &line["check"], &line["phase"])).collect();
    let (refresh, error, warn) = (json!("refresh"), json!("ERROR"), json!("WARN"));
    let expected = [(&error, &json!("rights"), &refresh), (&warn, &json!("parent-index"), &refresh)];
    assert_eq!(told, expected, "{stderr}");
    let answer = readyz(&address).await?;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("preflight"), "{answer}");

    // Looked at again without a restart, and what stays is not told again.
    deployed.execute("GRANT DELETE ON identity.refresh_sessions TO WORKER").await?;
    process.wait_for_line(says("the preflight finds no error any more"), DEADLINE).await?;
    assert!(readyz(&address).await?.starts_with("HTTP/1.1 200"));

    // Looked at again when the database comes back, and told again.
    deployed
        .execute(
            "ALTER ROLE WORKER NOLOGIN;\n\
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'WORKER'",
        )
        .await?;
    let line = process.wait_for_line(says("the database does not answer"), DEADLINE).await?;
    assert!(line.contains("is not permitted to log in") && line.contains("28000"), "{line}");
    deployed.execute("ALTER ROLE WORKER LOGIN").await?;
    process.wait_for_line(says("\"message\":\"the database answers\""), DEADLINE).await?;
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("\"preflight finding\"").count(), 3, "{}", finished.stderr);
    Ok(())
}
