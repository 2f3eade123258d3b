//! The one run loop: interleaves the policies over the lanes (connections), until each has ended.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::batch::{BatchDone, BatchRequest, RowAddress, Sample, Window, WindowMark, WindowRow};
use crate::cutoff::BeforeCalendar;
pub use crate::drain::WINDOW_ROWS;
use crate::drain::{CLIMB_ROWS, Drain, Next, Step, Verdict};
use crate::failure::{Failure, FailureKind};
use crate::plan::{Target, targets};
use crate::policy::RetentionPolicy;
use crate::ports::{Clock, RetentionStore, RunEvent, RunObserver, StopSignal};
use crate::report::{Backlog, RunReport, StopReason};
use crate::slice::Slice;

/// Above this the run is refused: cutoffs cannot be trusted (contract, section 3).
const MAX_SKEW_MS: i64 = 3_600_000;
/// No statement is started with less than this left: PostgreSQL counts whole milliseconds and takes 0 for no limit.
const LEAST_LIMIT: Duration = Duration::from_millis(1);

/// Bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Rows per batch, 1 to 10000.
    pub batch_size: u32,
    /// Pause after each batch that deleted something, per connection; never after the last.
    pub batch_pause: Duration,
    /// Fuse for one run.
    pub max_run_duration: Duration,
    /// How long the night window stays open from the start of the run; `None` when no window applies.
    pub window_closes_in: Option<Duration>,
    /// Bound of a statement that locks or deletes.
    pub statement_timeout: Duration,
    /// Bound for waiting on a lock; also how long held rows are waited for before their last try.
    pub lock_timeout: Duration,
    /// Connections that delete at the same time. At least 1.
    pub concurrency: usize,
    /// Rows of a window while two policies or fewer take turns: [`WINDOW_ROWS`]. No setting; tests make it small.
    pub window_rows: usize,
}

/// One run to be made.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// New for each run.
    pub job_run_id: String,
    /// What to drain, in order.
    pub policies: Vec<RetentionPolicy>,
    /// Its bounds.
    pub limits: RunLimits,
}

/// Why there is no report of a run. Nothing was touched, unless the run broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRefused {
    /// The store did not answer, or refuses us.
    #[error("no usable database: {0}")]
    NoStore(Failure),
    /// The clocks are too far apart for cutoffs to be trusted.
    #[error(
        "the database's clock and this process's are {} s apart, more than an hour: nothing is deleted until they agree",
        skew_ms / 1000
    )]
    ClockSkew {
        /// Store's clock minus process's clock.
        skew_ms: i64,
    },
    /// The run broke off: a defect of this program. What was committed stays.
    #[error("the run broke off because of a defect of this program")]
    Broken,
    /// A retention period leaves the calendar.
    #[error(transparent)]
    BeforeCalendar(#[from] BeforeCalendar),
}

/// What a step brought.
enum Brought {
    Prepared(Result<(), Failure>),
    Counted(Result<Backlog, Failure>),
    Sampled(Result<Sample, Failure>),
    Scanned(Option<WindowMark>, Result<Window, Failure>),
    Climbed(Vec<RowAddress>, Result<Vec<WindowRow>, Failure>),
    Deleted(Slice, Result<BatchDone, Failure>, Duration),
    /// The time was up before it was sent.
    NotSent,
}

struct StepDone {
    policy: usize,
    lane: usize,
    brought: Brought,
}

struct Run<'a, S, C, G, O> {
    store: &'a S,
    clock: &'a C,
    stop: &'a G,
    observer: &'a O,
    job_run_id: &'a str,
    limits: RunLimits,
    /// Rows of one policy's window: all windows together hold as many as two at most.
    window_rows: usize,
    began: Duration,
}

/// Drains the request's policies, once, and reports.
///
/// `now` is read once, from the store; every cutoff comes from it. Batches of the policies are interleaved, so
/// that a large backlog in one does not starve another. A policy that fails ends alone.
///
/// # Errors
/// [`RunRefused`] when the run did not start.
pub async fn run<S, C, G, O>(
    store: &S,
    clock: &C,
    stop: &G,
    observer: &O,
    request: &RunRequest,
) -> Result<RunReport, RunRefused>
where
    S: RetentionStore,
    C: Clock,
    G: StopSignal,
    O: RunObserver,
{
    let job_run_id = &request.job_run_id;
    let run = Run {
        store,
        clock,
        stop,
        observer,
        job_run_id,
        limits: request.limits,
        window_rows: share_of_rows(request.limits.window_rows, request.policies.len()),
        began: clock.monotonic(),
    };
    let started = run.start(request).await;
    let (now, targets) = started.inspect_err(|reason| {
        observer.observe(&RunEvent::Refused { job_run_id: &request.job_run_id, reason, took: run.elapsed() });
    })?;
    let mut drains: Vec<_> = targets
        .iter()
        .map(|target| {
            let batch_size = target.policy.batch_size.unwrap_or(request.limits.batch_size);
            Drain::new(target, batch_size as usize, run.window_rows, request.limits.lock_timeout)
        })
        .collect();
    run.drain(&mut drains).await;
    run.count_backlogs(&mut drains).await;
    let report = RunReport {
        job_run_id: request.job_run_id.clone(),
        started_at: now,
        duration: run.elapsed(),
        policies: drains.into_iter().map(Drain::into_report).collect(),
    };
    observer.observe(&RunEvent::Completed(&report));
    Ok(report)
}

impl<'a, S, C, G, O> Run<'a, S, C, G, O>
where
    S: RetentionStore,
    C: Clock,
    G: StopSignal,
    O: RunObserver,
{
    async fn start(&self, request: &RunRequest) -> Result<(DateTime<Utc>, Vec<Target>), RunRefused> {
        let now = self.store.now().await.map_err(RunRefused::NoStore)?;
        let skew_ms = now.signed_duration_since(self.clock.wall()).num_milliseconds();
        if skew_ms.abs() > MAX_SKEW_MS {
            return Err(RunRefused::ClockSkew { skew_ms });
        }
        let targets = targets(&request.policies, now)?;
        let job_run_id = &request.job_run_id;
        self.observer.observe(&RunEvent::Started { job_run_id, now, skew_ms, targets: &targets });
        for target in &targets {
            self.observer.observe(&RunEvent::PhaseStarted { policy: &target.policy, cutoff: target.cutoff });
        }
        Ok((now, targets))
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.began)
    }

    /// What is left of the run, by whichever of fuse and window ends first.
    fn left(&self) -> Duration {
        let bound = self
            .limits
            .window_closes_in
            .map_or(self.limits.max_run_duration, |window| window.min(self.limits.max_run_duration));
        bound.saturating_sub(self.elapsed())
    }

    /// Why no further step may start, if so.
    fn halted(&self) -> Option<StopReason> {
        if self.stop.is_requested() {
            Some(StopReason::Shutdown)
        } else if self.left() >= LEAST_LIMIT {
            None
        } else if self.limits.window_closes_in.is_some_and(|window| window <= self.elapsed() + LEAST_LIMIT) {
            Some(StopReason::WindowClosed)
        } else {
            Some(StopReason::MaxRunDuration)
        }
    }

    async fn drain(&self, drains: &mut [Drain<'a>]) {
        let lanes = self.limits.concurrency.max(1);
        let mut idle: Vec<usize> = (0..lanes).rev().collect();
        let mut pause_until = vec![Duration::ZERO; lanes];
        let mut running = FuturesUnordered::new();
        let mut turn = 0;
        loop {
            if let Some(reason) = self.halted() {
                for drain in drains.iter_mut() {
                    drain.stop(reason);
                }
            }
            let mut wake: Option<Duration> = None;
            while let Some(lane) = idle.pop() {
                match pick(drains, &mut turn, self.clock.monotonic()) {
                    Ok((policy, step)) => {
                        running.push(self.execute(
                            drains[policy].target(),
                            policy,
                            lane,
                            step,
                            pause_until[lane],
                        ));
                    }
                    Err(not_before) => {
                        idle.push(lane);
                        wake = not_before;
                        break;
                    }
                }
            }
            for drain in drains.iter_mut().filter_map(|drain| drain.take_ended().then_some(&*drain)) {
                self.observer.observe(&RunEvent::PhaseEnded { policy: &drain.target().policy });
            }
            if let Some(done) = running.next().await {
                idle.push(done.lane);
                if matches!(&done.brought, Brought::Deleted(_, Ok(batch), _) if batch.deleted > 0) {
                    let pause = drains[done.policy].target().policy.batch_pause;
                    pause_until[done.lane] =
                        self.clock.monotonic() + pause.unwrap_or(self.limits.batch_pause);
                }
                self.absorb(&mut drains[done.policy], done.lane, done.brought);
            } else if let Some(wake) = wake {
                self.clock.wait(wake.saturating_sub(self.clock.monotonic()).min(self.left())).await;
            } else {
                return;
            }
        }
    }

    /// Runs one step. A batch first waits out its lane's pause: between transactions, never inside one.
    fn execute(
        &self,
        target: &'a Target,
        policy: usize,
        lane: usize,
        step: Step,
        pause_until: Duration,
    ) -> BoxFuture<'_, StepDone> {
        Box::pin(async move {
            let brought = match step {
                Step::Prepare => Brought::Prepared(self.store.prepare(target, self.left()).await),
                Step::Count => Brought::Counted(self.store.count_due(target, self.left()).await),
                Step::Sample(one_in) => {
                    let limit = self.left().min(self.limits.statement_timeout);
                    Brought::Sampled(self.store.sample(target, one_in, limit).await)
                }
                Step::Window(after) => Brought::Scanned(
                    after,
                    self.store.window(target, after, self.window_rows, self.left()).await,
                ),
                Step::Leaves(after) => Brought::Scanned(
                    after,
                    self.store.leaves(target, after, self.window_rows, self.left()).await,
                ),
                Step::Climb(from) => {
                    let climbed =
                        self.store.climb(target, &from, CLIMB_ROWS.min(self.window_rows), self.left()).await;
                    Brought::Climbed(from, climbed)
                }
                Step::Batch(slice) => {
                    let pause = pause_until.saturating_sub(self.clock.monotonic()).min(self.left());
                    if !pause.is_zero() {
                        self.clock.wait(pause).await;
                    }
                    if self.halted().is_some() {
                        Brought::NotSent
                    } else {
                        self.send(target, lane, slice).await
                    }
                }
            };
            StepDone { policy, lane, brought }
        })
    }

    async fn send(&self, target: &Target, lane: usize, slice: Slice) -> Brought {
        let limit = self.limits.statement_timeout.min(share_of(self.left())).max(LEAST_LIMIT);
        let request = BatchRequest {
            job_run_id: self.job_run_id.to_owned(),
            rows: slice.rows.clone(),
            limit,
            contended: slice.contended,
        };
        let policy = &target.policy;
        self.observer.observe(&RunEvent::BatchStarted { policy, lane, max_rows: slice.rows.len() });
        let sent = self.clock.monotonic();
        let result = self.store.delete_batch(target, &request).await;
        Brought::Deleted(slice, result, self.clock.monotonic().saturating_sub(sent))
    }

    /// Hands a step's result to its policy, and tells the observer.
    fn absorb(&self, drain: &mut Drain<'a>, lane: usize, brought: Brought) {
        let policy = &drain.target().policy;
        let now = self.clock.monotonic();
        match brought {
            Brought::NotSent => drain.not_sent(),
            Brought::Prepared(Ok(())) => drain.prepared(),
            Brought::Counted(Ok(due)) => drain.counted(due),
            Brought::Sampled(Ok(sample)) => drain.sampled(sample),
            Brought::Scanned(after, Ok(window)) => drain.scanned(after, window),
            Brought::Climbed(_, Ok(rows)) => drain.climbed(&rows),
            Brought::Deleted(slice, Ok(done), took) => {
                let (deleted, aside) = (done.deleted, drain.aside());
                drain.deleted(&slice, done);
                let batches = drain.batches();
                self.observer.observe(&RunEvent::BatchEnded { policy, lane, deleted, batches, took });
                for _ in aside..drain.aside() {
                    let sentence = drain.error().unwrap_or_default();
                    self.observer.observe(&RunEvent::RowSetAside { policy, sentence });
                }
            }
            Brought::Deleted(slice, Err(failure), _) => {
                self.failed(drain, Some(lane), &failure, |drain| drain.batch_failed(slice, &failure, now));
            }
            Brought::Sampled(Err(failure)) => {
                self.failed(drain, None, &failure, Drain::sample_failed);
            }
            Brought::Scanned(after, Err(failure)) => {
                self.failed(drain, None, &failure, |drain| drain.window_failed(after, &failure, now));
            }
            Brought::Climbed(from, Err(failure)) => {
                self.failed(drain, None, &failure, |drain| drain.climb_failed(from, &failure, now));
            }
            Brought::Prepared(Err(failure)) | Brought::Counted(Err(failure)) => {
                self.failed(drain, None, &failure, |drain| drain.scan_failed(&failure, now));
            }
        }
    }

    fn failed(
        &self,
        drain: &mut Drain<'a>,
        lane: Option<usize>,
        failure: &Failure,
        judge: impl FnOnce(&mut Drain<'a>) -> Verdict,
    ) {
        let policy = &drain.target().policy;
        // Ended by the budget, the window or the shutdown: a normal stop, not an error.
        let may_be_our_bound = !matches!(failure.kind, FailureKind::Row | FailureKind::Fatal);
        if may_be_our_bound && self.halted().is_some() {
            drain.not_sent();
            if let Some(lane) = lane {
                self.observer.observe(&RunEvent::BatchAbandoned { policy, lane });
            }
            return;
        }
        let verdict = judge(drain);
        if matches!(verdict, Verdict::LookFirst | Verdict::SetAside)
            && let Some(lane) = lane
        {
            self.observer.observe(&RunEvent::BatchAbandoned { policy, lane });
        }
        if verdict == Verdict::SetAside {
            self.observer.observe(&RunEvent::RowSetAside { policy, sentence: &failure.sentence });
        } else if verdict != Verdict::LookFirst {
            let ends_policy = verdict == Verdict::GiveUp;
            self.observer.observe(&RunEvent::AttemptFailed { policy, lane, failure, ends_policy });
        }
    }

    /// Counts what is left. Bounded by what is left of the run; when nothing is, by one statement timeout for all
    /// policies together, so that a run that hit its fuse still tells how much remains. Skipped on shutdown.
    async fn count_backlogs(&self, drains: &mut [Drain<'a>]) {
        let bound = self.left().max(self.limits.statement_timeout);
        let from = self.clock.monotonic();
        for drain in drains {
            let left = bound.saturating_sub(self.clock.monotonic().saturating_sub(from));
            if !drain.wants_backlog() || left < LEAST_LIMIT || self.stop.is_requested() {
                continue;
            }
            // Where nothing deletable is left, all that is due is blocked: a plain count suffices.
            let counted = if drain.leaves_only_blocked() {
                self.store.count_due(drain.target(), left).await.map(|due| Backlog {
                    pending: 0,
                    blocked: due.pending,
                    oldest_pending: None,
                    oldest_blocked: due.oldest_pending,
                })
            } else {
                self.store.backlog(drain.target(), left).await
            };
            match counted {
                Ok(backlog) => drain.set_backlog(backlog),
                // Ended by the run's own bounds, like any other statement: not an error.
                Err(failure) if failure.kind != FailureKind::Fatal && self.halted().is_some() => {}
                Err(failure) => {
                    let policy = &drain.target().policy;
                    let event =
                        RunEvent::AttemptFailed { policy, lane: None, failure: &failure, ends_policy: false };
                    self.observer.observe(&event);
                }
            }
        }
    }
}

/// How much of the time left one batch may take: a part, so that a batch too large for it leaves time for smaller
/// ones and for the other policies, instead of using a short run up and ending it with nothing done.
fn share_of(left: Duration) -> Duration {
    const ENOUGH_FOR_A_SMALL_BATCH: Duration = Duration::from_millis(250);
    (left / 4).max(ENOUGH_FOR_A_SMALL_BATCH).min(left)
}

/// Rows of one window when so many policies take turns, each with a window of its own in memory.
fn share_of_rows(window_rows: usize, policies: usize) -> usize {
    (window_rows * 2 / policies.max(2)).max(1)
}

/// The next policy, in turn, that has a step to start; else when to look again, if a policy waits.
fn pick(
    drains: &mut [Drain<'_>],
    turn: &mut usize,
    now: Duration,
) -> Result<(usize, Step), Option<Duration>> {
    let mut wake: Option<Duration> = None;
    for offset in 0..drains.len() {
        let policy = (*turn + offset) % drains.len();
        match drains[policy].next(now) {
            Next::Step(step) => {
                *turn = policy + 1;
                return Ok((policy, step));
            }
            Next::NotBefore(at) => wake = Some(wake.map_or(at, |wake| wake.min(at))),
            Next::Busy | Next::Ended => {}
        }
    }
    Err(wake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_many_policies_hold_no_more_rows_than_those_of_two() {
        for policies in 1..100 {
            let share = share_of_rows(1_000_000, policies);
            assert!(share <= 1_000_000 && share * policies <= 2_000_000, "{policies}: {share}");
        }
        assert_eq!(
            [1, 2, 4].map(|policies| share_of_rows(1_000_000, policies)),
            [1_000_000, 1_000_000, 500_000]
        );
        assert_eq!(share_of_rows(1, 50), 1);
    }

    #[test]
    fn a_batch_gets_a_part_of_the_time_left_and_never_more_than_there_is() {
        let share = |millis| share_of(Duration::from_millis(millis)).as_millis();
        assert_eq!([share(8000), share(1000), share(500), share(100), share(0)], [2000, 250, 250, 100, 0]);
    }
}
