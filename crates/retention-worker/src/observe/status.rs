//! What this process knows about its runs, for whoever looks at the status page. Told by the observer; asks nobody.
//! Keeps a bounded number of runs, however long the process lives, and nothing of any row but the oldest one's date.

mod levels;
mod page;
mod view;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::calendar::Schedule;
use retention_domain::{Backlog, Outcome, RetentionPolicy, RunRefused, RunReport, StopReason};

pub use page::page;
pub use view::View;

/// Runs that are remembered: seven weeks of nights.
const RUNS_KEPT: usize = 50;

/// The memory behind the status page.
pub struct Status {
    policies: Vec<Policy>,
    schedule: Schedule,
    process_started_at: DateTime<Utc>,
    wall: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    memory: Mutex<Memory>,
}

/// What is known of a policy before any run.
#[derive(Clone, Debug)]
struct Policy {
    name: String,
    table: String,
    retention: Duration,
}

#[derive(Debug, Default)]
struct Memory {
    next_run_at: Option<DateTime<Utc>>,
    running: Option<Running>,
    /// The newest last.
    runs: VecDeque<Run>,
    runs_ever: u64,
    last_success_at: Option<DateTime<Utc>>,
    /// What was counted last, policy by policy, in the order of [`Status::policies`].
    counted: Vec<Option<Counted>>,
}

/// The run in flight.
#[derive(Clone, Debug)]
struct Running {
    job_run_id: String,
    started_at: DateTime<Utc>,
    deleted: u64,
}

/// A run that has ended.
#[derive(Clone, Debug)]
struct Run {
    job_run_id: String,
    started_at: DateTime<Utc>,
    duration: Duration,
    outcome: Outcome,
    stop_reason: StopReason,
    /// Why it could not start, in fixed words: the page is open to whoever reaches the port, and an error's own text
    /// may name hosts and users.
    refused: Option<&'static str>,
    deleted: u64,
    backlog: Option<u64>,
    /// Policies and why each stopped.
    policies: Vec<(String, StopReason)>,
}

/// What a run found when it counted what it had left of a policy.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: DateTime<Utc>,
    deleted: u64,
    backlog: Backlog,
}

impl Status {
    /// Nothing has happened yet. `wall` is the process's clock.
    #[must_use]
    pub fn new(
        policies: &[RetentionPolicy],
        schedule: Schedule,
        wall: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
    ) -> Self {
        let policy = |policy: &RetentionPolicy| Policy {
            name: policy.name.to_string(),
            table: policy.table.to_string(),
            retention: policy.retention.get(),
        };
        let memory = Memory { counted: vec![None; policies.len()], ..Memory::default() };
        Self {
            policies: policies.iter().map(policy).collect(),
            schedule,
            process_started_at: wall(),
            wall: Box::new(wall),
            memory: Mutex::new(memory),
        }
    }

    /// The next run starts then.
    pub fn next_run_at(&self, at: DateTime<Utc>) {
        self.memory().next_run_at = Some(at);
    }

    /// A run has started.
    pub fn run_started(&self, job_run_id: &str) {
        let started_at = (self.wall)();
        self.memory().running = Some(Running { job_run_id: job_run_id.to_owned(), started_at, deleted: 0 });
    }

    /// A batch of the run in flight was committed.
    pub fn rows_deleted(&self, rows: u64) {
        if let Some(running) = &mut self.memory().running {
            running.deleted += rows;
        }
    }

    /// A run has ended.
    pub fn run_ended(&self, report: &RunReport) {
        let ended_at = report.started_at + report.duration;
        let mut memory = self.memory();
        for policy in &report.policies {
            let place = self.policies.iter().position(|known| known.name == policy.policy.as_str());
            // What could not be counted leaves the older count, with its time.
            if let (Some(place), Some(backlog)) = (place, policy.backlog) {
                memory.counted[place] = Some(Counted { at: ended_at, deleted: policy.deleted, backlog });
            }
        }
        if report.is_success() {
            memory.last_success_at = Some(ended_at);
        }
        memory.remember(Run {
            job_run_id: report.job_run_id.clone(),
            started_at: report.started_at,
            duration: report.duration,
            outcome: report.outcome(),
            stop_reason: report.stop_reason(),
            refused: None,
            deleted: report.policies.iter().map(|policy| policy.deleted).sum(),
            backlog: report.backlog_remaining(),
            policies: report
                .policies
                .iter()
                .map(|policy| (policy.policy.to_string(), policy.stop_reason))
                .collect(),
        });
    }

    /// A run could not start, or broke off.
    pub fn run_refused(&self, job_run_id: &str, reason: &RunRefused, took: Duration) {
        let refused = match reason {
            RunRefused::NoStore(_) => "no usable database",
            RunRefused::ClockSkew { .. } => "the clocks of database and worker are more than an hour apart",
            RunRefused::BeforeCalendar(_) => "a retention period leaves the calendar",
            RunRefused::Broken => "the run broke off because of a defect of the worker",
        };
        let started_at = (self.wall)() - took;
        let mut memory = self.memory();
        let deleted = memory.running.as_ref().map_or(0, |running| running.deleted);
        memory.remember(Run {
            job_run_id: job_run_id.to_owned(),
            started_at,
            duration: took,
            outcome: Outcome::Failed,
            stop_reason: StopReason::Error,
            refused: Some(refused),
            deleted,
            backlog: None,
            policies: Vec::new(),
        });
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn remember(&mut self, run: Run) {
        self.running = None;
        self.runs_ever += 1;
        self.runs.push_back(run);
        if self.runs.len() > RUNS_KEPT {
            self.runs.pop_front();
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status").field("policies", &self.policies).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
