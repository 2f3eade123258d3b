//! The values after scripted runs.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use retention_domain::{Backlog, StopReason};

use super::*;
use crate::observe::fixtures::{self, INTERVAL, NIGHT};

/// The samples of a rendering, by series.
fn samples(metrics: &Metrics) -> BTreeMap<String, String> {
    let page = metrics.render();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap()).collect()
}

fn sample(metrics: &Metrics, series: &str) -> String {
    let series = format!("identity_session_retention_{series}");
    samples(metrics).remove(&series).unwrap_or_else(|| panic!("no series {series}"))
}

fn report(stop_reason: StopReason, backlog: Option<Backlog>) -> RunReport {
    let policies = fixtures::policies();
    let policies =
        policies.iter().map(|policy| PolicyReport { stop_reason, backlog, ..fixtures::part(policy) });
    RunReport { policies: policies.collect(), ..fixtures::report() }
}

const SICR: &str = r#"{policy="sicr",table="identity.sign_in_confirmation_requests"}"#;
const PENDING: &str = r#"{policy="sicr",state="pending",table="identity.sign_in_confirmation_requests"}"#;
const BLOCKED: &str = r#"{policy="sicr",state="blocked",table="identity.sign_in_confirmation_requests"}"#;

#[test]
fn every_series_exists_before_the_first_run() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    insta::assert_snapshot!("metrics_before_the_first_run", metrics.render());
}

#[test]
fn everything_in_the_table_is_registered_as_the_table_says() {
    let page = Metrics::new(&fixtures::policies(), INTERVAL).render();
    let types = |line: &str| line.strip_prefix("# TYPE ").map(str::to_owned);
    let mut registered: Vec<_> = page.lines().filter_map(types).collect();
    let mut tabled: Vec<_> = table::ALL.iter().map(|m| format!("{} {}", m.name, m.kind.as_str())).collect();
    registered.sort();
    tabled.sort();
    assert_eq!(registered, tabled);
}

#[test]
fn two_in_one_process_do_not_meet() {
    let (one, two) = (Metrics::new(&fixtures::policies(), INTERVAL), Metrics::new(&[], INTERVAL));
    one.slots_skipped(3);
    assert_eq!(sample(&one, "slots_skipped_total"), "3");
    assert_eq!(sample(&two, "slots_skipped_total"), "0");
}

#[test]
fn no_run_creates_a_series() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    let before: Vec<_> = samples(&metrics).into_keys().collect();
    metrics.run_ended(&report(StopReason::Drained, Some(Backlog::default())));
    metrics.run_refused(Duration::from_secs(1));
    for policy in fixtures::policies() {
        metrics.batch_ended(&policy, 5, Duration::from_millis(3));
        for kind in ERROR_KINDS {
            metrics.failed(policy.name.as_str(), kind);
        }
    }
    metrics.failed(RUN_PHASE, "clock");
    assert_eq!(samples(&metrics).into_keys().collect::<Vec<_>>(), before);
}

#[test]
fn batches_count_under_their_policy_and_under_the_specification_s_names() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    let policies = fixtures::policies();
    for (policy, deleted) in policies.iter().zip([2, 30, 400]) {
        metrics.batch_ended(policy, deleted, Duration::from_millis(3));
        metrics.batch_ended(policy, deleted, Duration::from_millis(3));
    }
    assert_eq!(sample(&metrics, "sicr_deleted_total"), "4");
    assert_eq!(sample(&metrics, "refresh_deleted_total"), "60");
    assert_eq!(sample(&metrics, &format!("deleted_total{SICR}")), "4");
    assert_eq!(sample(&metrics, r#"deleted_total{policy="outbox",table="review.outbox"}"#), "800");
    assert_eq!(sample(&metrics, r#"batch_duration_seconds_count{policy="sicr"}"#), "2");
}

#[test]
fn only_a_success_moves_last_success() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    for failed in [StopReason::Error, StopReason::Shutdown] {
        metrics.run_ended(&report(failed, None));
        assert_eq!(sample(&metrics, "last_success_timestamp_seconds"), "0", "{failed:?}");
    }
    metrics.run_ended(&report(StopReason::WindowClosed, None));
    let first = sample(&metrics, "last_success_timestamp_seconds");
    assert_eq!(first, (signed(NIGHT.timestamp()) + 1.5).to_string());
    metrics.run_ended(&report(StopReason::Error, None));
    metrics.run_refused(Duration::from_secs(1));
    assert_eq!(sample(&metrics, "last_success_timestamp_seconds"), first);
    assert_eq!(sample(&metrics, r#"runs_total{outcome="failed"}"#), "3");
    assert_eq!(sample(&metrics, r#"runs_total{outcome="stopped"}"#), "2");
    assert_eq!(sample(&metrics, "run_duration_ms_count"), "5");
}

#[test]
fn a_run_that_could_not_count_leaves_the_gauges_as_they_were() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    let backlog =
        Backlog { pending: 7, oldest_pending: Some(NIGHT - TimeDelta::hours(1)), ..Backlog::default() };
    metrics.run_ended(&report(StopReason::Error, None));
    assert_eq!(sample(&metrics, &format!("backlog{PENDING}")), "NaN");
    metrics.run_ended(&report(StopReason::MaxRunDuration, Some(backlog)));
    metrics.run_ended(&report(StopReason::MaxRunDuration, None));
    assert_eq!(sample(&metrics, &format!("backlog{PENDING}")), "7");
    assert_eq!(sample(&metrics, &format!("backlog{BLOCKED}")), "0");
    assert_eq!(sample(&metrics, &format!("oldest_due_age_seconds{PENDING}")), "3600");
    assert_eq!(sample(&metrics, &format!("oldest_due_age_seconds{BLOCKED}")), "0");
}

#[test]
fn a_failed_process_keeps_the_last_success_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("retention.prom");
    let write = |stop_reason| {
        let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
        metrics.run_ended(&report(stop_reason, None));
        metrics.write_textfile(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), metrics.render());
        sample(&metrics, "last_success_timestamp_seconds")
    };
    assert_eq!(write(StopReason::Error), "0");
    let success = write(StopReason::Drained);
    assert_ne!(success, "0");
    assert_eq!(write(StopReason::Error), success);
}

#[test]
fn a_run_of_twenty_minutes_lands_in_a_finite_bucket() {
    let metrics = Metrics::new(&fixtures::policies(), INTERVAL);
    metrics
        .run_ended(&RunReport { duration: Duration::from_secs(1200), ..report(StopReason::Drained, None) });
    assert_eq!(sample(&metrics, r#"run_duration_ms_bucket{le="900000"}"#), "0");
    assert_eq!(sample(&metrics, r#"run_duration_ms_bucket{le="1200000"}"#), "1");
    assert_eq!(sample(&metrics, r#"run_duration_ms_bucket{le="3600000"}"#), "1");
}

#[test]
fn a_skew_keeps_its_sign_and_its_fraction() {
    let metrics = Metrics::new(&[], INTERVAL);
    metrics.clock_compared(-1_500);
    metrics.next_run_at(NIGHT);
    assert_eq!(sample(&metrics, "clock_skew_seconds"), "-1.5");
    assert_eq!(sample(&metrics, "next_run_timestamp_seconds"), NIGHT.timestamp().to_string());
}
