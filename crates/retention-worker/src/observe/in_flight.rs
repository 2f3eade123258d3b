//! What the observer remembers of the run in flight: its spans, and what it has said already. Phases interleave
//! and batches run side by side, so spans have explicit parents and are never entered. Logs nothing.

use std::collections::HashMap;

use opentelemetry::Value;
use opentelemetry::trace::Status;
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::audit::Audit;

/// The run in flight; empty between runs.
#[derive(Debug)]
pub(super) struct InFlight {
    job_run_id: String,
    span: Span,
    phases: HashMap<String, Phase>,
    /// What is to be on record when it is over.
    pub(super) audit: Audit,
}

/// One policy of the run.
#[derive(Debug)]
pub(super) struct Phase {
    span: Span,
    batches: HashMap<usize, Span>,
    /// Rows deleted so far.
    deleted: i64,
    /// Attempts that failed without ending the policy.
    pub(super) retried: u64,
    /// Whether a row was set aside.
    pub(super) set_aside: bool,
    /// Whether the policy's failure was told.
    pub(super) failure_told: bool,
}

impl InFlight {
    /// No run.
    pub(super) fn none() -> Self {
        Self {
            job_run_id: String::new(),
            span: Span::none(),
            phases: HashMap::new(),
            audit: Audit::default(),
        }
    }

    /// Begins a run, unless it has begun already.
    pub(super) fn begin(&mut self, job_run_id: &str) {
        if self.job_run_id != job_run_id {
            let span = info_span!(parent: None, "SessionRetentionJob", jobRunId = job_run_id);
            *self = Self { job_run_id: job_run_id.to_owned(), span, ..Self::none() };
        }
    }

    /// What the run came to, as far as its span is concerned; `exception` if it failed.
    pub(super) fn conclude(&self, attributes: &[(&'static str, Value)], exception: Option<&str>) {
        for (name, value) in attributes {
            self.span.set_attribute(*name, value.clone());
        }
        if let Some(exception) = exception {
            mark_failed(&self.span, exception);
        }
    }

    /// The run's id; empty without a run.
    pub(super) fn job_run_id(&self) -> &str {
        &self.job_run_id
    }

    /// The run's span.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// A policy of the run; one that was not heard of yet has no span.
    pub(super) fn phase(&mut self, policy: &str) -> &mut Phase {
        self.phases.entry(policy.to_owned()).or_insert_with(Phase::untold)
    }

    /// Opens a policy's span.
    pub(super) fn open_phase(&mut self, policy: &str) {
        let span = info_span!(parent: &self.span, "phase", phase = policy);
        self.phase(policy).span = span;
    }
}

/// Gives an exported span the status of an error. The sentence holds no values of rows.
fn mark_failed(span: &Span, exception: &str) {
    span.set_status(Status::error(exception.to_owned()));
}

impl Phase {
    fn untold() -> Self {
        Self {
            span: Span::none(),
            batches: HashMap::new(),
            deleted: 0,
            retried: 0,
            set_aside: false,
            failure_told: false,
        }
    }

    /// The policy's span.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Opens the span of the batch on a lane.
    pub(super) fn open_batch(&mut self, policy: &str, lane: usize, max_rows: usize) {
        let max_rows = i64::try_from(max_rows).unwrap_or(i64::MAX);
        let span = info_span!(
            parent: &self.span, "batch", phase = policy, batchSize = max_rows, deletedCount = Empty, exception = Empty
        );
        self.batches.insert(lane, span);
    }

    /// Takes the span of the batch on a lane, which closes when the caller drops it.
    pub(super) fn close_batch(&mut self, lane: usize) -> Span {
        self.batches.remove(&lane).unwrap_or_else(Span::none)
    }

    /// Takes the span of a batch that was committed.
    pub(super) fn commit_batch(&mut self, lane: usize, deleted: u64) -> Span {
        // Spans know no unsigned numbers; tables have no more rows than this.
        let deleted = i64::try_from(deleted).unwrap_or(i64::MAX);
        self.deleted = self.deleted.saturating_add(deleted);
        let span = self.close_batch(lane);
        span.record("deletedCount", deleted);
        span
    }

    /// Takes the span of a batch that failed.
    pub(super) fn fail_batch(&mut self, lane: usize, exception: &str) {
        let span = self.close_batch(lane);
        span.record("exception", exception);
        mark_failed(&span, exception);
    }

    /// The policy has failed, as far as its span is concerned.
    pub(super) fn mark_failed(&self, exception: &str) {
        mark_failed(&self.span, exception);
    }

    /// Closes the policy's span and what is left of its batches' spans.
    pub(super) fn close(&mut self) {
        self.batches.clear();
        // Not as a field of the span: it would be part of the lines written around here.
        self.span.set_attribute("deletedCount", self.deleted);
        self.span = Span::none();
    }
}
