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

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::period::RetentionPeriod;

    const ORDER: [StopReason; 6] = [
        StopReason::Error,
        StopReason::Shutdown,
        StopReason::WindowClosed,
        StopReason::MaxRunDuration,
        StopReason::RowsHeld,
        StopReason::Drained,
    ];

    fn day(day: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(day)
    }

    fn policy(name: &str, stop_reason: StopReason, deleted: u64, backlog: Option<Backlog>) -> PolicyReport {
        let keep = RetentionPeriod::from_days(30).unwrap();
        PolicyReport {
            policy: PolicyName::new(name),
            table: TableName::new("identity", name),
            cutoff: Cutoff::before(day(20_000), keep).unwrap(),
            deleted,
            batches: 1,
            skipped: 0,
            failed_rows: 0,
            stop_reason,
            error: None,
            backlog,
        }
    }

    fn report(policies: Vec<PolicyReport>) -> RunReport {
        RunReport {
            job_run_id: "run".to_owned(),
            started_at: day(20_000),
            duration: Duration::ZERO,
            policies,
        }
    }

    fn stopped(first: StopReason, second: StopReason) -> RunReport {
        report(vec![policy("sicr", first, 0, None), policy("refresh", second, 0, None)])
    }

    #[test]
    fn a_run_stops_for_the_first_reason_that_any_policy_has() {
        for (place, first) in ORDER.into_iter().enumerate() {
            for second in &ORDER[place..] {
                assert_eq!(stopped(first, *second).stop_reason(), first);
                assert_eq!(stopped(*second, first).stop_reason(), first);
            }
        }
        let written = ORDER.map(StopReason::as_str);
        let expected = ["error", "shutdown", "window_closed", "max_run_duration", "rows_held", "drained"];
        assert_eq!(written, expected);
    }

    #[test]
    fn a_run_fails_with_any_policy_and_completes_with_all_and_a_shutdown_is_no_success() {
        use Outcome::{Completed, Failed, Stopped};
        let outcomes = ORDER.map(|reason| stopped(reason, StopReason::Drained).outcome());
        assert_eq!(outcomes, [Failed, Stopped, Stopped, Stopped, Stopped, Completed]);
        let successes = ORDER.map(|reason| stopped(reason, StopReason::Drained).is_success());
        assert_eq!(successes, [false, false, true, true, true, true]);
        assert_eq!(Outcome::ALL.map(Outcome::as_str), ["completed", "stopped", "failed"]);
    }

    #[test]
    fn sums_are_taken_over_the_policies_of_a_name_and_over_all_backlogs() {
        let backlog = |pending, blocked| Some(Backlog { pending, blocked, ..Backlog::default() });
        let drained = StopReason::Drained;
        let mut run = report(vec![
            policy("sicr", drained, 10, backlog(2, 3)),
            policy("refresh", drained, 20, backlog(0, 7)),
        ]);
        assert_eq!((run.deleted("sicr"), run.deleted("refresh"), run.deleted("outbox")), (10, 20, 0));
        assert_eq!(run.backlog_remaining(), Some(12));
        run.policies[0].backlog = None;
        assert_eq!(run.backlog_remaining(), None, "a part is no sum");
    }

    #[test]
    fn the_oldest_row_due_is_pending_or_blocked() {
        let oldest = |oldest_pending, oldest_blocked| {
            Backlog { oldest_pending, oldest_blocked, ..Backlog::default() }.oldest()
        };
        let (older, younger) = (Some(day(100)), Some(day(200)));
        assert_eq!((oldest(older, younger), oldest(younger, older)), (older, older));
        assert_eq!(
            (oldest(None, younger), oldest(younger, None), oldest(None, None)),
            (younger, younger, None)
        );
    }
}
