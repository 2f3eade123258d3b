//! A clock moved by hand, a stop switch, and an observer that remembers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::ports::{Clock, RunEvent, RunObserver, StopSignal};

/// A clock that moves only when told to, or when somebody waits on it: a wait takes no real time.
#[derive(Debug)]
pub struct ManualClock {
    origin: DateTime<Utc>,
    micros: AtomicU64,
}

/// A stop request, set by a test, possibly after so many looks at it.
#[derive(Debug, Default)]
pub struct StopSwitch(AtomicBool);

/// Remembers every event as one line of text.
#[derive(Debug, Default)]
pub struct RecordingObserver(Mutex<Vec<String>>);

impl ManualClock {
    /// A clock whose wall shows `origin` now.
    #[must_use]
    pub fn at(origin: DateTime<Utc>) -> Self {
        Self { origin, micros: AtomicU64::new(0) }
    }

    /// Moves the clock on.
    pub fn advance(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> DateTime<Utc> {
        self.origin + TimeDelta::from_std(self.monotonic()).unwrap_or(TimeDelta::MAX)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }

    async fn wait(&self, duration: Duration) {
        self.advance(duration);
    }
}

impl StopSwitch {
    /// Requests the stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl StopSignal for StopSwitch {
    fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl RecordingObserver {
    /// The events so far, in short: `started`, `batch sicr 10`, `retry sicr …`, `gave up sicr …`, `completed`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RunObserver for RecordingObserver {
    fn observe(&self, event: &RunEvent<'_>) {
        let line = match event {
            RunEvent::Started { .. } => "started".to_owned(),
            RunEvent::BatchEnded { policy, deleted, .. } => format!("batch {} {deleted}", policy.name),
            RunEvent::AttemptFailed { policy, failure, ends_policy: false, .. } => {
                format!("retry {} {failure}", policy.name)
            }
            RunEvent::AttemptFailed { policy, failure, .. } => format!("gave up {} {failure}", policy.name),
            RunEvent::RowSetAside { policy, sentence } => format!("aside {} {sentence}", policy.name),
            RunEvent::PhaseEnded { policy } => format!("ended {}", policy.name),
            RunEvent::Refused { reason, .. } => format!("refused {reason}"),
            RunEvent::Completed(report) => format!("completed {}", report.stop_reason().as_str()),
            RunEvent::PhaseStarted { .. }
            | RunEvent::BatchStarted { .. }
            | RunEvent::BatchAbandoned { .. } => return,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
