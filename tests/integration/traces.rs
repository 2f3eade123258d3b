//! Traces of real runs, as real collectors receive them; and collectors that are no use, which must not be noticed
//! but in the log.

mod collector;
mod tree;

use std::time::{Duration, Instant};

use anyhow::Result;
use harness::{Finished, Process, Rows, TestDatabase, Worker, shape};
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use rstest::rstest;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use self::collector::{Collector, Protocol};
use self::tree::{Tree, attributes, error, number, text};

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

/// What a collector may cost once the work is done: contractual.
const LAST_EXPORT: Duration = Duration::from_secs(5);

async fn seeded() -> Result<(TestDatabase, Rows)> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.sessions(shape::trees(1, 20)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 120) AS n").await?;
    Ok((database, rows))
}

fn names(spans: &[&Span]) -> Vec<String> {
    spans.iter().map(|span| span.name.clone()).collect()
}

#[rstest]
#[case::http(Protocol::Http)]
#[case::grpc(Protocol::Grpc)]
#[tokio::test]
async fn a_run_is_a_tree_of_phases_and_batches(#[case] protocol: Protocol) -> Result<()> {
    let (database, _rows) = seeded().await?;
    let collector = Collector::start(protocol).await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_SIZE", "50")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .set("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_str())
        .set("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=one")
        // Most told in the log, and none of it may become part of the traces.
        .set("RUST_LOG", "trace");
    let (finished, report) = worker.run().await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);

    let tree = Tree::of(collector.received());
    for (name, value) in [
        ("service.name", "retention-worker"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", "one"),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(tree.resource.get(name), Some(&Value::StringValue(value.to_owned())), "{name}");
    }

    let root = tree.root();
    assert_eq!(root.name, "SessionRetentionJob");
    assert_eq!(json!(text(root, "jobRunId")), report["job_run_id"]);
    assert_eq!(json!(text(root, "outcome")), report["outcome"]);
    assert_eq!(json!(text(root, "stopReason")), report["stop_reason"]);
    let phases = tree.below(root);
    assert_eq!(names(&phases), ["phase", "phase"]);
    let mut spans = 1 + phases.len();
    for policy in report["policies"].as_array().unwrap() {
        let of_policy = |span: &&Span| json!(text(span, "phase")) == policy["policy"];
        let phase = phases.iter().copied().find(of_policy).unwrap();
        assert_eq!(json!(number(phase, "deletedCount")), policy["deleted"]);
        let batches = tree.below(phase);
        spans += batches.len();
        for batch in &batches {
            assert_eq!((batch.name.as_str(), number(batch, "batchSize") <= 50), ("batch", true));
            assert_eq!(attributes(&batch.attributes).len(), 3, "{batch:?}");
            assert!(tree.below(batch).is_empty() && of_policy(batch));
        }
        let deleted = batches.iter().map(|batch| number(batch, "deletedCount"));
        assert_eq!(json!(deleted.clone().sum::<i64>()), policy["deleted"]);
        assert_eq!(json!(deleted.filter(|deleted| *deleted > 0).count()), policy["batches"]);
    }
    assert_eq!(tree.spans.len(), spans, "nothing but the run: {:?}", tree.spans);
    for span in &tree.spans {
        assert!(error(span).is_none() && span.events.is_empty() && span.links.is_empty(), "{span:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_process_has_an_instance_of_its_own_and_each_run_a_trace() -> Result<()> {
    let (database, _rows) = seeded().await?;
    let collector = Collector::start(Protocol::Http).await?;
    let worker = Worker::on(database.url())
        .set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/v1/traces", collector.endpoint()))
        .set("OTEL_SERVICE_NAME", "retention of identity");
    worker.run().await?;
    worker.run().await?;
    let [first, second] = &collector.received()[..] else { panic!("one export of each run") };
    let (first, second) = (Tree::of(vec![first.clone()]), Tree::of(vec![second.clone()]));
    assert_eq!(first.resource["service.name"], Value::StringValue("retention of identity".to_owned()));
    assert_ne!(first.resource["service.instance.id"], second.resource["service.instance.id"]);
    assert_ne!(first.root().trace_id, second.root().trace_id);
    Ok(())
}

#[tokio::test]
async fn a_failure_is_the_status_of_its_spans_without_values_of_rows() -> Result<()> {
    let (database, rows) = seeded().await?;
    rows.session(7777, None, "Revoked", 100).await?;
    rows.execute(
        "CREATE TABLE identity.referring (id uuid REFERENCES identity.refresh_sessions (id)); \
         INSERT INTO identity.referring SELECT id FROM identity.refresh_sessions WHERE id::text LIKE '%1e61'",
    )
    .await?;
    assert_eq!(rows.number("SELECT count(*) FROM identity.referring").await?, 1);
    let collector = Collector::start(Protocol::Http).await?;
    let worker = Worker::on(database.url()).set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let (finished, report) = worker.run().await?;
    assert_eq!((finished.code(), &report["policies"][1]["failed_rows"]), (Some(1), &json!(1)), "{report}");

    let tree = Tree::of(collector.received());
    let failed: Vec<&Span> = tree.spans.iter().filter(|span| error(span).is_some()).collect();
    assert!(failed.iter().any(|span| span.name == "batch"), "{failed:?}");
    assert!(error(tree.root()).unwrap().contains("23503"));
    let phases = tree.below(tree.root());
    let refresh = phases.iter().find(|span| text(span, "phase") == "refresh").unwrap();
    let sicr = phases.iter().find(|span| text(span, "phase") == "sicr").unwrap();
    assert!(error(refresh).unwrap().contains("23503") && error(sicr).is_none());
    let told = format!("{:?}", tree.spans);
    assert!(!told.contains("1e61") && !told.contains("DELETE") && !told.contains("phone"), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_run_that_cannot_start_is_a_failed_root_alone() -> Result<()> {
    let collector = Collector::start(Protocol::Http).await?;
    let worker = Worker::on("postgres://worker@127.0.0.1:1/nothing")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    assert_eq!(worker.finish(&["run"]).await?.code(), Some(3));
    let tree = Tree::of(collector.received());
    assert_eq!((tree.spans.len(), error(tree.root()).is_some()), (1, true));
    Ok(())
}

/// Lines of the log about traces.
fn about_traces(finished: &Finished) -> Vec<&str> {
    finished
        .stderr
        .lines()
        .filter(|line| line.contains("\"message\":\"") && line.contains("traces"))
        .collect()
}

/// The end of a process whose work is done, and how long that took.
async fn after_the_work(mut process: Process) -> Result<(Finished, Duration)> {
    process.wait_for_line(|line| line.contains("\"job completed\""), DEADLINE).await?;
    let done = Instant::now();
    let finished = process.wait(DEADLINE).await?;
    Ok((finished, done.elapsed()))
}

#[rstest]
#[case::http(Protocol::Http, false)]
#[case::http_on_one_core(Protocol::Http, true)]
#[case::grpc(Protocol::Grpc, false)]
#[case::grpc_on_one_core(Protocol::Grpc, true)]
#[tokio::test]
async fn a_collector_that_never_answers_costs_no_more_than_its_bound(
    #[case] protocol: Protocol,
    #[case] one_core: bool,
) -> Result<()> {
    let (database, _rows) = seeded().await?;
    let collector = Collector::silent().await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_SIZE", "1")
        // More spans than the queue takes while the first export hangs: they are dropped, nothing waits.
        .set("OTEL_BSP_MAX_QUEUE_SIZE", "16")
        .set("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .set("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.as_str());
    let worker = if one_core { worker.on_one_core() } else { worker };
    let process = worker.spawn(&["run", "--format", "json"]).await?;
    let (finished, took) = after_the_work(process).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("\"sicr_deleted\":120"), "{}", finished.stdout);
    assert!(took < LAST_EXPORT, "{took:?}");
    assert_eq!(about_traces(&finished).len(), 1, "{}", finished.stderr);
    Ok(())
}

#[tokio::test]
async fn serve_told_to_stop_does_not_wait_for_a_collector_that_never_answers() -> Result<()> {
    let (database, _rows) = seeded().await?;
    let mut collector = Collector::silent().await?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always")
        // The export is in flight, and hangs, when the signal comes.
        .set("OTEL_BSP_SCHEDULE_DELAY", "10")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let mut process = worker.spawn(&["serve"]).await?;
    process.wait_for_line(|line| line.contains("\"job completed\""), DEADLINE).await?;
    timeout(DEADLINE, collector.connected()).await??;
    process.signal(Signal::SIGTERM)?;
    let told = Instant::now();
    let finished = process.wait(DEADLINE).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(told.elapsed() < LAST_EXPORT, "{:?}", told.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_down_is_told_once_and_changes_nothing() -> Result<()> {
    let (database, rows) = seeded().await?;
    // A port that was free a moment ago, with nobody behind it.
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let worker = Worker::on(database.url())
        .set("SESSION_RETENTION_BATCH_SIZE", "1")
        .set("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    let process = worker.spawn(&["run", "--format", "json"]).await?;
    let (finished, took) = after_the_work(process).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(took < LAST_EXPORT, "{took:?}");
    assert_eq!(rows.count_requests().await?, 0);
    let [line] = about_traces(&finished)[..] else { panic!("one line: {}", finished.stderr) };
    assert!(line.contains("\"WARN\"") && line.contains("the work goes on without them"), "{line}");
    assert!(line.to_lowercase().contains("connection refused"), "it says why: {line}");
    Ok(())
}

#[rstest]
#[case("OTEL_TRACES_EXPORTER", "none")]
#[case("OTEL_SDK_DISABLED", "true")]
#[tokio::test]
async fn switched_off_nothing_is_sent(#[case] variable: &str, #[case] value: &str) -> Result<()> {
    let (database, _rows) = seeded().await?;
    let collector = Collector::start(Protocol::Http).await?;
    let worker = Worker::on(database.url())
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .set(variable, value);
    assert_eq!(worker.run().await?.0.code(), Some(0));
    assert_eq!(collector.received(), []);
    Ok(())
}

#[rstest]
#[case::with_the_key("Bearer%20sesame", 1, 0)]
#[case::with_another("Bearer%20swordfish", 0, 1)]
#[tokio::test]
async fn headers_carry_the_credentials_and_are_not_shown(
    #[case] key: &str,
    #[case] received: usize,
    #[case] told: usize,
) -> Result<()> {
    let (database, _rows) = seeded().await?;
    let collector = Collector::start(Protocol::Http).await?;
    let worker = Worker::on(database.url())
        .set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/behind/a/key", collector.endpoint()))
        .set("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization={key}"));
    let finished = worker.finish(&["run"]).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert_eq!((collector.received().len(), about_traces(&finished).len()), (received, told));
    assert!(!finished.stderr.contains("Bearer"), "{}", finished.stderr);
    assert_eq!(finished.stderr.contains("the collector answered 401"), told == 1, "{}", finished.stderr);
    Ok(())
}
