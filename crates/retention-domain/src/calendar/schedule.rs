//! The instants at which runs are due. A run started by hand or by a starting process is no slot; what to do about
//! missed slots and who waits for them is the scheduler's business.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::night_window::{DAY_MS, NightWindow, instant};
use crate::period::{MAX_PERIOD, format_duration};

/// Longest time a run is put off so that many workers do not start as one.
const MAX_JITTER: Duration = Duration::from_secs(30);

/// The slots of the night window: opening + k × interval, before the end.
///
/// An interval of several days takes every n-th opening, counted from 1970-01-01 by the day of the opening. Without
/// a window, slots are the multiples of the interval since 1970-01-01T00:00Z. So the rate is fixed: slots depend on
/// neither when the process started nor how long runs take.
///
/// # Invariant
/// The interval is between one second and [`MAX_PERIOD`], in whole milliseconds; above 24 hours and with a window it
/// is a multiple of 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    window: NightWindow,
    interval: Duration,
}

/// Why a window and an interval make no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The interval is too short, too long, or finer than a millisecond.
    #[error("the interval between runs must be between 1s and 36500d, in whole milliseconds")]
    IntervalOutOfRange,
    /// The slots would wander out of the window.
    #[error("with the window {window} an interval above 24h must be a multiple of 24h, {} is not", format_duration(*interval))]
    NotWholeDays {
        /// The window asked for.
        window: NightWindow,
        /// The interval asked for.
        interval: Duration,
    },
}

/// The schedule in milliseconds since 1970-01-01: bursts of slots, `step` apart, each burst shorter than `length`,
/// beginning at `first` + n × `cycle`.
struct Bursts {
    first: i64,
    cycle: i64,
    length: i64,
    step: i64,
}

impl Schedule {
    /// A schedule.
    ///
    /// # Errors
    /// When [`Schedule`]'s invariant would not hold.
    pub fn new(window: NightWindow, interval: Duration) -> Result<Self, ScheduleError> {
        let out_of_range = interval < Duration::from_secs(1) || interval > MAX_PERIOD;
        if out_of_range || !interval.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(ScheduleError::IntervalOutOfRange);
        }
        let schedule = Self { window, interval };
        let interval_ms = schedule.interval_ms();
        if window != NightWindow::Always && interval_ms > DAY_MS && interval_ms % DAY_MS != 0 {
            return Err(ScheduleError::NotWholeDays { window, interval });
        }
        Ok(schedule)
    }

    /// The hours in which slots lie.
    #[must_use]
    pub const fn window(&self) -> NightWindow {
        self.window
    }

    /// The time between slots.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// The first slot strictly after `after`.
    #[must_use]
    pub fn next_slot(&self, after: DateTime<Utc>) -> DateTime<Utc> {
        let bursts = self.bursts();
        // Slots are whole milliseconds, so cutting off what is finer does not change which one is next.
        let (begin, elapsed) = bursts.locate(after.timestamp_millis());
        let next = (elapsed / bursts.step + 1) * bursts.step;
        instant(begin + if next < bursts.length { next } else { bursts.cycle })
    }

    /// The slot a run at `at` stands for: the latest one not after `at`, if `at` is still in that slot's night.
    ///
    /// `None` outside the window, and in a night without slots.
    #[must_use]
    pub fn current_slot(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let bursts = self.bursts();
        let (begin, elapsed) = bursts.locate(at.timestamp_millis());
        (elapsed < bursts.length).then(|| instant(begin + elapsed - elapsed % bursts.step))
    }

    /// How many slots lie in `from` (inclusive) to `to` (exclusive).
    #[must_use]
    pub fn slots_between(&self, from: DateTime<Utc>, to: DateTime<Utc>) -> u64 {
        let bursts = self.bursts();
        let count = bursts.count_before(to) - bursts.count_before(from);
        u64::try_from(count).unwrap_or(0)
    }

    /// The longest time a run may be put off after `slot`: a twentieth of the interval, at most 30 seconds, and never
    /// to the end of the window.
    #[must_use]
    pub fn max_jitter(&self, slot: DateTime<Utc>) -> Duration {
        let jitter = MAX_JITTER.min(self.interval / 20);
        let Some(end) = self.window.closes_at(slot) else {
            return jitter;
        };
        // The end itself is outside.
        let room = (end - slot).to_std().unwrap_or_default().saturating_sub(Duration::from_millis(1));
        jitter.min(room)
    }

    fn interval_ms(&self) -> i64 {
        // Below MAX_PERIOD, which is far below the limit.
        i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX)
    }

    fn bursts(&self) -> Bursts {
        let step = self.interval_ms();
        match self.window {
            NightWindow::Always => Bursts { first: 0, cycle: step, length: step, step },
            // Day 0 is 1970-01-01. A multiple of 24 hours is the distance of the openings taken; a shorter interval
            // takes every one.
            NightWindow::Nightly(hours) => {
                Bursts { first: hours.opening_ms(), cycle: step.max(DAY_MS), length: hours.length_ms(), step }
            }
        }
    }
}

impl Bursts {
    /// The beginning of the burst that began last, and the time since.
    fn locate(&self, at_ms: i64) -> (i64, i64) {
        let elapsed = (at_ms - self.first).rem_euclid(self.cycle);
        (at_ms - elapsed, elapsed)
    }

    /// Slots before `until`, counted from the burst of 1970-01-01 on; negative before it.
    fn count_before(&self, until: DateTime<Utc>) -> i64 {
        let finer = i64::from(!until.timestamp_subsec_nanos().is_multiple_of(1_000_000));
        let (begin, elapsed) = self.locate(until.timestamp_millis() + finer);
        let slots_in = |length: i64| (length + self.step - 1) / self.step;
        (begin - self.first) / self.cycle * slots_in(self.length) + slots_in(elapsed.min(self.length))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::period::parse_duration;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn schedule(window: &str, interval: &str) -> Schedule {
        Schedule::new(window.parse().unwrap(), parse_duration(interval).unwrap()).unwrap()
    }

    #[rstest]
    #[case::the_opening_itself_is_over("02:00-05:00", "24h", "2026-03-01T02:00:00Z", "2026-03-02T02:00:00Z")]
    #[case::just_before("02:00-05:00", "24h", "2026-03-01T01:59:59.999999999Z", "2026-03-01T02:00:00Z")]
    #[case::month_and_leap_day("02:00-05:00", "24h", "2028-02-28T03:00:00Z", "2028-02-29T02:00:00Z")]
    #[case::year("22:00-04:00", "24h", "2026-12-31T22:00:00Z", "2027-01-01T22:00:00Z")]
    #[case::hourly("22:00-04:00", "1h", "2026-03-01T23:59:59Z", "2026-03-02T00:00:00Z")]
    #[case::last_of_a_night("22:00-04:00", "1h", "2026-03-02T03:00:00Z", "2026-03-02T22:00:00Z")]
    #[case::no_slot_at_the_end("02:00-05:00", "90m", "2026-03-01T03:30:00Z", "2026-03-02T02:00:00Z")]
    #[case::no_drift_over_nights("02:00-05:00", "7h", "2026-03-01T02:00:00Z", "2026-03-02T02:00:00Z")]
    #[case::day_0("02:00-05:00", "7d", "1969-12-31T12:00:00Z", "1970-01-01T02:00:00Z")]
    #[case::week("02:00-05:00", "7d", "1970-01-01T02:00:00Z", "1970-01-08T02:00:00Z")]
    #[case::two_days_by_the_opening("22:00-04:00", "48h", "1970-01-02T01:00:00Z", "1970-01-03T22:00:00Z")]
    #[case::before_1970("22:00-04:00", "48h", "1969-12-29T23:00:00Z", "1969-12-30T22:00:00Z")]
    #[case::always("always", "36h", "1970-01-01T00:00:00Z", "1970-01-02T12:00:00Z")]
    #[case::always_second("always", "1s", "2026-03-01T12:00:00.5Z", "2026-03-01T12:00:01Z")]
    #[case::always_whole_day("00:00-24:00", "1h", "2026-03-01T23:30:00Z", "2026-03-02T00:00:00Z")]
    fn the_next_slot_is_strictly_after(
        #[case] window: &str,
        #[case] interval: &str,
        #[case] after: &str,
        #[case] slot: &str,
    ) {
        assert_eq!(schedule(window, interval).next_slot(at(after)), at(slot));
    }

    #[rstest]
    #[case::at_the_opening("02:00-05:00", "24h", "2026-03-01T02:00:00Z", Some("2026-03-01T02:00:00Z"))]
    #[case::late_in_the_night("02:00-05:00", "24h", "2026-03-01T04:59:59Z", Some("2026-03-01T02:00:00Z"))]
    #[case::at_the_end("02:00-05:00", "24h", "2026-03-01T05:00:00Z", None)]
    #[case::after_midnight("22:00-04:00", "1h", "2026-03-02T00:30:00Z", Some("2026-03-02T00:00:00Z"))]
    #[case::opened_on_an_odd_day("22:00-04:00", "2d", "1970-01-03T01:00:00Z", None)]
    #[case::opened_on_an_even_day("22:00-04:00", "2d", "1970-01-02T01:00:00Z", Some("1970-01-01T22:00:00Z"))]
    #[case::always("always", "5m", "2026-03-01T12:04:59.9Z", Some("2026-03-01T12:00:00Z"))]
    fn the_current_slot_is_in_the_same_night(
        #[case] window: &str,
        #[case] interval: &str,
        #[case] now: &str,
        #[case] slot: Option<&str>,
    ) {
        assert_eq!(schedule(window, interval).current_slot(at(now)), slot.map(at));
    }

    #[rstest]
    #[case::shorter("02:00-05:00", "90m", true)]
    #[case::one_day("02:00-05:00", "24h", true)]
    #[case::two_days("02:00-05:00", "48h", true)]
    #[case::a_century("02:00-05:00", "36500d", true)]
    #[case::day_and_a_half("02:00-05:00", "36h", false)]
    #[case::a_millisecond_too_much("02:00-05:00", "1d 1ms", false)]
    #[case::no_window("always", "36h", true)]
    fn above_a_day_only_whole_days_fit_a_window(
        #[case] window: NightWindow,
        #[case] interval: &str,
        #[case] fits: bool,
    ) {
        let interval = parse_duration(interval).unwrap();
        let expected = if fits {
            Ok(Schedule { window, interval })
        } else {
            Err(ScheduleError::NotWholeDays { window, interval })
        };
        assert_eq!(Schedule::new(window, interval), expected);
    }

    #[rstest]
    #[case(Duration::ZERO)]
    #[case(Duration::from_millis(999))]
    #[case(Duration::from_nanos(1_000_000_001))]
    #[case(MAX_PERIOD + Duration::from_millis(1))]
    fn an_interval_has_bounds(#[case] interval: Duration) {
        assert_eq!(Schedule::new(NightWindow::Always, interval), Err(ScheduleError::IntervalOutOfRange));
    }

    #[rstest]
    #[case::half_a_minute_at_most("02:00-05:00", "24h", "2026-03-01T02:00:00Z", 30_000)]
    #[case::a_twentieth("always", "60s", "2026-03-01T12:00:00Z", 3_000)]
    #[case::inside_the_window("02:00-05:00", "179m 50s", "2026-03-01T04:59:50Z", 9_999)]
    #[case::in_the_last_millisecond("02:00-05:00", "1h", "2026-03-01T04:59:59.9995Z", 0)]
    #[case::too_late("02:00-05:00", "1h", "2026-03-01T05:00:01Z", 0)]
    fn jitter_stays_in_the_window(
        #[case] window: &str,
        #[case] interval: &str,
        #[case] slot: &str,
        #[case] millis: u64,
    ) {
        assert_eq!(schedule(window, interval).max_jitter(at(slot)), Duration::from_millis(millis));
    }

    #[rstest]
    #[case::three_nights("02:00-05:00", "1h", "2026-03-01T00:00:00Z", "2026-03-04T00:00:00Z", 9)]
    #[case::from_is_in_to_is_out("02:00-05:00", "1h", "2026-03-01T02:00:00Z", "2026-03-01T04:00:00Z", 2)]
    #[case::from_a_moment_later(
        "02:00-05:00",
        "1h",
        "2026-03-01T02:00:00.000000001Z",
        "2026-03-01T04:00:00Z",
        1
    )]
    #[case::to_a_moment_later(
        "02:00-05:00",
        "1h",
        "2026-03-01T02:00:00Z",
        "2026-03-01T04:00:00.000000001Z",
        3
    )]
    #[case::to_after_the_night("02:00-05:00", "1h", "2026-03-01T02:00:00Z", "2026-03-01T23:00:00Z", 3)]
    #[case::across_1970("02:00-05:00", "24h", "1969-12-30T00:00:00Z", "1970-01-03T00:00:00Z", 4)]
    #[case::backwards("02:00-05:00", "1h", "2026-03-04T00:00:00Z", "2026-03-01T00:00:00Z", 0)]
    #[case::a_century_of_seconds(
        "always",
        "1s",
        "1970-01-01T00:00:00Z",
        "2070-01-01T00:00:00Z",
        3_155_760_000
    )]
    fn slots_are_counted(
        #[case] window: &str,
        #[case] interval: &str,
        #[case] from: &str,
        #[case] to: &str,
        #[case] slots: u64,
    ) {
        assert_eq!(schedule(window, interval).slots_between(at(from), at(to)), slots);
    }
}
