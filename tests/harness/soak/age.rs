//! How old the rows are that the service writes: so that at any time a part of them is due, a part is about to be,
//! and a part is not.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How long requests are kept by default.
pub(super) const REQUESTS: Duration = Duration::from_hours(30 * 24);
/// How long sessions that are over are kept by default.
pub(super) const SESSIONS: Duration = Duration::from_hours(90 * 24);
/// How long before they are due rows are written at most.
const SOON: Duration = Duration::from_secs(90);

/// How far the dates of some rows lie back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Not due for longer than any soak takes.
    Fresh,
    /// Due in a moment.
    Nearly,
    /// Due.
    Old,
}

impl Age {
    pub fn draw(rng: &mut ChaCha8Rng) -> Self {
        match rng.random_range(0..100) {
            0..25 => Self::Fresh,
            25..35 => Self::Nearly,
            _ => Self::Old,
        }
    }

    /// Whether such rows must be there.
    pub fn is_young(self) -> bool {
        self == Self::Fresh
    }

    /// An age for a row that is kept for `period`.
    pub fn of(self, period: Duration, rng: &mut ChaCha8Rng) -> Duration {
        let part = rng.random::<f64>();
        match self {
            Self::Fresh => Duration::from_hours(1).mul_f64(part),
            Self::Nearly => period.saturating_sub(SOON.mul_f64(part)),
            Self::Old => period + Duration::from_mins(1) + Duration::from_hours(300 * 24).mul_f64(part),
        }
    }

    /// For how long a session of this age can still be used: old ones are soon found by the expiry job.
    pub fn lives(self, rng: &mut ChaCha8Rng) -> Duration {
        match self {
            Self::Fresh => Duration::from_hours(30 * 24),
            Self::Nearly | Self::Old => Duration::from_secs(rng.random_range(1..30)),
        }
    }
}
