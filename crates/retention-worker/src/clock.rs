//! The process's clock: for the scheduler and the time budget, never for cutoffs.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use retention_domain::ports::Clock;
use tokio_util::sync::CancellationToken;

/// The system's clocks; a wait ends early when `stop` is cancelled.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: Instant,
    stop: CancellationToken,
}

impl SystemClock {
    /// A clock whose waits end when `stop` is cancelled.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { origin: Instant::now(), stop }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn wall(&self) -> DateTime<Utc> {
        SystemTime::now().into()
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    async fn wait(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.stop.cancelled() => {}
        }
    }
}
