//! The alerts in a real Prometheus that scrapes a real worker. `promtool test rules` shows how they behave over days and
//! weeks; this shows that they are fed by what the worker really exports.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Prometheus, Rows, TestDatabase, Worker, server};
use nix::sys::signal::Signal;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{dashboard_queries, text};

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(2);
const OVERDUE: &str = r#"ALERTS{alertname="SessionRetentionNoSuccess", alertstate="firing"}"#;

/// The rules with every `for` cut to a second. Nothing else has to be shortened: what is late is worked out from the
/// interval that the worker exports.
fn impatient_rules() -> String {
    let lines = text("deploy/prometheus/rules.yml");
    let impatient = lines.lines().map(|line| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 1s\n"),
        _ => format!("{line}\n"),
    });
    impatient.collect()
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Every query of the dashboard with its variables filled in, and what it yields.
async fn ask_all(prometheus: &Prometheus) -> Result<Vec<(String, Vec<Value>)>> {
    let mut answers = Vec::new();
    for (query, _) in dashboard_queries() {
        let filled = query.replace("$namespace", ".*").replace("$job", ".+");
        let answer = prometheus.query(&filled).await?;
        answers.push((query, answer));
    }
    Ok(answers)
}

#[tokio::test]
async fn a_database_that_is_taken_away_raises_the_alert_and_its_return_ends_it() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 50) AS n").await?;
    rows.session(1, None, "Rotated", 100).await?;
    rows.session(2, Some(1), "Active", 0).await?;
    let address = free_address()?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_HTTP_ADDR", address.to_string())
        .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always")
        .set("SESSION_RETENTION_INTERVAL", "5s");
    let folder = tempfile::tempdir()?;
    let Some(prometheus) = Prometheus::scraping(address, &impatient_rules(), folder.path()).await? else {
        return Ok(());
    };
    let mut process = worker.spawn(&["serve"]).await?;

    let has_one = |series: &[Value]| series.len() == 1;
    prometheus.wait_for("session_retention:last_success_timestamp_seconds", has_one, DEADLINE).await?;
    assert_eq!(prometheus.query(OVERDUE).await?, Vec::<Value>::new(), "it has just succeeded");
    // Quantiles and increases take two scrapes, and a rule that reads them one more evaluation.
    let ratio = "session_retention:in_time:ratio == 1";
    prometheus.wait_for(ratio, |series| series.len() == 2, DEADLINE).await?;
    assert_eq!(prometheus.broken_rules().await?, Vec::<Value>::new());
    for (query, answer) in ask_all(&prometheus).await? {
        assert!(!answer.is_empty(), "a panel without a value: {query}");
    }

    // Out with everybody, and nobody in again.
    let mut admin = PgConnection::connect(server().await?.maintenance_url()).await?;
    let name = database.name();
    let mut execute =
        async |statement: String| sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await;
    execute(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await?;
    execute(format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"))
        .await?;
    let firing = prometheus.wait_for(OVERDUE, has_one, DEADLINE).await?;
    let labels = firing[0]["metric"].as_object().context("labels")?;
    assert_eq!((&labels["job"], &labels["severity"]), (&"retention".into(), &"critical".into()));
    let refused = r#"ALERTS{alertname="SessionRetentionErrors", phase="run"}"#;
    prometheus.wait_for(refused, |series| !series.is_empty(), DEADLINE).await?;

    execute(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await?;
    prometheus.wait_for(OVERDUE, <[Value]>::is_empty, DEADLINE).await?;

    // Gone altogether, it is missed.
    process.signal(Signal::SIGTERM)?;
    assert_eq!(process.wait(DEADLINE).await?.code(), Some(0));
    let absent = r#"ALERTS{alertname="SessionRetentionAbsent", alertstate="firing", job="retention"}"#;
    prometheus.wait_for(absent, has_one, DEADLINE).await?;
    Ok(())
}
