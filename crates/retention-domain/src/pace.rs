//! How large the next batch is, and how long to wait after a failure.

use std::time::Duration;

/// Transient failures in a row after which a policy gives up. With [`FIRST_BACK_OFF`] doubled each time the
/// policy has waited about eight seconds by then: enough for a server restart, short enough for a night.
const MAX_FAILURES: u32 = 6;
/// Wait after the first transient failure.
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);

/// Batch size and back-off of one policy.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The setting: never exceeded.
    max_rows: usize,
    /// Rows of the next batch; halved by a statement timeout, grown back by success.
    rows: usize,
    /// Failures since the last success.
    failures: u32,
}

impl Pace {
    pub(crate) fn new(max_rows: usize) -> Self {
        Self { max_rows, rows: max_rows.max(1), failures: 0 }
    }

    /// Most rows of the next batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A batch went through.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.rows = (self.rows * 2).min(self.max_rows);
    }

    /// The statement ran into its bound: half as many rows next time.
    pub(crate) fn halve(&mut self) {
        self.rows = (self.rows / 2).max(1);
    }

    /// A transient failure: how long to wait before the next try, `None` to give up.
    pub(crate) fn failed(&mut self) -> Option<Duration> {
        self.failures += 1;
        (self.failures < MAX_FAILURES).then(|| FIRST_BACK_OFF * 2_u32.pow(self.failures - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_halves_and_success_grows_back_never_above_the_setting() {
        let mut pace = Pace::new(5000);
        pace.halve();
        assert_eq!(pace.rows(), 2500);
        pace.succeeded();
        assert_eq!(pace.rows(), 5000);
        pace.succeeded();
        assert_eq!(pace.rows(), 5000);
    }

    #[test]
    fn transient_failures_wait_longer_each_time_and_give_up() {
        let mut pace = Pace::new(10);
        let waits: Vec<_> = std::iter::from_fn(|| pace.failed()).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000]);
    }
}
