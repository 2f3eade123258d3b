//! The log, the spans and the numbers of scripted runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono::TimeDelta;
use retention_domain::cutoff::BeforeCalendar;
use retention_domain::plan::targets;
use retention_domain::{Backlog, Cutoff, FailureKind, RetentionPeriod};
use rstest::rstest;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument as _, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::*;
use crate::observe::fixtures::{self, CONDITION_VALUE, Captured, INTERVAL, NIGHT, RUN_ID, Still};
use crate::observe::logging::Logging;
use crate::observe::policy_hash::policy_hash;

/// An observer whose lines and spans can be looked at.
struct Bench {
    policies: Vec<RetentionPolicy>,
    metrics: Arc<Metrics>,
    observer: Observer,
    written: Captured,
    spans: Spans,
}

impl Bench {
    fn new() -> Self {
        let policies = fixtures::policies();
        let metrics = Arc::new(Metrics::new(&policies, INTERVAL));
        let observer = Observer::new(&policies, Arc::clone(&metrics), Arc::new(fixtures::status()));
        Self { policies, metrics, observer, written: Captured::default(), spans: Spans::default() }
    }

    /// Tells what `story` tells, and returns the lines as JSON.
    fn lines(&self, rust_log: &str, story: impl FnOnce(&Self)) -> Vec<Value> {
        let logging = Logging::from_values(Some(rust_log), Some("json"), false).unwrap();
        let subscriber = logging.subscriber_at(self.written.clone(), Still).with(self.spans.clone());
        tracing::subscriber::with_default(subscriber, || story(self));
        self.written.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn tell(&self, event: &RunEvent<'_>) {
        self.observer.observe(event);
    }

    fn start(&self, skew_ms: i64) {
        let targets = targets(&self.policies, NIGHT).unwrap();
        self.tell(&RunEvent::Started { job_run_id: RUN_ID, now: NIGHT, skew_ms, targets: &targets });
        for target in &targets {
            self.tell(&RunEvent::PhaseStarted { policy: &target.policy, cutoff: target.cutoff });
        }
    }

    fn batch(&self, policy: usize, deleted: u64, batches: u64) {
        let policy = &self.policies[policy];
        self.tell(&RunEvent::BatchStarted { policy, lane: 0, max_rows: 500 });
        self.tell(&RunEvent::BatchEnded {
            policy,
            lane: 0,
            deleted,
            batches,
            took: Duration::from_millis(7),
        });
    }

    fn fail(&self, policy: usize, kind: FailureKind, ends_policy: bool) {
        let failure = Failure::new(kind, "deadlock detected (40P01)");
        let policy = &self.policies[policy];
        self.tell(&RunEvent::AttemptFailed { policy, lane: Some(0), failure: &failure, ends_policy });
    }

    fn set_aside(&self, policy: usize, times: usize) {
        for _ in 0..times {
            let sentence = "a foreign key of review.attachments refers to it (23503)";
            self.tell(&RunEvent::RowSetAside { policy: &self.policies[policy], sentence });
        }
    }

    fn refuse(&self, reason: &RunRefused) {
        self.tell(&RunEvent::Refused { job_run_id: RUN_ID, reason, took: Duration::from_millis(9) });
    }

    fn sample(&self, series: &str) -> String {
        let start = format!("identity_session_retention_{series} ");
        let page = self.metrics.render();
        page.lines()
            .find_map(|line| line.strip_prefix(&start))
            .unwrap_or_else(|| panic!("no {series}"))
            .to_owned()
    }
}

/// A run with everything in it: retries, a policy that gives up, rows set aside, a backlog that was not counted.
fn eventful(bench: &Bench) {
    bench.start(-61_000);
    bench.batch(0, 500, 1);
    bench.batch(1, 20, 1);
    bench.batch(0, 0, 1);
    bench.fail(1, FailureKind::Transient, false);
    bench.fail(1, FailureKind::Fatal, true);
    bench.set_aside(2, 3);
    bench.policies.iter().for_each(|policy| bench.tell(&RunEvent::PhaseEnded { policy }));
    let mut report = fixtures::report();
    let [sicr, refresh, outbox] = &mut report.policies[..] else { unreachable!() };
    (sicr.deleted, sicr.batches) = (500, 1);
    (refresh.deleted, refresh.batches, refresh.backlog) = (20, 1, None);
    (refresh.stop_reason, refresh.error) = (StopReason::Error, Some("deadlock detected (40P01)".to_owned()));
    (outbox.stop_reason, outbox.failed_rows) = (StopReason::Error, 3);
    outbox.error = Some("3 rows could not be deleted (23503)".to_owned());
    let oldest_pending = Some(NIGHT - TimeDelta::days(9));
    outbox.backlog = Some(Backlog { pending: 3, blocked: 1, oldest_pending, oldest_blocked: oldest_pending });
    bench.tell(&RunEvent::Completed(&report));
}

fn messages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["message"].as_str().unwrap()).collect()
}

fn count(lines: &[Value], message: &str, level: &str) -> usize {
    lines.iter().filter(|line| line["message"] == message && line["level"] == level).count()
}

#[test]
fn the_log_of_an_eventful_run() {
    let bench = Bench::new();
    bench.lines("info", eventful);
    insta::assert_snapshot!("log_of_an_eventful_run", bench.written.text());
}

#[rstest]
#[case::whatever_the_level("off", 3)]
#[case::unless_it_is_named("info,audit=off", 0)]
fn each_policy_leaves_its_record(#[case] level: &str, #[case] records: usize) {
    let bench = Bench::new();
    let lines = bench.lines(level, eventful);
    let records_of: Vec<_> = lines.iter().filter(|line| line["target"] == "audit").collect();
    assert_eq!(records_of.len(), records, "{lines:#?}");
    for (line, (rows, policy)) in records_of.iter().zip([500, 20, 0].iter().zip(&bench.policies)) {
        let told = ["policy", "table", "rows", "policyHash"].map(|name| line[name].clone());
        let expected = [
            json!(policy.name.as_str()),
            json!(policy.table.to_string()),
            json!(rows),
            json!(policy_hash(policy)),
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn a_run_that_breaks_off_leaves_what_was_committed_on_record() {
    let lines = Bench::new().lines("off", |bench| {
        bench.start(0);
        bench.batch(0, 500, 1);
        bench.batch(0, 30, 2);
        bench.refuse(&RunRefused::Broken);
        bench.refuse(&RunRefused::ClockSkew { skew_ms: 7_200_000 });
    });
    let told: Vec<_> =
        lines.iter().map(|line| (&line["policy"], &line["rows"], &line["stopReason"])).collect();
    let error = json!("error");
    let of = ["sicr", "refresh", "outbox"].map(|name| json!(name));
    let rows = [json!(530), json!(0)];
    assert_eq!(told, [(&of[0], &rows[0], &error), (&of[1], &rows[1], &error), (&of[2], &rows[1], &error)]);
}

#[test]
fn every_line_carries_the_run_s_id_whatever_the_level() {
    for level in ["trace", "info", "warn", "error"] {
        let lines = Bench::new().lines(level, eventful);
        assert!(
            !lines.is_empty() && lines.iter().all(|line| line["jobRunId"] == RUN_ID),
            "{level}: {lines:#?}"
        );
    }
}

#[test]
fn every_field_is_flat_and_in_the_dictionary() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/logging.md");
    let dictionary = std::fs::read_to_string(page).unwrap();
    for line in Bench::new().lines("trace", eventful) {
        for (name, value) in line.as_object().unwrap() {
            assert!(dictionary.contains(&format!("| `{name}` |")), "docs/logging.md does not explain {name}");
            assert!(
                !value.is_object() || ["backlogRemaining", "cutoffs"].contains(&name.as_str()),
                "{name}: {value}"
            );
        }
    }
}

/// Events carry whole policies, conditions included; none of it may leak into a line or a span.
#[test]
fn nothing_of_a_policy_s_conditions_or_of_personal_columns_is_told() {
    let bench = Bench::new();
    bench.lines("trace", eventful);
    let told = format!("{}{:?}{}", bench.written.text(), bench.spans.closed(), bench.metrics.render());
    for word in [CONDITION_VALUE, "phone", "agent", "ip_address", "Rotated", "parent_session_id"] {
        assert!(!told.contains(word), "{word} was told:\n{told}");
    }
}

#[test]
fn batches_are_told_at_info_up_to_the_hundredth_and_not_when_empty() {
    let lines = Bench::new().lines("debug", |bench| {
        bench.start(0);
        (1..=102).for_each(|batches| bench.batch(0, 5, batches));
        (1..=9).for_each(|_| bench.batch(1, 0, 0));
    });
    assert_eq!(count(&lines, "batch deleted", "INFO"), 100);
    assert_eq!(count(&lines, "batch deleted", "DEBUG"), 2);
}

#[test]
fn retries_and_rows_set_aside_do_not_flood() {
    let bench = Bench::new();
    let lines = bench.lines("debug", |bench| {
        bench.start(0);
        (0..50).for_each(|_| bench.fail(0, FailureKind::Row, false));
        bench.fail(1, FailureKind::Timeout, false);
        bench.set_aside(0, 100);
    });
    assert_eq!(count(&lines, "attempt failed, retrying", "WARN"), 11);
    assert_eq!(count(&lines, "attempt failed, retrying", "DEBUG"), 40);
    assert_eq!(count(&lines, "row set aside", "WARN"), 1);
    assert_eq!(bench.sample(r#"errors_total{kind="row",phase="sicr"}"#), "150");
    assert_eq!(bench.sample(r#"errors_total{kind="transient",phase="refresh"}"#), "1");
}

#[test]
fn a_policy_s_failure_is_told_once_a_run_and_again_in_the_next() {
    let lines = Bench::new().lines("info", |bench| {
        eventful(bench);
        eventful(bench);
    });
    assert_eq!(count(&lines, "phase failed", "ERROR"), 4);
    assert_eq!(count(&lines, "row set aside", "WARN"), 2);
}

#[rstest]
#[case(60_000, 0)]
#[case(-60_000, 0)]
#[case(60_001, 1)]
#[case(-60_001, 1)]
fn a_skew_above_a_minute_is_warned_about_and_always_measured(#[case] skew_ms: i64, #[case] warnings: usize) {
    let bench = Bench::new();
    let lines = bench.lines("info", |bench| bench.start(skew_ms));
    assert_eq!(count(&lines, "clocks disagree", "WARN"), warnings);
    assert_eq!(
        bench.sample("clock_skew_seconds").parse(),
        Ok(f64::from(i32::try_from(skew_ms).unwrap()) / 1e3)
    );
}

#[rstest]
#[case(RunRefused::NoStore(Failure::new(FailureKind::Transient, "connection refused")), "transient", "NaN")]
#[case(RunRefused::NoStore(Failure::new(FailureKind::Fatal, "unknown database (3D000)")), "fatal", "NaN")]
#[case(RunRefused::ClockSkew { skew_ms: 7_200_000 }, "clock", "7200")]
#[case(RunRefused::BeforeCalendar(BeforeCalendar { keep: RetentionPeriod::from_days(1).unwrap() }), "clock", "NaN")]
fn a_run_that_could_not_start_is_told_as_failed(
    #[case] reason: RunRefused,
    #[case] kind: &str,
    #[case] skew: &str,
) {
    let bench = Bench::new();
    let lines = bench.lines("info", |bench| bench.refuse(&reason));
    assert_eq!(messages(&lines), ["phase failed", "job completed"]);
    assert_eq!(lines[0]["phase"], "run");
    assert_eq!(lines[0]["exception"], reason.to_string());
    let rest = [
        "sicrDeleted",
        "refreshDeleted",
        "durationMs",
        "backlogRemaining",
        "outcome",
        "stopReason",
        "jobRunId",
    ];
    let backlog = json!({
        "identity.sign_in_confirmation_requests": null, "identity.refresh_sessions": null, "review.outbox": null
    });
    assert_eq!(
        rest.map(|name| lines[1][name].clone()),
        [json!(0), json!(0), json!(9), backlog, json!("failed"), json!("error"), json!(RUN_ID)]
    );
    assert_eq!(bench.sample(&format!(r#"errors_total{{kind="{kind}",phase="run"}}"#)), "1");
    assert_eq!(bench.sample(r#"runs_total{outcome="failed"}"#), "1");
    assert_eq!(bench.sample("last_success_timestamp_seconds"), "0");
    assert_eq!(bench.sample("clock_skew_seconds"), skew);
}

#[test]
fn a_table_of_several_policies_has_the_sum_of_their_backlogs_or_null() {
    let mut report = fixtures::report();
    let outbox = report.policies[2].clone();
    let with =
        |pending| PolicyReport { backlog: Some(Backlog { pending, ..Backlog::default() }), ..outbox.clone() };
    report.policies = vec![with(2), with(5)];
    assert_eq!(backlog_by_table(&report), json!({ "review.outbox": 7 }));
    report.policies[0].backlog = None;
    assert_eq!(backlog_by_table(&report), json!({ "review.outbox": null }));
}

#[test]
fn a_run_without_the_built_in_policies_tells_only_its_own_cutoffs() {
    let bench = Bench::new();
    let lines = bench.lines("info", |bench| {
        let targets = targets(&bench.policies[2..], NIGHT).unwrap();
        bench.tell(&RunEvent::Started { job_run_id: RUN_ID, now: NIGHT, skew_ms: 0, targets: &targets });
    });
    assert_eq!(lines[0]["cutoffs"], json!({ "outbox": "2026-11-23T02:00:00Z" }));
    assert!(lines[0].get("cutoffSicr").is_none() && lines[0].get("cutoffRefresh").is_none(), "{}", lines[0]);
}

#[test]
fn spans_have_the_parents_of_their_run_though_phases_interleave() {
    let bench = Bench::new();
    bench.lines("off", |bench| {
        bench.start(0);
        let [sicr, refresh, _] = &bench.policies[..] else { unreachable!() };
        let begin = |policy, lane| {
            bench.tell(&RunEvent::BatchStarted { policy, lane, max_rows: 500 });
        };
        let end = |policy, lane, deleted| {
            bench.tell(&RunEvent::BatchEnded { policy, lane, deleted, batches: 1, took: Duration::ZERO });
        };
        begin(sicr, 0);
        begin(refresh, 1);
        begin(sicr, 1);
        end(refresh, 1, 7);
        end(sicr, 1, 6);
        bench.fail(0, FailureKind::Transient, false);
        bench.policies.iter().for_each(|policy| bench.tell(&RunEvent::PhaseEnded { policy }));
        bench.tell(&RunEvent::Completed(&fixtures::report()));
    });
    insta::assert_snapshot!("spans_of_a_run", bench.spans.closed().join("\n"));
}

#[test]
fn lines_of_others_carry_the_id_when_the_run_goes_on_in_its_span() {
    let lines = Bench::new().lines("info", |bench| {
        let work = async {
            bench.start(0);
            warn!(target: "somebody_else", "slow");
            bench.tell(&RunEvent::Completed(&fixtures::report()));
        };
        let run = work.instrument(bench.observer.run_span(RUN_ID));
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run);
    });
    let foreign = lines.iter().find(|line| line["target"] == "somebody_else").unwrap();
    assert_eq!(foreign["jobRunId"], RUN_ID);
}

#[test]
fn the_cutoffs_told_are_those_of_the_run() {
    let lines = Bench::new().lines("info", |bench| bench.start(0));
    let sicr = Cutoff::before(NIGHT, RetentionPeriod::from_days(30).unwrap()).unwrap();
    assert_eq!(lines[0]["cutoffSicr"], timestamp(sicr.instant()));
    assert_eq!(lines[0]["cutoffRefresh"], "2026-09-01T02:00:00Z");
}

#[test]
fn what_is_counted_is_what_the_run_did() {
    let bench = Bench::new();
    bench.lines("off", eventful);
    assert_eq!(bench.sample("sicr_deleted_total"), "500");
    assert_eq!(bench.sample("refresh_deleted_total"), "20");
    assert_eq!(bench.sample(r#"errors_total{kind="transient",phase="refresh"}"#), "1");
    assert_eq!(bench.sample(r#"errors_total{kind="fatal",phase="refresh"}"#), "1");
    assert_eq!(bench.sample(r#"errors_total{kind="row",phase="outbox"}"#), "3");
    assert_eq!(bench.sample(r#"runs_total{outcome="failed"}"#), "1");
    assert_eq!(bench.sample(r#"backlog{policy="outbox",state="pending",table="review.outbox"}"#), "3");
    assert_eq!(bench.sample(r#"batch_duration_seconds_count{policy="sicr"}"#), "2");
}

/// Keeps each span that closes as `parents > name {fields}`.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Recorded(BTreeMap<&'static str, String>);

impl Spans {
    fn closed(&self) -> Vec<String> {
        let mut closed = self.0.lock().unwrap().clone();
        closed.sort();
        closed
    }
}

impl Visit for Recorded {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut recorded = Recorded::default();
        attributes.record(&mut recorded);
        context.span(id).unwrap().extensions_mut().insert(recorded);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        values.record(context.span(id).unwrap().extensions_mut().get_mut::<Recorded>().unwrap());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let path: Vec<_> = span.scope().from_root().map(|span| span.name()).collect();
        let fields = &span.extensions().get::<Recorded>().unwrap().0.clone();
        self.0.lock().unwrap().push(format!("{} {fields:?}", path.join(" > ")));
    }
}

#[test]
fn the_specification_s_events_are_spelled_its_way() {
    let lines = Bench::new().lines("info", eventful);
    let told: BTreeSet<_> = messages(&lines).into_iter().collect();
    for message in ["job started", "batch deleted", "phase failed", "job completed"] {
        assert!(told.contains(message), "{told:?}");
    }
}
