//! `serve` as a process: it runs at once, answers HTTP, outlives a database that is away, and stops when told.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Process, Rows, TestDatabase, Worker, server, shape};
use nix::sys::signal::Signal;
use rstest::rstest;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

/// An address that was free a moment ago.
async fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

async fn serve(url: &str) -> Result<(Process, SocketAddr)> {
    let address = free_address().await?;
    let worker = Worker::on(url)
        .set("SESSION_RETENTION_HTTP_ADDR", address.to_string())
        .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always");
    let mut process = worker.spawn(&["serve"]).await?;
    wait_for(&mut process, &["listening"]).await?;
    Ok((process, address))
}

/// Waits until each of these was logged, in any order.
async fn wait_for(process: &mut Process, messages: &[&str]) -> Result<()> {
    let missing = Cell::new(messages.len());
    let awaited = |line: &str| {
        let found = messages.iter().any(|message| line.contains(&format!("\"message\":\"{message}\"")));
        missing.set(missing.get() - usize::from(found));
        missing.get() == 0
    };
    process.wait_for_line(awaited, DEADLINE).await?;
    Ok(())
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let status = head.split(' ').nth(1).context("an answer without a status")?.parse()?;
    Ok((status, body.to_owned()))
}

async fn metrics(address: SocketAddr) -> Result<BTreeMap<String, String>> {
    let (status, body) = get(address, "/metrics").await?;
    assert_eq!(status, 200);
    let series = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Ok(series
        .map(|(name, value)| {
            (
                format!(
                    "identity_session_retention_{}",
                    name.trim_start_matches("identity_session_retention_")
                ),
                value.to_owned(),
            )
        })
        .collect())
}

fn of<'a>(metrics: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    metrics.get(&format!("identity_session_retention_{name}")).map_or("missing", String::as_str)
}

#[rstest]
#[case(Signal::SIGTERM)]
#[case(Signal::SIGINT)]
#[tokio::test]
async fn runs_at_once_answers_and_stops_with_0(#[case] signal: Signal) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::trees(1, 100)).await?;
    rows.session(1000, Some(4), "Active", 0).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 50) AS n").await?;
    let (mut process, address) = serve(database.url()).await?;
    wait_for(&mut process, &["the database answers", "job completed"]).await?;
    // Three of the first tree's rows are above the living one.
    assert_eq!((rows.count_requests().await?, rows.count_sessions().await?), (0, 4));
    assert_eq!(get(address, "/healthz").await?.0, 200);
    assert_eq!(get(address, "/readyz").await?.0, 200);
    assert_eq!(get(address, "/nothing").await?.0, 404);
    let metrics = metrics(address).await?;
    let refresh = "policy=\"refresh\"";
    let table = "table=\"identity.refresh_sessions\"";
    for (name, value) in [
        ("sicr_deleted_total", "50"),
        ("refresh_deleted_total", "697"),
        (&format!("deleted_total{{{refresh},{table}}}"), "697"),
        (&format!("backlog{{{refresh},state=\"blocked\",{table}}}"), "3"),
        (&format!("backlog{{{refresh},state=\"pending\",{table}}}"), "0"),
        ("errors_total{kind=\"row\",phase=\"sicr\"}", "0"),
        ("errors_total{kind=\"clock\",phase=\"run\"}", "0"),
        ("runs_total{outcome=\"completed\"}", "1"),
        ("runs_total{outcome=\"stopped\"}", "0"),
        ("runs_total{outcome=\"failed\"}", "0"),
        ("run_duration_ms_count", "1"),
        ("slots_skipped_total", "0"),
        ("interval_seconds", "86400"),
        ("retention_seconds{policy=\"refresh\"}", "7776000"),
        (
            &format!("batch_duration_seconds_bucket{{{refresh},le=\"+Inf\"}}"),
            of(&metrics, &format!("batch_duration_seconds_count{{{refresh}}}")),
        ),
    ] {
        assert_eq!(of(&metrics, name), value, "{name} of {metrics:#?}");
    }
    for name in ["last_success_timestamp_seconds", "next_run_timestamp_seconds", "clock_skew_seconds"] {
        assert!(of(&metrics, name).parse::<f64>()?.is_finite(), "{name}");
    }
    assert!(
        of(&metrics, &format!("oldest_due_age_seconds{{{refresh},state=\"blocked\",{table}}}"))
            .parse::<f64>()?
            > 100.0
    );

    process.signal(signal)?;
    let finished = process.wait(DEADLINE).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), ""), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("\"job started\"").count(), 1, "one run, until the next slot");
    Ok(())
}

#[tokio::test]
async fn a_taken_port_exits_2_and_touches_nothing() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_HTTP_ADDR", address.clone())
        .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always");
    let finished = worker.finish(&["serve"]).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(2), ""));
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
    assert_eq!(rows.count_requests().await?, 1);
    Ok(())
}

#[tokio::test]
async fn stays_up_without_a_database_and_recovers_with_it() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    let mut admin = PgConnection::connect(server().await?.maintenance_url()).await?;
    let mut allow = async |allowed: bool| {
        let statement = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", database.name());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await
    };
    allow(false).await?;
    let (mut process, address) = serve(database.url()).await?;
    wait_for(&mut process, &["the database does not answer", "phase failed"]).await?;
    assert_eq!(get(address, "/healthz").await?.0, 200);
    assert_eq!(get(address, "/readyz").await?.0, 503);
    allow(true).await?;
    wait_for(&mut process, &["the database answers"]).await?;
    assert_eq!(get(address, "/readyz").await?.0, 200);
    let metrics = metrics(address).await?;
    assert_eq!(
        (of(&metrics, "runs_total{outcome=\"failed\"}"), of(&metrics, "last_success_timestamp_seconds")),
        ("1", "0")
    );
    process.signal(Signal::SIGTERM)?;
    assert_eq!(process.wait(DEADLINE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn told_to_stop_while_there_is_no_database_it_ends() -> Result<()> {
    let (mut process, address) = serve("postgres://nobody@127.0.0.1:1/nothing").await?;
    wait_for(&mut process, &["the database does not answer", "phase failed"]).await?;
    assert_eq!(get(address, "/healthz").await?.0, 200);
    process.signal(Signal::SIGTERM)?;
    // Before the grace period of 25 s is over, or any wait for the next try.
    let finished = process.wait(Duration::from_secs(20)).await?;
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), ""), "{}", finished.stderr);
    Ok(())
}

/// The window is UTC, whatever the zone of the host: minutes apart from it, or a day ahead.
#[rstest]
#[case("UTC")]
#[case("Asia/Kolkata")]
#[case("Pacific/Kiritimati")]
#[tokio::test]
async fn outside_of_the_window_it_waits(#[case] zone: &str) -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.request(1, "Expired", 40).await?;
    // A minute that is twelve hours away, whatever the time is.
    let hour = rows
        .number("SELECT extract(hour FROM now() AT TIME ZONE 'UTC' + interval '12 hours')::bigint")
        .await?;
    let address = free_address().await?;
    let worker = Worker::on(database.url())
        .set("TZ", zone)
        .set("SESSION_RETENTION_HTTP_ADDR", address.to_string())
        .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", format!("{hour:02}:00-{hour:02}:01"));
    let mut process = worker.spawn(&["serve"]).await?;
    wait_for(&mut process, &["listening", "the database answers"]).await?;
    let metrics = metrics(address).await?;
    assert_eq!(
        (of(&metrics, "runs_total{outcome=\"completed\"}"), of(&metrics, "sicr_deleted_total")),
        ("0", "0")
    );
    let in_seconds = of(&metrics, "next_run_timestamp_seconds").parse::<f64>()?;
    let now = rows.number("SELECT extract(epoch FROM now())::bigint").await?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit")]
    let wait = in_seconds - now as f64;
    assert!((10.0 * 3600.0..14.0 * 3600.0).contains(&wait), "{wait}");
    process.signal(Signal::SIGTERM)?;
    let finished = process.wait(DEADLINE).await?;
    assert_eq!(finished.code(), Some(0));
    assert!(!finished.stderr.contains("job started"));
    assert_eq!(rows.count_requests().await?, 1);
    Ok(())
}
