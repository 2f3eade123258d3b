//! One journal of all that a run asks of its store and tells its observer, in order, one line each.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::ports::{RetentionStore, RunEvent, RunObserver};
use retention_domain::testing::{ManualClock, MemoryStore};
use retention_domain::*;

#[derive(Debug, Default)]
pub struct Journal(Mutex<Vec<String>>);

/// A store of rows in memory whose calls are noted, take as long as told, and fail as told.
#[derive(Debug)]
pub struct NotedStore<'a> {
    pub inner: MemoryStore,
    pub journal: &'a Journal,
    pub clock: &'a ManualClock,
    script: Mutex<VecDeque<Line>>,
}

/// What becomes of the next call of a kind.
#[derive(Debug)]
struct Line {
    call: &'static str,
    takes: Duration,
    fails: Option<FailureKind>,
}

impl Journal {
    pub fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<'a> NotedStore<'a> {
    pub fn new(inner: MemoryStore, journal: &'a Journal, clock: &'a ManualClock) -> Self {
        Self { inner, journal, clock, script: Mutex::default() }
    }

    /// The next `call` that the script does not yet speak of takes so long, then fails so, or does what it should.
    pub fn script(&self, call: &'static str, takes: Duration, fails: Option<FailureKind>) {
        self.lines().push_back(Line { call, takes, fails });
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self, call: &str, target: &Target, rest: &str) -> Result<(), Failure> {
        self.journal.note(format!("{call} {}{rest}", target.policy.name));
        let mut lines = self.lines();
        let Some(at) = lines.iter().position(|line| line.call == call) else { return Ok(()) };
        let Some(line) = lines.remove(at) else { return Ok(()) };
        self.clock.advance(line.takes);
        line.fails.map_or(Ok(()), |kind| Err(Failure::new(kind, "scripted")))
    }
}

impl RetentionStore for NotedStore<'_> {
    async fn now(&self) -> Result<DateTime<Utc>, Failure> {
        self.inner.now().await
    }

    async fn prepare(&self, target: &Target, limit: Duration) -> Result<(), Failure> {
        self.called("prepare", target, "")?;
        self.inner.prepare(target, limit).await
    }

    async fn count_due(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        self.called("count", target, "")?;
        self.inner.count_due(target, limit).await
    }

    async fn sample(&self, target: &Target, one_in: u64, limit: Duration) -> Result<Sample, Failure> {
        self.called("sample", target, &format!(" one block in {one_in} within {} ms", limit.as_millis()))?;
        self.inner.sample(target, one_in, limit).await
    }

    async fn window(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        self.called("window", target, "")?;
        self.inner.window(target, after, max_rows, limit).await
    }

    async fn leaves(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        self.called("leaves", target, "")?;
        self.inner.leaves(target, after, max_rows, limit).await
    }

    async fn climb(
        &self,
        target: &Target,
        from: &[RowAddress],
        max_rows: usize,
        limit: Duration,
    ) -> Result<Vec<WindowRow>, Failure> {
        self.called("climb", target, &format!(" from {}", listed(from)))?;
        self.inner.climb(target, from, max_rows, limit).await
    }

    async fn delete_batch(&self, target: &Target, request: &BatchRequest) -> Result<BatchDone, Failure> {
        let contended = if request.contended { " contended" } else { "" };
        let limit = request.limit.as_millis();
        self.called("delete", target, &format!(" {} within {limit} ms{contended}", listed(&request.rows)))?;
        self.inner.delete_batch(target, request).await
    }

    async fn backlog(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        self.called("backlog", target, &format!(" within {} ms", limit.as_millis()))?;
        self.inner.backlog(target, limit).await
    }

    async fn preview(&self, target: &Target, limit: Duration) -> Result<Preview, Failure> {
        self.inner.preview(target, limit).await
    }
}

fn listed(rows: &[RowAddress]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.0.to_string()).collect();
    rows.join("+")
}

impl RunObserver for Journal {
    fn observe(&self, event: &RunEvent<'_>) {
        self.note(match event {
            RunEvent::Started { job_run_id, skew_ms, targets, .. } => {
                format!("- started {job_run_id}, skew {skew_ms} ms, policies {}", targets.len())
            }
            RunEvent::PhaseStarted { policy, cutoff } => {
                format!("- phase {} before {}", policy.name, cutoff.instant().timestamp())
            }
            RunEvent::BatchStarted { policy, lane, max_rows } => {
                format!("- batch {} on {lane}, at most {max_rows}", policy.name)
            }
            RunEvent::BatchEnded { policy, lane, deleted, batches, took } => format!(
                "- batch {} on {lane} deleted {deleted}, batches {batches}, {} ms",
                policy.name,
                took.as_millis()
            ),
            RunEvent::BatchAbandoned { policy, lane } => format!("- abandoned {} on {lane}", policy.name),
            RunEvent::AttemptFailed { policy, lane, failure, ends_policy } => {
                let place = lane.map_or_else(|| "scan".to_owned(), |lane| lane.to_string());
                let last = if *ends_policy { ", the last" } else { "" };
                format!("- attempt {} on {place} failed: {failure}{last}", policy.name)
            }
            RunEvent::RowSetAside { policy, sentence } => format!("- aside {}: {sentence}", policy.name),
            RunEvent::PhaseEnded { policy } => format!("- ended {}", policy.name),
            RunEvent::Refused { job_run_id, took, .. } => {
                format!("- refused {job_run_id} after {} ms", took.as_millis())
            }
            RunEvent::Completed(report) => format!("- completed {}", report.stop_reason().as_str()),
        });
    }
}
