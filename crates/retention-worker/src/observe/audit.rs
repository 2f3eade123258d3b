//! The audit trail: that data was deleted is a security fact, so the end of every run leaves one line per policy, under a
//! target of its own that no general log level silences. A run that broke off leaves what had been committed by then.

use retention_domain::{RunReport, StopReason, Target};
use tracing::info;

use super::in_flight::InFlight;
use super::policy_hash::policy_hash;
use crate::render::timestamp;

/// What the run in flight has deleted so far.
#[derive(Debug, Default)]
pub(super) struct Audit(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    policy: String,
    table: String,
    cutoff: String,
    hash: String,
    rows: u64,
    stop_reason: StopReason,
}

impl Audit {
    /// The run's policies and cutoffs are known.
    pub(super) fn begin(&mut self, targets: &[Target]) {
        let entry = |target: &Target| Entry {
            policy: target.policy.name.to_string(),
            table: target.policy.table.to_string(),
            cutoff: timestamp(target.cutoff.instant()),
            hash: policy_hash(&target.policy),
            rows: 0,
            // Until the run's report says better.
            stop_reason: StopReason::Error,
        };
        self.0 = targets.iter().map(entry).collect();
    }

    /// A batch of this policy is committed.
    pub(super) fn deleted(&mut self, policy: &str, rows: u64) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.policy == policy) {
            entry.rows += rows;
        }
    }

    /// The report has the last word on each policy.
    pub(super) fn completed(&mut self, report: &RunReport) {
        for of_report in &report.policies {
            if let Some(entry) = self.0.iter_mut().find(|entry| entry.policy == of_report.policy.as_str()) {
                entry.rows = of_report.deleted;
                entry.stop_reason = of_report.stop_reason;
            }
        }
    }
}

/// Writes the trail of the run that is over; nothing for one that never had cutoffs.
pub(super) fn tell(run: &InFlight) {
    for Entry { policy, table, cutoff, hash, rows, stop_reason } in &run.audit.0 {
        info!(
            target: "audit",
            parent: run.span(),
            jobRunId = run.job_run_id(),
            policy,
            table,
            cutoff,
            rows,
            stopReason = stop_reason.as_str(),
            policyHash = hash,
            "rows deleted by policy"
        );
    }
}
