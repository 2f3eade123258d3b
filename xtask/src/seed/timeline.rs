//! When the rows of one chain end. Knows ages, no ids and no statuses.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::plan::Family;
use super::shape::{HOUR, MARGIN, Micros, Moments};

/// When the rows of one chain end: one after the other, each in its own slice of the same width.
pub struct Timeline {
    start: Micros,
    /// Time from one row to the next, on average.
    pub width: Micros,
    /// From here on everything is later by [`MARGIN`], so that no row comes of age before the run.
    gap_at: Option<Micros>,
}

impl Timeline {
    /// Due and fresh chains rotate every one to twenty-four hours, faster if they would not fit otherwise, and
    /// lie anywhere in their stretch of time. Active ones go from somewhere before the cutoff until today.
    pub fn draw(family: Family, rows: u32, moments: &Moments, rng: &mut ChaCha8Rng) -> Self {
        let Moments { now, refresh_cutoff: cutoff, age_span, .. } = *moments;
        let rows = Micros::from(rows);
        let mut within = |start: Micros, end: Micros| {
            let width = rng.random_range(HOUR..=24 * HOUR).min((end - start) / rows);
            let start = start + rng.random_range(0..=end - start - rows * width);
            Self { start, width, gap_at: None }
        };
        match family {
            Family::Due => within(cutoff - age_span, cutoff),
            Family::Fresh => within(cutoff + MARGIN, now),
            Family::Active => {
                let start = cutoff - rng.random_range(1..=age_span);
                Self { start, width: (now - MARGIN - start) / rows, gap_at: Some(cutoff) }
            }
        }
    }

    /// When the row at `position` ended; later for a later position. The first lies exactly on the start.
    pub fn instant(&self, position: u32, rng: &mut ChaCha8Rng) -> Micros {
        let jitter = if position == 0 { 0 } else { rng.random_range(0..self.width) };
        let instant = self.start + Micros::from(position) * self.width + jitter;
        match self.gap_at {
            Some(gap_at) if instant >= gap_at => instant + MARGIN,
            _ => instant,
        }
    }
}
