//! The hours of the day, in UTC, in which runs start and outside of which they end.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

pub(super) const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: u16 = 1_440;

/// A daily window such as `02:00-05:00`, or `always`.
///
/// The start is inside, the end is not. A window may cross midnight; it then belongs to the day of its opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NightWindow {
    /// No window: work may be done at any time.
    Always,
    /// Open every night at the same minutes.
    Nightly(Hours),
}

/// Opening and length of a nightly window.
///
/// # Invariant
/// The opening is below 24:00, the length between one minute and 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    opens_at_minute: u16,
    minutes_open: u16,
}

/// Why a text is no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NightWindowError {
    /// Not two times of day and not `always`.
    #[error("not a window: use HH:MM-HH:MM in UTC, such as 02:00-05:00 or 22:00-04:00, or always")]
    Malformed,
    /// Two digits each, but no such time.
    #[error(
        "no such time of day: hours are 00 to 23, minutes 00 to 59, and 24:00 is allowed as the end only"
    )]
    NoSuchTime,
    /// Start and end are the same.
    #[error("start and end are equal: use always for a window without end, or 00:00-24:00 for whole days")]
    Empty,
}

impl NightWindow {
    /// Whether `at` is inside.
    #[must_use]
    pub fn is_open(self, at: DateTime<Utc>) -> bool {
        self.closes_at(at).is_none_or(|end| at < end)
    }

    /// The first instant that is no longer inside the night `at` belongs to; `None` only for [`Self::Always`].
    ///
    /// Outside the window this is the end of the night before, an instant that is not after `at`: whoever comes
    /// late finds no time left instead of a night without end.
    #[must_use]
    pub fn closes_at(self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let Self::Nightly(hours) = self else { return None };
        let day = (at.timestamp_millis() - hours.opening_ms()).div_euclid(DAY_MS);
        Some(instant(day * DAY_MS + hours.opening_ms() + hours.length_ms()))
    }
}

impl Hours {
    /// From midnight to the opening.
    pub(super) fn opening_ms(self) -> i64 {
        i64::from(self.opens_at_minute) * MINUTE_MS
    }

    /// From the opening to the end.
    pub(super) fn length_ms(self) -> i64 {
        i64::from(self.minutes_open) * MINUTE_MS
    }
}

impl FromStr for NightWindow {
    type Err = NightWindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "always" {
            return Ok(Self::Always);
        }
        let (start, end) = text.split_once('-').ok_or(NightWindowError::Malformed)?;
        let (opens_at_minute, end) = (minute_of_day(start)?, minute_of_day(end)?);
        if opens_at_minute == DAY_MINUTES {
            return Err(NightWindowError::NoSuchTime);
        }
        if opens_at_minute == end {
            return Err(NightWindowError::Empty);
        }
        let end = if end > opens_at_minute { end } else { end + DAY_MINUTES };
        Ok(Self::Nightly(Hours { opens_at_minute, minutes_open: end - opens_at_minute }))
    }
}

impl fmt::Display for NightWindow {
    /// Writes what [`FromStr`] reads; an end at midnight is written `24:00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Nightly(Hours { opens_at_minute: start, minutes_open }) = *self else {
            return f.write_str("always");
        };
        let end = match start + minutes_open {
            end if end > DAY_MINUTES => end - DAY_MINUTES,
            end => end,
        };
        write!(f, "{:02}:{:02}-{:02}:{:02}", start / 60, start % 60, end / 60, end % 60)
    }
}

/// Reads `HH:MM`, 00:00 to 24:00.
fn minute_of_day(text: &str) -> Result<u16, NightWindowError> {
    let &[h1, h2, b':', m1, m2] = text.as_bytes() else {
        return Err(NightWindowError::Malformed);
    };
    if ![h1, h2, m1, m2].iter().all(u8::is_ascii_digit) {
        return Err(NightWindowError::Malformed);
    }
    let number = |tens: u8, ones: u8| u16::from(tens - b'0') * 10 + u16::from(ones - b'0');
    let (hour, minute) = (number(h1, h2), number(m1, m2));
    if minute > 59 || hour * 60 + minute > DAY_MINUTES {
        return Err(NightWindowError::NoSuchTime);
    }
    Ok(hour * 60 + minute)
}

/// The instant so many milliseconds after 1970-01-01T00:00Z; beyond the calendar, its last one.
pub(super) fn instant(epoch_ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(epoch_ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[rstest]
    #[case("22:00-04:00", "2026-03-01T21:59:59.999999Z", false)]
    #[case("22:00-04:00", "2026-03-01T22:00:00Z", true)]
    #[case("22:00-04:00", "2026-03-01T23:59:59Z", true)]
    #[case("22:00-04:00", "2026-03-02T00:00:00Z", true)]
    #[case("22:00-04:00", "2026-03-02T03:59:59.999999999Z", true)]
    #[case("22:00-04:00", "2026-03-02T04:00:00Z", false)]
    #[case("22:00-04:00", "2026-03-02T12:00:00Z", false)]
    #[case("02:00-05:00", "2026-03-01T01:59:59Z", false)]
    #[case("02:00-05:00", "2026-03-01T02:00:00Z", true)]
    #[case("02:00-05:00", "2026-03-01T04:59:59Z", true)]
    #[case("02:00-05:00", "2026-03-01T05:00:00Z", false)]
    #[case("02:00-02:01", "2026-03-01T02:00:59Z", true)]
    #[case("02:00-02:01", "2026-03-01T02:01:00Z", false)]
    #[case("00:00-24:00", "2026-03-01T23:59:59.999Z", true)]
    #[case("00:00-24:00", "2026-03-02T00:00:00Z", true)]
    #[case("22:00-24:00", "2026-03-01T23:59:59Z", true)]
    #[case("22:00-24:00", "2026-03-02T00:00:00Z", false)]
    #[case("22:00-04:00", "1969-12-31T23:00:00Z", true)]
    #[case("22:00-04:00", "1969-12-31T12:00:00Z", false)]
    #[case("always", "2026-03-02T12:00:00Z", true)]
    fn the_start_is_inside_and_the_end_is_not(
        #[case] window: NightWindow,
        #[case] instant: &str,
        #[case] open: bool,
    ) {
        assert_eq!(window.is_open(at(instant)), open);
    }

    #[rstest]
    #[case::before_midnight("22:00-04:00", "2026-02-28T22:00:00Z", Some("2026-03-01T04:00:00Z"))]
    #[case::after_midnight("22:00-04:00", "2026-03-01T03:59:59.999Z", Some("2026-03-01T04:00:00Z"))]
    #[case::too_late_is_never_without_end(
        "22:00-04:00",
        "2026-03-01T04:00:00Z",
        Some("2026-03-01T04:00:00Z")
    )]
    #[case::at_noon("22:00-04:00", "2026-03-01T12:00:00Z", Some("2026-03-01T04:00:00Z"))]
    #[case::whole_day("00:00-24:00", "2026-03-01T00:00:00Z", Some("2026-03-02T00:00:00Z"))]
    #[case::no_window("always", "2026-03-01T12:00:00Z", None)]
    fn a_night_ends_at_its_own_end(
        #[case] window: NightWindow,
        #[case] now: &str,
        #[case] end: Option<&str>,
    ) {
        assert_eq!(window.closes_at(at(now)), end.map(at));
    }

    #[rstest]
    #[case("02:00-05:00", "02:00-05:00")]
    #[case("22:00-04:00", "22:00-04:00")]
    #[case("22:00-00:00", "22:00-24:00")]
    #[case("22:00-24:00", "22:00-24:00")]
    #[case("00:00-24:00", "00:00-24:00")]
    #[case("23:59-23:58", "23:59-23:58")]
    #[case("always", "always")]
    fn what_is_read_is_written_back(#[case] window: NightWindow, #[case] written: &str) {
        assert_eq!(window.to_string(), written);
        assert_eq!(written.parse(), Ok(window));
    }

    #[rstest]
    #[case::empty("", NightWindowError::Malformed)]
    #[case::one_digit("2:00-05:00", NightWindowError::Malformed)]
    #[case::seconds("02:00:00-05:00:00", NightWindowError::Malformed)]
    #[case::one_time("02:00", NightWindowError::Malformed)]
    #[case::three_times("02:00-03:00-04:00", NightWindowError::Malformed)]
    #[case::blanks_inside("02:00 - 05:00", NightWindowError::Malformed)]
    #[case::blank_before(" 02:00-05:00", NightWindowError::Malformed)]
    #[case::blank_after("02:00-05:00 ", NightWindowError::Malformed)]
    #[case::zone("02:00-05:00Z", NightWindowError::Malformed)]
    #[case::upper_case("Always", NightWindowError::Malformed)]
    #[case::sign("+2:00-05:00", NightWindowError::Malformed)]
    #[case::other_digits("٠٢:٠٠-٠٥:٠٠", NightWindowError::Malformed)]
    #[case::same_length_other_digits("0٢:0-05:00", NightWindowError::Malformed)]
    #[case::dash("02:00–05:00", NightWindowError::Malformed)]
    #[case::hour("25:00-05:00", NightWindowError::NoSuchTime)]
    #[case::minute("02:60-05:00", NightWindowError::NoSuchTime)]
    #[case::late_end("02:00-24:01", NightWindowError::NoSuchTime)]
    #[case::start_at_24("24:00-05:00", NightWindowError::NoSuchTime)]
    #[case::only_24("24:00-24:00", NightWindowError::NoSuchTime)]
    #[case::equal("02:00-02:00", NightWindowError::Empty)]
    #[case::equal_at_midnight("00:00-00:00", NightWindowError::Empty)]
    fn refuses_everything_else(#[case] text: &str, #[case] error: NightWindowError) {
        assert_eq!(text.parse::<NightWindow>(), Err(error));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC*|[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2})") {
            if let Ok(window) = text.parse::<NightWindow>() {
                prop_assert_eq!(window.to_string().parse::<NightWindow>(), Ok(window));
            }
        }
    }
}
