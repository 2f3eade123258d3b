//! When runs start. The calendar says which instants are slots; this waits for them, one run at a time.

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use retention_domain::calendar::Schedule;
use retention_domain::ports::{Clock, StopSignal};
use uuid::Uuid;

use crate::observe::Metrics;

/// A failed run is started again after this long (contract, section 3).
const RETRY_AFTER: TimeDelta = TimeDelta::minutes(10);
/// At most so often per slot.
const MAX_RETRIES: u32 = 3;
/// Longest single wait: the wall clock may be set, and the process may sleep, while we wait.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// How a run ended, as far as the scheduler cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Completed, or stopped by its bounds.
    Normally,
    /// Failed: worth another try in the same window.
    Failed,
}

/// Makes runs.
pub trait Runs: Sync {
    /// One run; the window closes after `window_closes_in`, if it does.
    fn run(&self, window_closes_in: Option<Duration>) -> impl Future<Output = Ended> + Send;
}

/// Is told what the scheduler decides.
pub trait SchedulerObserver: Sync {
    /// The next run starts then.
    fn next_run_at(&self, at: DateTime<Utc>);
    /// So many slots were met during a run, or slept through.
    fn slots_skipped(&self, slots: u64);
}

impl SchedulerObserver for Metrics {
    fn next_run_at(&self, at: DateTime<Utc>) {
        Self::next_run_at(self, at);
    }

    fn slots_skipped(&self, slots: u64) {
        Self::slots_skipped(self, slots);
    }
}

/// Waits for slots and starts runs in them, until told to stop.
#[derive(Debug)]
pub struct Scheduler<'a, C, G, O> {
    schedule: Schedule,
    clock: &'a C,
    stop: &'a G,
    observer: &'a O,
}

/// A run to come.
struct Due {
    at: DateTime<Utc>,
    slot: DateTime<Utc>,
    retries: u32,
}

impl<'a, C: Clock, G: StopSignal, O: SchedulerObserver> Scheduler<'a, C, G, O> {
    /// A scheduler over these slots.
    pub fn new(schedule: Schedule, clock: &'a C, stop: &'a G, observer: &'a O) -> Self {
        Self { schedule, clock, stop, observer }
    }

    /// Runs until the stop is requested. Inside the window the first run starts at once and stands for the current
    /// slot; slots missed before that are not made up.
    pub async fn run(&self, runs: &impl Runs) {
        let now = self.clock.wall();
        let mut due = match self.schedule.current_slot(now) {
            Some(slot) => Due { at: now, slot, retries: 0 },
            None => self.next(now),
        };
        loop {
            self.observer.next_run_at(due.at);
            self.wait_until(due.at).await;
            if self.stop.is_requested() {
                return;
            }
            due = self.start(due, runs).await;
        }
    }

    /// Starts the run that is due, unless its window was slept through, and says what is due next.
    async fn start(&self, due: Due, runs: &impl Runs) -> Due {
        let started = self.clock.wall();
        // How many slots have gone by since the one that is due, each of them lost: slept through before this run
        // started, or met while it lasted. The last one slept through is the one that this run stands for.
        let slept = self
            .schedule
            .slots_between(due.slot + TimeDelta::nanoseconds(1), started + TimeDelta::nanoseconds(1));
        if !self.schedule.window().is_open(started) {
            self.skipped(slept + 1);
            return self.next(started);
        }
        let slot = self.schedule.current_slot(started).unwrap_or(due.slot).max(due.slot);
        self.skipped(slept);
        let closes_in = self.schedule.window().closes_at(started);
        let closes_in = closes_in.map(|at| at.signed_duration_since(started).to_std().unwrap_or_default());
        let ended = runs.run(closes_in).await;
        let now = self.clock.wall();
        let next = self.next(now);
        self.skipped(
            self.schedule.slots_between(started + TimeDelta::nanoseconds(1), now + TimeDelta::nanoseconds(1)),
        );
        let retry_at = now + RETRY_AFTER;
        let retries = if slot == due.slot { due.retries } else { 0 };
        let same_window =
            self.schedule.window().closes_at(started) == self.schedule.window().closes_at(retry_at);
        if ended == Ended::Failed
            && retries < MAX_RETRIES
            && retry_at < next.at
            && same_window
            && self.schedule.window().is_open(retry_at)
        {
            return Due { at: retry_at, slot, retries: retries + 1 };
        }
        next
    }

    fn skipped(&self, slots: u64) {
        if slots > 0 {
            self.observer.slots_skipped(slots);
        }
    }

    /// The next slot, with jitter: several instances must not all start at the same instant.
    fn next(&self, after: DateTime<Utc>) -> Due {
        let slot = self.schedule.next_slot(after);
        let most = self.schedule.max_jitter(slot).as_millis();
        // The random bits of an identifier are as good as a generator of their own.
        let jitter = Uuid::new_v4().as_u128() % (most + 1);
        let jitter = TimeDelta::milliseconds(i64::try_from(jitter).unwrap_or_default());
        Due { at: slot + jitter, slot, retries: 0 }
    }

    /// Waits for an instant of the wall clock, in short steps.
    async fn wait_until(&self, at: DateTime<Utc>) {
        while !self.stop.is_requested() {
            let Ok(left) = at.signed_duration_since(self.clock.wall()).to_std() else { return };
            if left.is_zero() {
                return;
            }
            self.clock.wait(left.min(LOOK_AGAIN)).await;
        }
    }
}
