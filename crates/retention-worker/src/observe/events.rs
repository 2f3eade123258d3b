//! What happens in a run, told: each event becomes its log line, its spans and its numbers here and nowhere else.
//! Events carry whole policies; only names, tables, cutoffs and counts of them are told, never a value of a row.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::ports::{RunEvent, RunObserver};
use retention_domain::{
    Failure, Outcome, PolicyName, PolicyReport, RetentionPolicy, RunRefused, RunReport, StopReason, Target,
};
use serde_json::Value;
use tracing::{Span, debug, error, info, warn};

use super::audit;
use super::in_flight::InFlight;
use super::metric_table::RUN_PHASE;
use super::metrics::Metrics;
use super::status::Status;
use crate::render::{millis, timestamp};
use crate::scheduler::SchedulerObserver;

/// Batches of a policy told at level info; what follows is told at debug. A first run over years of backlog has
/// thousands, and the run's end sums them up.
const BATCHES_AT_INFO: u64 = 100;

/// Failed attempts of a policy told at level warn; what follows is told at debug. Narrowing down on rows that
/// refuse to go fails many times by design, and the counter has them all.
const RETRIES_AT_WARN: u64 = 10;

/// A skew between the clocks that is worth a warning, in milliseconds; exactly this much is not.
const SKEW_WORTH_A_WARNING_MS: u64 = 60_000;

/// Tells of one run after another. Runs of one observer must not overlap.
#[derive(Debug)]
pub struct Observer {
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    tables: Vec<String>,
    in_flight: Mutex<InFlight>,
}

impl Observer {
    /// An observer of runs over these policies, which counts into `metrics` and keeps in `status` what people ask for.
    #[must_use]
    pub fn new(policies: &[RetentionPolicy], metrics: Arc<Metrics>, status: Arc<Status>) -> Self {
        let tables = policies.iter().map(|policy| policy.table.to_string()).collect();
        Self { metrics, status, tables, in_flight: Mutex::new(InFlight::none()) }
    }

    /// The span of a run that is about to start, for the caller to run it in: lines that others write during the
    /// run then carry its `jobRunId` too.
    pub fn run_span(&self, job_run_id: &str) -> Span {
        let mut run = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        run.begin(job_run_id);
        run.span().clone()
    }

    fn started(&self, run: &mut InFlight, job_run_id: &str, skew_ms: i64, targets: &[Target]) {
        run.begin(job_run_id);
        run.audit.begin(targets);
        self.metrics.clock_compared(skew_ms);
        self.status.run_started(job_run_id);
        let cutoff_of = |name: &str| {
            let target = targets.iter().find(|target| target.policy.name.as_str() == name)?;
            Some(timestamp(target.cutoff.instant()))
        };
        info!(
            parent: run.span(),
            jobRunId = job_run_id,
            cutoffSicr = cutoff_of(PolicyName::SICR),
            cutoffRefresh = cutoff_of(PolicyName::REFRESH),
            cutoffs = declared_cutoffs(targets),
            "job started"
        );
        if skew_ms.unsigned_abs() > SKEW_WORTH_A_WARNING_MS {
            warn!(parent: run.span(), jobRunId = job_run_id, skewMs = skew_ms, "clocks disagree");
        }
    }

    fn batch_ended(
        &self,
        run: &mut InFlight,
        policy: &RetentionPolicy,
        lane: usize,
        deleted: u64,
        batches: u64,
        took: Duration,
    ) {
        self.metrics.batch_ended(policy, deleted, took);
        self.status.rows_deleted(deleted);
        let name = policy.name.as_str();
        run.audit.deleted(name, deleted);
        let span = run.phase(name).commit_batch(lane, deleted);
        if deleted == 0 {
            return;
        }
        let job = run.job_run_id();
        if batches <= BATCHES_AT_INFO {
            info!(parent: &span, jobRunId = job, phase = name, deletedCount = deleted, "batch deleted");
        } else {
            debug!(parent: &span, jobRunId = job, phase = name, deletedCount = deleted, "batch deleted");
        }
    }

    fn attempt_failed(
        &self,
        run: &mut InFlight,
        policy: &RetentionPolicy,
        lane: Option<usize>,
        failure: &Failure,
        ends_policy: bool,
    ) {
        let (name, kind) = (policy.name.as_str(), failure.kind.label());
        let exception = failure.sentence.as_str();
        self.metrics.failed(name, kind);
        if let Some(lane) = lane {
            run.phase(name).fail_batch(lane, exception);
        }
        if ends_policy {
            run.phase(name).mark_failed(exception);
            return tell_failure(run, name, exception);
        }
        let job = run.job_run_id().to_owned();
        let phase = run.phase(name);
        phase.retried += 1;
        if phase.retried <= RETRIES_AT_WARN {
            warn!(parent: phase.span(), jobRunId = job, phase = name, kind, exception, "attempt failed, retrying");
        } else {
            debug!(parent: phase.span(), jobRunId = job, phase = name, kind, exception, "attempt failed, retrying");
        }
    }

    fn row_set_aside(&self, run: &mut InFlight, policy: &RetentionPolicy, exception: &str) {
        let name = policy.name.as_str();
        self.metrics.failed(name, "row");
        let job = run.job_run_id().to_owned();
        let phase = run.phase(name);
        // The first one is told; how many there were, `phase completed` says.
        if !phase.set_aside {
            warn!(parent: phase.span(), jobRunId = job, phase = name, exception, "row set aside");
        }
        phase.set_aside = true;
        phase.mark_failed(exception);
    }

    fn refused(&self, run: &mut InFlight, job_run_id: &str, reason: &RunRefused, took: Duration) {
        run.begin(job_run_id);
        let kind = match reason {
            RunRefused::NoStore(failure) => failure.kind.label(),
            RunRefused::ClockSkew { skew_ms } => {
                self.metrics.clock_compared(*skew_ms);
                "clock"
            }
            RunRefused::BeforeCalendar(_) => "clock",
            RunRefused::Broken => "fatal",
        };
        self.metrics.failed(RUN_PHASE, kind);
        self.metrics.run_refused(took);
        self.status.run_refused(job_run_id, reason, took);
        tell_failure(run, RUN_PHASE, &reason.to_string());
        // Only a run that broke off has a trail.
        audit::tell(run);
        run.conclude(&conclusion(Outcome::Failed, StopReason::Error), Some(&reason.to_string()));
        let backlog: Value = self.tables.iter().map(|table| (table.clone(), Value::Null)).collect();
        tell_completion(run, (0, 0), took, &backlog, Outcome::Failed, StopReason::Error);
    }

    fn completed(&self, run: &mut InFlight, report: &RunReport) {
        run.begin(&report.job_run_id);
        self.metrics.run_ended(report);
        self.status.run_ended(report);
        for policy in &report.policies {
            // A policy that only has rows set aside has failed as well, though no attempt was its last.
            if policy.stop_reason == StopReason::Error {
                tell_failure(run, policy.policy.as_str(), policy.error.as_deref().unwrap_or_default());
            }
            tell_phase(run, policy);
        }
        run.audit.completed(report);
        audit::tell(run);
        let failed: Vec<&str> = report.policies.iter().filter_map(|policy| policy.error.as_deref()).collect();
        let exception = (report.outcome() == Outcome::Failed).then(|| failed.join("; "));
        run.conclude(&conclusion(report.outcome(), report.stop_reason()), exception.as_deref());
        let deleted = (report.deleted(PolicyName::SICR), report.deleted(PolicyName::REFRESH));
        let backlog = backlog_by_table(report);
        tell_completion(run, deleted, report.duration, &backlog, report.outcome(), report.stop_reason());
    }
}

impl SchedulerObserver for Observer {
    fn next_run_at(&self, at: DateTime<Utc>) {
        self.metrics.next_run_at(at);
        self.status.next_run_at(at);
    }

    fn slots_skipped(&self, slots: u64) {
        self.metrics.slots_skipped(slots);
    }
}

impl RunObserver for Observer {
    fn observe(&self, event: &RunEvent<'_>) {
        let run = &mut *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        match *event {
            RunEvent::Started { job_run_id, skew_ms, targets, now: _ } => {
                self.started(run, job_run_id, skew_ms, targets);
            }
            RunEvent::PhaseStarted { policy, cutoff: _ } => run.open_phase(policy.name.as_str()),
            RunEvent::BatchStarted { policy, lane, max_rows } => {
                run.phase(policy.name.as_str()).open_batch(policy.name.as_str(), lane, max_rows);
            }
            RunEvent::BatchAbandoned { policy, lane } => {
                drop(run.phase(policy.name.as_str()).close_batch(lane));
            }
            RunEvent::BatchEnded { policy, lane, deleted, batches, took } => {
                self.batch_ended(run, policy, lane, deleted, batches, took);
            }
            RunEvent::AttemptFailed { policy, lane, failure, ends_policy } => {
                self.attempt_failed(run, policy, lane, failure, ends_policy);
            }
            RunEvent::RowSetAside { policy, sentence } => self.row_set_aside(run, policy, sentence),
            RunEvent::PhaseEnded { policy } => run.phase(policy.name.as_str()).close(),
            RunEvent::Refused { job_run_id, reason, took } => {
                self.refused(run, job_run_id, reason, took);
                *run = InFlight::none();
            }
            RunEvent::Completed(report) => {
                self.completed(run, report);
                *run = InFlight::none();
            }
        }
    }
}

/// Says once in a run that a phase failed.
fn tell_failure(run: &mut InFlight, phase: &str, exception: &str) {
    if !std::mem::replace(&mut run.phase(phase).failure_told, true) {
        error!(parent: run.span(), jobRunId = run.job_run_id(), phase, exception, "phase failed");
    }
}

/// Sums a policy up, so that the log tells "drained" from "stopped early".
fn tell_phase(run: &InFlight, report: &PolicyReport) {
    info!(
        parent: run.span(),
        jobRunId = run.job_run_id(),
        phase = report.policy.as_str(),
        table = report.table.to_string(),
        cutoff = timestamp(report.cutoff.instant()),
        deletedCount = report.deleted,
        batches = report.batches,
        skipped = report.skipped,
        failedRows = report.failed_rows,
        pending = report.backlog.map(|backlog| backlog.pending),
        blocked = report.backlog.map(|backlog| backlog.blocked),
        stopReason = report.stop_reason.as_str(),
        "phase completed"
    );
}

/// Closes the log of a run.
fn tell_completion(
    run: &InFlight,
    (sicr_deleted, refresh_deleted): (u64, u64),
    took: Duration,
    backlog: &Value,
    outcome: Outcome,
    stop_reason: StopReason,
) {
    info!(
        parent: run.span(),
        jobRunId = run.job_run_id(),
        sicrDeleted = sicr_deleted,
        refreshDeleted = refresh_deleted,
        durationMs = millis(took),
        backlogRemaining = backlog.to_string(),
        outcome = outcome.as_str(),
        stopReason = stop_reason.as_str(),
        "job completed"
    );
}

/// How a run ended, for its span.
fn conclusion(outcome: Outcome, stop_reason: StopReason) -> [(&'static str, opentelemetry::Value); 2] {
    [("outcome", outcome.as_str().into()), ("stopReason", stop_reason.as_str().into())]
}

/// The cutoffs of declared policies as an object; `None` when there are none.
fn declared_cutoffs(targets: &[Target]) -> Option<String> {
    let declared: serde_json::Map<_, _> = targets
        .iter()
        .filter(|target| ![PolicyName::SICR, PolicyName::REFRESH].contains(&target.policy.name.as_str()))
        .map(|target| (target.policy.name.to_string(), timestamp(target.cutoff.instant()).into()))
        .collect();
    (!declared.is_empty()).then(|| Value::Object(declared).to_string())
}

/// Rows still due, by table: the sum over the table's policies, null when one of them could not be counted.
fn backlog_by_table(report: &RunReport) -> Value {
    let mut tables = BTreeMap::new();
    for policy in &report.policies {
        let rows = policy.backlog.map(|backlog| backlog.total());
        tables
            .entry(policy.table.to_string())
            .and_modify(|sum: &mut Option<u64>| *sum = sum.zip(rows).map(|(a, b)| a + b))
            .or_insert(rows);
    }
    tables.into_iter().map(|(table, rows)| (table, Value::from(rows))).collect()
}

#[cfg(test)]
mod tests;
