//! What a run did: the one value that is logged, exported, printed and compared in tests.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::cutoff::Cutoff;
use crate::policy::{PolicyName, TableName};

/// Why a policy, or the run, stopped. In order of precedence: the first that applies is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopReason {
    /// It failed.
    Error,
    /// The process was asked to stop.
    Shutdown,
    /// The night window closed.
    WindowClosed,
    /// The fuse blew: normal, the next night takes the rest.
    MaxRunDuration,
    /// Everything went but what somebody else holds.
    RowsHeld,
    /// The last pass deleted nothing.
    Drained,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Every policy is drained.
    Completed,
    /// Ended normally before everything was gone.
    Stopped,
    /// At least one policy failed.
    Failed,
}

/// Rows still due when the run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Deletable rows left, skipped and failed ones included.
    pub pending: u64,
    /// Due rows held by a descendant that stays, or on a cycle.
    pub blocked: u64,
    /// Date of the oldest pending row.
    pub oldest_pending: Option<DateTime<Utc>>,
    /// Date of the oldest blocked row.
    pub oldest_blocked: Option<DateTime<Utc>>,
}

/// What happened to one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReport {
    /// The policy.
    pub policy: PolicyName,
    /// Its table.
    pub table: TableName,
    /// Its cutoff.
    pub cutoff: Cutoff,
    /// Rows deleted by acknowledged commits.
    pub deleted: u64,
    /// Batches that deleted something.
    pub batches: u64,
    /// Rows still held by somebody else after the last try.
    pub skipped: u64,
    /// Rows that refused to go and were set aside.
    pub failed_rows: u64,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What failed, with the SQLSTATE and without values of rows.
    pub error: Option<String>,
    /// What is left; `None` when it could not be counted in time.
    pub backlog: Option<Backlog>,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// New for each run; the correlation id.
    pub job_run_id: String,
    /// The database's clock when the run started: every cutoff comes from it.
    pub started_at: DateTime<Utc>,
    /// How long it took, by the process's monotonic clock.
    pub duration: Duration,
    /// One report a policy, in the order of the run.
    pub policies: Vec<PolicyReport>,
}

impl StopReason {
    /// The spelling in reports and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Shutdown => "shutdown",
            Self::WindowClosed => "window_closed",
            Self::MaxRunDuration => "max_run_duration",
            Self::RowsHeld => "rows_held",
            Self::Drained => "drained",
        }
    }
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Stopped, Self::Failed];

    /// The spelling in reports, logs and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

impl Backlog {
    /// All rows still due.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.pending + self.blocked
    }

    /// Date of the oldest row still due.
    #[must_use]
    pub fn oldest(&self) -> Option<DateTime<Utc>> {
        self.oldest_pending.into_iter().chain(self.oldest_blocked).min()
    }
}

impl RunReport {
    /// The first of the stop reasons, in their order of precedence, that any policy has.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.policies.iter().map(|policy| policy.stop_reason).min().unwrap_or(StopReason::Drained)
    }

    /// How the run ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.stop_reason() {
            StopReason::Error => Outcome::Failed,
            StopReason::Drained => Outcome::Completed,
            _ => Outcome::Stopped,
        }
    }

    /// Whether the run counts as a success for `last_success` and the alerts: it was neither failed nor cut
    /// short by a shutdown.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !matches!(self.stop_reason(), StopReason::Error | StopReason::Shutdown)
    }

    /// Rows deleted under the policy of this name; 0 when the run had none.
    #[must_use]
    pub fn deleted(&self, policy: &str) -> u64 {
        self.policies
            .iter()
            .filter(|report| report.policy.as_str() == policy)
            .map(|report| report.deleted)
            .sum()
    }

    /// All rows still due; `None` when a policy's could not be counted.
    #[must_use]
    pub fn backlog_remaining(&self) -> Option<u64> {
        self.policies.iter().map(|report| report.backlog.as_ref().map(Backlog::total)).sum()
    }
}
