//! When runs start. The calendar says which instants are slots; this waits for them, one run at a time.

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use retention_domain::calendar::Schedule;
use retention_domain::ports::{Clock, StopSignal};
use uuid::Uuid;

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
        let window = self.schedule.window();
        let started = self.clock.wall();
        // Slots slept through since the one that is due: lost, as is that one when its window has closed.
        let slept = self.slots_after(due.slot, started);
        if !window.is_open(started) {
            self.skipped(slept + 1);
            return self.next(started);
        }
        self.skipped(slept);
        let left = |at: DateTime<Utc>| at.signed_duration_since(started).to_std().unwrap_or_default();
        let ended = runs.run(window.closes_at(started).map(left)).await;
        let now = self.clock.wall();
        self.skipped(self.slots_after(started, now));
        let next = self.next(now);
        let retry_at = now + RETRY_AFTER;
        let same_window = window.is_open(retry_at) && window.closes_at(started) == window.closes_at(retry_at);
        if ended == Ended::Failed && due.retries < MAX_RETRIES && retry_at < next.slot && same_window {
            return Due {
                at: retry_at,
                slot: self.schedule.current_slot(now).unwrap_or(due.slot),
                retries: due.retries + 1,
            };
        }
        next
    }

    /// Slots strictly after `from` up to and including `until`.
    fn slots_after(&self, from: DateTime<Utc>, until: DateTime<Utc>) -> u64 {
        let moment = TimeDelta::nanoseconds(1);
        self.schedule.slots_between(from + moment, until + moment)
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use retention_domain::testing::{ManualClock, StopSwitch};

    use super::*;

    /// Runs of a fixed length that end as scripted, on a clock that moves only by them and by waiting.
    struct Script<'a> {
        clock: &'a ManualClock,
        stop: &'a StopSwitch,
        takes: Duration,
        ends: Vec<Ended>,
        starts: Mutex<Vec<(String, Option<Duration>)>>,
    }

    #[derive(Default)]
    struct Told(Mutex<u64>);

    impl SchedulerObserver for Told {
        fn next_run_at(&self, _at: DateTime<Utc>) {}

        fn slots_skipped(&self, slots: u64) {
            *self.0.lock().unwrap() += slots;
        }
    }

    impl Runs for Script<'_> {
        async fn run(&self, closes_in: Option<Duration>) -> Ended {
            let mut starts = self.starts.lock().unwrap();
            let ended = self.ends[starts.len()];
            starts.push((self.clock.wall().format("%dT%H:%M").to_string(), closes_in));
            self.clock.advance(self.takes);
            if starts.len() == self.ends.len() {
                self.stop.request();
            }
            ended
        }
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    /// Starts (day and minute) and skipped slots, with jitter below a minute cut off by the format.
    fn starts(window: &str, interval: u64, from: &str, takes: u64, ends: &[Ended]) -> (Vec<String>, u64) {
        let schedule = Schedule::new(window.parse().unwrap(), Duration::from_secs(interval)).unwrap();
        let (clock, stop, told) = (ManualClock::at(at(from)), StopSwitch::default(), Told::default());
        let takes = Duration::from_secs(takes);
        let script =
            Script { clock: &clock, stop: &stop, takes, ends: ends.to_vec(), starts: Mutex::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Scheduler::new(schedule, &clock, &stop, &told).run(&script));
        let starts = script.starts.into_inner().unwrap().into_iter().map(|(start, _)| start).collect();
        (starts, told.0.into_inner().unwrap())
    }

    const HOUR: u64 = 3600;
    use Ended::{Failed, Normally};

    #[test]
    fn one_run_a_night_at_the_opening() {
        let (starts, skipped) = starts("02:00-05:00", 24 * HOUR, "2026-11-30T12:00:00Z", 600, &[Normally; 3]);
        assert_eq!(starts, ["01T02:00", "02T02:00", "03T02:00"]);
        assert_eq!(skipped, 0);
    }

    #[test]
    fn a_start_inside_the_window_runs_at_once_and_stands_for_the_slot() {
        let (starts, _) = starts("02:00-05:00", 24 * HOUR, "2026-11-30T03:17:00Z", 600, &[Normally; 2]);
        assert_eq!(starts, ["30T03:17", "01T02:00"]);
    }

    #[test]
    fn a_failed_run_is_tried_three_times_more_in_its_window() {
        let (starts, _) = starts("02:00-05:00", 24 * HOUR, "2026-11-30T01:00:00Z", 60, &[Failed; 6]);
        assert_eq!(starts, ["30T02:00", "30T02:11", "30T02:22", "30T02:33", "01T02:00", "01T02:11"]);
    }

    #[test]
    fn no_retry_after_the_window_has_closed() {
        let (starts, _) = starts("02:00-05:00", 24 * HOUR, "2026-11-30T04:51:00Z", 60, &[Failed, Normally]);
        assert_eq!(starts, ["30T04:51", "01T02:00"]);
    }

    #[test]
    fn a_slot_met_during_a_run_is_skipped_and_counted_and_the_rate_does_not_drift() {
        let (starts, skipped) = starts("02:00-05:00", HOUR, "2026-11-30T01:00:00Z", 4000, &[Normally; 3]);
        assert_eq!(starts, ["30T02:00", "30T04:00", "01T02:00"]);
        assert_eq!(skipped, 2, "03:00 of both nights; the run of 04:00 meets no slot");
    }

    #[test]
    fn without_a_window_runs_follow_multiples_of_the_interval() {
        let (starts, skipped) = starts("always", 60, "2026-11-30T12:00:30Z", 150, &[Normally; 3]);
        assert_eq!(starts, ["30T12:00", "30T12:04", "30T12:07"]);
        assert_eq!(skipped, 7, "2, 3 and 2 slots met by runs of two and a half minutes");
    }

    #[test]
    fn a_process_that_slept_makes_up_one_slot_inside_the_window_and_none_outside() {
        let schedule = Schedule::new("always".parse().unwrap(), Duration::from_secs(60)).unwrap();
        let clock = ManualClock::at(at("2026-11-30T12:10:00Z"));
        let (stop, told) = (StopSwitch::default(), Told::default());
        let script = Script {
            clock: &clock,
            stop: &stop,
            takes: Duration::ZERO,
            ends: vec![Normally],
            starts: Mutex::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let scheduler = Scheduler::new(schedule, &clock, &stop, &told);
        let slot = at("2026-11-30T12:00:00Z");
        runtime.block_on(scheduler.start(Due { at: slot, slot, retries: 0 }, &script));
        assert_eq!(
            (script.starts.lock().unwrap().len(), *told.0.lock().unwrap()),
            (1, 10),
            "one run, ten slots lost"
        );

        let night = Schedule::new("02:00-05:00".parse().unwrap(), Duration::from_secs(24 * HOUR)).unwrap();
        let scheduler = Scheduler::new(night, &clock, &stop, &told);
        let slot = at("2026-11-30T02:00:00Z");
        let next = runtime.block_on(scheduler.start(Due { at: slot, slot, retries: 0 }, &script));
        assert_eq!(next.slot, at("2026-12-01T02:00:00Z"));
        assert_eq!(
            (script.starts.lock().unwrap().len(), *told.0.lock().unwrap()),
            (1, 11),
            "no run, the slot lost"
        );
    }
}
