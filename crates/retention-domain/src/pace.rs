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
    max_rows: u32,
    /// Rows of the next batch; halved by a statement timeout, grown back by success.
    rows: u32,
    /// Rows a seed has brought lately, itself included: 1 where nothing is climbed.
    rows_per_seed: f64,
    /// Failures since the last success.
    failures: u32,
}

impl Pace {
    pub(crate) fn new(max_rows: u32) -> Self {
        Self { max_rows, rows: max_rows.max(1), rows_per_seed: 1.0, failures: 0 }
    }

    /// Most rows of the next batch.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// How many seeds fill the next batch. At least 1, never more than [`Self::rows`], so that a batch always
    /// has room for all of its seeds.
    pub(crate) fn seeds(&self) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and 10000 by construction"
        )]
        let seeds = (f64::from(self.rows) / self.rows_per_seed).ceil() as usize;
        seeds.clamp(1, self.rows as usize)
    }

    /// A batch went through: `found` rows from `seeds` seeds.
    pub(crate) fn succeeded(&mut self, seeds: usize, found: u64) {
        self.failures = 0;
        self.rows = (self.rows * 2).min(self.max_rows);
        #[expect(clippy::cast_precision_loss, reason = "counts of one batch are small")]
        let yielded = (found.max(1) as f64 / seeds.max(1) as f64).max(1.0);
        // The mean forgets slowly: a few odd chains must not swing the size of the next batches.
        self.rows_per_seed = f64::midpoint(self.rows_per_seed, yielded);
    }

    /// The statement ran into its bound: half as many rows next time.
    pub(crate) fn timed_out(&mut self) -> Option<Duration> {
        if self.rows > 1 {
            self.rows /= 2;
            return Some(Duration::ZERO);
        }
        self.failed()
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
        assert_eq!(pace.timed_out(), Some(Duration::ZERO));
        assert_eq!(pace.rows(), 2500);
        pace.succeeded(2500, 2500);
        assert_eq!(pace.rows(), 5000);
        pace.succeeded(5000, 5000);
        assert_eq!(pace.rows(), 5000);
    }

    #[test]
    fn timeouts_end_after_a_bounded_number_of_tries() {
        let mut pace = Pace::new(10_000);
        let tries = std::iter::from_fn(|| pace.timed_out()).count();
        assert_eq!(tries, 13 + 5, "13 halvings and five waits");
    }

    #[test]
    fn transient_failures_wait_longer_each_time_and_give_up() {
        let mut pace = Pace::new(10);
        let waits: Vec<_> = std::iter::from_fn(|| pace.failed()).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000]);
    }

    #[test]
    fn seeds_follow_what_a_seed_brings_and_always_fit() {
        let mut pace = Pace::new(5000);
        assert_eq!(pace.seeds(), 5000);
        for _ in 0..40 {
            pace.succeeded(500, 5000);
        }
        assert!((500..=502).contains(&pace.seeds()), "{}", pace.seeds());
        for _ in 0..60 {
            pace.succeeded(1, 5000);
        }
        assert!((1..=2).contains(&pace.seeds()), "{}", pace.seeds());
    }
}
