//! What the status says at one moment: the whole page as data, and `/status.json` as it is. Says of everything when
//! it was measured, and of what was not that it was not.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use serde::{Serialize, Serializer};

use super::levels::{self, Level, age};
use super::{Counted, Memory, Policy, Running, Status};
use crate::observe::Readiness;
use crate::render::{millis, timestamp};

/// Everything there is to see.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// When this was put together, by the process's clock.
    pub now: At,
    /// The worker's version.
    pub version: &'static str,
    /// When the process started, by its own clock.
    pub process_started_at: At,
    /// Whether personal data is leaving in time.
    pub verdict: Verdict,
    /// What the verdict rests on, in sentences, and what else a reader must know.
    pub reasons: Vec<String>,
    /// What the database was like when it was asked last.
    pub database: &'static str,
    /// When the next run starts; none before the scheduler has decided, and while a run is going on.
    pub next_run_at: Option<At>,
    /// The night window in UTC, or `always`.
    pub window: String,
    /// Whether the window is open.
    pub window_is_open: bool,
    /// Seconds from slot to slot.
    pub interval_seconds: u64,
    /// The run in flight.
    pub running: Option<RunningView>,
    /// The service levels.
    pub levels: Vec<Level>,
    /// Policy by policy.
    pub policies: Vec<PolicyView>,
    /// Runs since the process started, those forgotten included.
    pub runs_total: u64,
    /// The last of them, newest first.
    pub runs: Vec<RunView>,
}

/// An instant, told to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub DateTime<Utc>);

/// The answer to the one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every service level holds.
    Yes,
    /// One does not.
    No,
    /// None is known to be broken, and not all are known.
    NotKnownYet,
}

/// A run in flight.
#[derive(Clone, Debug, Serialize)]
pub struct RunningView {
    /// The correlation id.
    pub job_run_id: String,
    /// When it started, by the process's clock.
    pub started_at: At,
    /// Rows deleted so far.
    pub deleted: u64,
}

/// A policy and what was counted last.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyView {
    /// Its name.
    pub policy: String,
    /// Its table.
    pub table: String,
    /// How long rows are kept, in seconds.
    pub retention_seconds: u64,
    /// No row that can go may be older, in seconds.
    pub limit_seconds: u64,
    /// When the numbers below were counted; without it there are none.
    pub counted_at: Option<At>,
    /// Rows deleted by the run that counted.
    pub deleted: Option<u64>,
    /// Rows that are due and can go.
    pub pending: Option<u64>,
    /// Rows that are due and held by a descendant that stays.
    pub blocked: Option<u64>,
    /// How old the oldest pending row is by now; none without one.
    pub oldest_pending_age_seconds: Option<u64>,
    /// How old the oldest blocked row is by now; none without one.
    pub oldest_blocked_age_seconds: Option<u64>,
    /// How many nights like the last run it takes; none when that cannot be said.
    pub nights_to_drain: Option<u64>,
}

/// A run that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct RunView {
    /// The correlation id.
    pub job_run_id: String,
    /// When it started.
    pub started_at: At,
    /// How long it took, in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "as_millis")]
    pub duration: Duration,
    /// `completed`, `stopped` or `failed`.
    pub outcome: &'static str,
    /// Why it stopped.
    pub stop_reason: &'static str,
    /// Why it could not start, if it could not.
    pub refused: Option<&'static str>,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows still due; none when they could not be counted.
    pub backlog_remaining: Option<u64>,
    /// Why each policy stopped.
    pub policies: Vec<PolicyStop>,
}

/// Why a policy stopped.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyStop {
    /// The policy.
    pub policy: String,
    /// Why it stopped.
    pub stop_reason: &'static str,
}

impl Status {
    /// What there is to see now.
    #[must_use]
    pub fn view(&self, readiness: Readiness) -> View {
        let now = (self.wall)();
        let memory = self.memory();
        let interval = self.schedule.interval();
        let mut levels =
            vec![levels::recent_success(memory.last_success_at, self.process_started_at, interval, now)];
        for (policy, counted) in self.policies.iter().zip(&memory.counted) {
            let limit = levels::limit(policy.retention, interval);
            levels.push(levels::in_time(&policy.name, counted.as_ref()));
            levels.push(levels::no_stragglers(&policy.name, limit, counted.as_ref(), now));
        }
        let verdict = verdict(&levels);
        View {
            now: At(now),
            version: env!("CARGO_PKG_VERSION"),
            process_started_at: At(self.process_started_at),
            verdict,
            reasons: reasons(verdict, &levels, &memory, readiness),
            database: readiness.as_str(),
            next_run_at: memory.next_run_at.filter(|_| memory.running.is_none()).map(At),
            window: self.schedule.window().to_string(),
            window_is_open: self.schedule.window().is_open(now),
            interval_seconds: interval.as_secs(),
            running: memory.running.as_ref().map(RunningView::of),
            levels,
            policies: self
                .policies
                .iter()
                .zip(&memory.counted)
                .map(|(policy, counted)| self.policy(policy, counted.as_ref(), now))
                .collect(),
            runs_total: memory.runs_ever,
            runs: memory.runs.iter().rev().map(RunView::of).collect(),
        }
    }

    fn policy(&self, policy: &Policy, counted: Option<&Counted>, now: DateTime<Utc>) -> PolicyView {
        let backlog = counted.map(|counted| counted.backlog);
        PolicyView {
            policy: policy.name.clone(),
            table: policy.table.clone(),
            retention_seconds: policy.retention.as_secs(),
            limit_seconds: levels::limit(policy.retention, self.schedule.interval()).as_secs(),
            counted_at: counted.map(|counted| At(counted.at)),
            deleted: counted.map(|counted| counted.deleted),
            pending: backlog.map(|backlog| backlog.pending),
            blocked: backlog.map(|backlog| backlog.blocked),
            oldest_pending_age_seconds: backlog.and_then(|backlog| age(backlog.oldest_pending, now)),
            oldest_blocked_age_seconds: backlog.and_then(|backlog| age(backlog.oldest_blocked, now)),
            nights_to_drain: counted.and_then(|counted| self.nights_to_drain(counted, now)),
        }
    }

    /// How many nights what is pending takes, when each run deletes as many rows as the one that counted. None when
    /// that one deleted nothing: there is no rate then.
    fn nights_to_drain(&self, counted: &Counted, now: DateTime<Utc>) -> Option<u64> {
        if counted.backlog.pending == 0 {
            return Some(0);
        }
        let runs = (counted.deleted > 0).then(|| counted.backlog.pending.div_ceil(counted.deleted))?;
        let runs_a_night = self.schedule.slots_between(now, now + TimeDelta::days(1));
        let days = self.schedule.interval().as_secs().div_ceil(24 * 60 * 60);
        // Slots more than a day apart: so many nights a run.
        Some(if days > 1 { runs * days } else { runs.div_ceil(runs_a_night.max(1)) })
    }
}

impl RunningView {
    fn of(running: &Running) -> Self {
        Self {
            job_run_id: running.job_run_id.clone(),
            started_at: At(running.started_at),
            deleted: running.deleted,
        }
    }
}

impl RunView {
    fn of(run: &super::Run) -> Self {
        Self {
            job_run_id: run.job_run_id.clone(),
            started_at: At(run.started_at),
            duration: run.duration,
            outcome: run.outcome.as_str(),
            stop_reason: run.stop_reason.as_str(),
            refused: run.refused,
            deleted: run.deleted,
            backlog_remaining: run.backlog,
            policies: run
                .policies
                .iter()
                .map(|(policy, reason)| PolicyStop { policy: policy.clone(), stop_reason: reason.as_str() })
                .collect(),
        }
    }
}

impl Verdict {
    /// The answer in a word or three.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::No => "No",
            Self::NotKnownYet => "Not known yet",
        }
    }
}

impl Verdict {
    /// Whether the answer is yes; none while there is no answer.
    pub(super) const fn holds(self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::NotKnownYet => None,
        }
    }
}

fn verdict(levels: &[Level]) -> Verdict {
    if levels.iter().any(|level| level.holds == Some(false)) {
        Verdict::No
    } else if levels.iter().all(|level| level.holds == Some(true)) {
        Verdict::Yes
    } else {
        Verdict::NotKnownYet
    }
}

fn reasons(verdict: Verdict, levels: &[Level], memory: &Memory, readiness: Readiness) -> Vec<String> {
    let mut reasons = Vec::new();
    match verdict {
        Verdict::Yes => reasons.push("All service levels hold.".to_owned()),
        Verdict::NotKnownYet => reasons.push(match (&memory.running, memory.next_run_at) {
            (Some(_), _) => "The run that is going on counts what is left when it ends.".to_owned(),
            (None, Some(at)) if memory.runs.is_empty() => {
                format!("This process has made no run yet; the first is due at {}.", At(at))
            }
            _ => "Not everything could be counted yet.".to_owned(),
        }),
        Verdict::No => {
            for level in levels.iter().filter(|level| level.holds == Some(false)) {
                let policy = level.policy.as_deref().map(|policy| format!("{policy}: ")).unwrap_or_default();
                let measured = level.measured.as_deref().unwrap_or_default();
                let since = match (level.id, level.as_of) {
                    ("recent_success", Some(at)) => format!(" at {at}"),
                    _ => String::new(),
                };
                reasons.push(format!("{policy}{measured}{since}; the level: {}.", level.target));
            }
        }
    }
    if let Some(last) = memory.runs.back().filter(|last| last.outcome == retention_domain::Outcome::Failed) {
        let why = last.refused.unwrap_or("the log has the cause, under “phase failed”");
        reasons.push(format!("The last run failed: {why}."));
    }
    if matches!(readiness, Readiness::NoDatabase | Readiness::PreflightErrors) {
        reasons.push(format!("Now: {}.", readiness.as_str()));
    }
    reasons
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d %H:%M:%S UTC"))
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&timestamp(self.0.trunc_subsecs(0)))
    }
}

fn as_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(millis(*duration))
}
