//! The values of the metrics in [`super::metric_table`], on a registry of their own: several in one process do not
//! meet. Knows what a run's end means to each gauge; does not know when anything happens.

use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, Registry, TextEncoder,
};
use retention_domain::{Outcome, PolicyName, PolicyReport, RetentionPolicy, RunReport};

use super::metric_table::{self as table, ERROR_KINDS, RUN_PHASE, STATES};
use super::register::{counter, counters, gauge, gauges, histogram, histograms};
use super::textfile::{self, TextfileError};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// All metrics of one worker.
///
/// # Invariant
/// From [`Metrics::new`] on, every series that the given policies can have exists.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    sicr_deleted: IntCounter,
    refresh_deleted: IntCounter,
    deleted: IntCounterVec,
    runs: IntCounterVec,
    errors: IntCounterVec,
    slots_skipped: IntCounter,
    backlog: GaugeVec,
    oldest_due_age: GaugeVec,
    last_success: Gauge,
    next_run: Gauge,
    clock_skew: Gauge,
    run_duration: Histogram,
    batch_duration: HistogramVec,
}

impl Metrics {
    /// Metrics of a worker with these policies, all at their first values.
    #[must_use]
    pub fn new(policies: &[RetentionPolicy], interval: Duration) -> Self {
        let registry = Registry::new();
        let metrics = Self {
            sicr_deleted: counter(&registry, &table::SICR_DELETED),
            refresh_deleted: counter(&registry, &table::REFRESH_DELETED),
            deleted: counters(&registry, &table::DELETED),
            runs: counters(&registry, &table::RUNS),
            errors: counters(&registry, &table::ERRORS),
            slots_skipped: counter(&registry, &table::SLOTS_SKIPPED),
            backlog: gauges(&registry, &table::BACKLOG),
            oldest_due_age: gauges(&registry, &table::OLDEST_DUE_AGE),
            last_success: gauge(&registry, &table::LAST_SUCCESS),
            next_run: gauge(&registry, &table::NEXT_RUN),
            clock_skew: gauge(&registry, &table::CLOCK_SKEW),
            run_duration: histogram(&registry, &table::RUN_DURATION),
            batch_duration: histograms(&registry, &table::BATCH_DURATION),
            registry,
        };
        gauge(&metrics.registry, &table::INTERVAL).set(interval.as_secs_f64());
        let retention = gauges(&metrics.registry, &table::RETENTION);
        metrics.next_run.set(f64::NAN);
        metrics.clock_skew.set(f64::NAN);
        for outcome in Outcome::ALL {
            metrics.runs.with_label_values(&[outcome.as_str()]);
        }
        for phase in policies.iter().map(|policy| policy.name.as_str()).chain([RUN_PHASE]) {
            for kind in ERROR_KINDS {
                metrics.errors.with_label_values(&[phase, kind]);
            }
        }
        for policy in policies {
            let (name, table) = (policy.name.as_str(), policy.table.to_string());
            retention.with_label_values(&[name]).set(policy.retention.get().as_secs_f64());
            metrics.deleted.with_label_values(&[name, &table]);
            metrics.batch_duration.with_label_values(&[name]);
            for state in STATES {
                metrics.backlog.with_label_values(&[name, &table, state]).set(f64::NAN);
                metrics.oldest_due_age.with_label_values(&[name, &table, state]).set(f64::NAN);
            }
        }
        metrics
    }

    /// A batch was committed.
    pub fn batch_ended(&self, policy: &RetentionPolicy, deleted: u64, took: Duration) {
        let name = policy.name.as_str();
        self.batch_duration.with_label_values(&[name]).observe(took.as_secs_f64());
        self.deleted.with_label_values(&[name, &policy.table.to_string()]).inc_by(deleted);
        match name {
            PolicyName::SICR => self.sicr_deleted.inc_by(deleted),
            PolicyName::REFRESH => self.refresh_deleted.inc_by(deleted),
            _ => {}
        }
    }

    /// Something failed. `phase` is a policy's name or [`RUN_PHASE`], `kind` one of [`ERROR_KINDS`].
    pub fn failed(&self, phase: &str, kind: &str) {
        self.errors.with_label_values(&[phase, kind]).inc();
    }

    /// The clocks were compared: the store's minus the process's, in milliseconds.
    pub fn clock_compared(&self, skew_ms: i64) {
        self.clock_skew.set(signed(skew_ms) / 1e3);
    }

    /// A run ended with a report.
    pub fn run_ended(&self, report: &RunReport) {
        self.count_run(report.outcome(), report.duration);
        for policy in &report.policies {
            self.measure_backlog(policy, report.started_at);
        }
        if report.is_success() {
            // The database's clock at the end of the run, without another reading of any clock.
            self.last_success
                .set(signed(report.started_at.timestamp_millis()) / 1e3 + report.duration.as_secs_f64());
        }
    }

    /// A run could not start.
    pub fn run_refused(&self, took: Duration) {
        self.count_run(Outcome::Failed, took);
    }

    /// The scheduler knows when the next run starts.
    pub fn next_run_at(&self, at: DateTime<Utc>) {
        self.next_run.set(signed(at.timestamp_millis()) / 1e3);
    }

    /// This many slots passed while a run was going on.
    pub fn slots_skipped(&self, slots: u64) {
        self.slots_skipped.inc_by(slots);
    }

    /// All metrics in Prometheus' text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        // The encoder refuses nameless and empty families only, and the registry has none.
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap_or_else(|error| format!("# {error}\n"))
    }

    /// Writes [`Self::render`] to a file for a textfile collector, which never sees a half-written one. A process
    /// that has had no success keeps the file's earlier one: a failed run leaves `last_success` as it was.
    ///
    /// # Errors
    /// [`TextfileError`] when the folder or the file cannot be written; an older file then stays as it was.
    pub fn write_textfile(&self, path: &Path) -> Result<(), TextfileError> {
        if self.last_success.get() == 0.0
            && let Some(earlier) = textfile::sample(path, table::LAST_SUCCESS.name)
        {
            self.last_success.set(earlier);
        }
        textfile::replace(path, &self.render())
    }

    fn count_run(&self, outcome: Outcome, took: Duration) {
        self.runs.with_label_values(&[outcome.as_str()]).inc();
        self.run_duration.observe(took.as_secs_f64() * 1e3);
    }

    fn measure_backlog(&self, policy: &PolicyReport, started_at: DateTime<Utc>) {
        let Some(backlog) = policy.backlog else { return };
        let table = policy.table.to_string();
        let states = [(backlog.pending, backlog.oldest_pending), (backlog.blocked, backlog.oldest_blocked)];
        for (state, (rows, oldest)) in STATES.into_iter().zip(states) {
            let labels = [policy.policy.as_str(), &table, state];
            let age = oldest.map_or(0.0, |oldest| signed((started_at - oldest).num_milliseconds()) / 1e3);
            self.backlog.with_label_values(&labels).set(unsigned(rows));
            self.oldest_due_age.with_label_values(&labels).set(age);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53: no table and no date comes near")]
const fn signed(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53: no table comes near")]
const fn unsigned(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
