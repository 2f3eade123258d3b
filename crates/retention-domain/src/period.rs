//! Durations as people write them, and the retention period. The one parser of the project: settings,
//! policy files and the command line all go through [`parse_duration`].

use std::fmt;
use std::time::Duration;

use chrono::TimeDelta;

/// Longest period the project accepts: 36500 days, about a century.
pub const MAX_PERIOD: Duration = Duration::from_secs(36_500 * 86_400);

/// How long a row of a table lives.
///
/// # Invariant
/// At least one second, at most [`MAX_PERIOD`]: a cutoff is always in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetentionPeriod(Duration);

/// Why a text is no duration, or a duration no retention period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// The text does not follow the grammar of [`parse_duration`].
    #[error(
        "not a duration: use whole numbers with a unit (ms, s, m, h, d), such as 30d, 1d 12h or 90m, \
         or ISO 8601 days and time, such as P30D or PT24H"
    )]
    Malformed,
    /// The text is a duration, but longer than can be counted.
    #[error("the duration is too long")]
    TooLong,
    /// A retention period must lie between one second and a century.
    #[error("a retention period must be between 1s and 36500d")]
    OutOfRange,
    /// How long rows of a declared table live is said in days or hours.
    #[error("not in days or hours: use whole numbers, such as 7d, 24h or 1d 12h; months differ in length")]
    NotDaysOrHours,
}

impl RetentionPeriod {
    /// A period of `keep`.
    ///
    /// # Errors
    /// [`PeriodError::OutOfRange`] below one second (zero included) or above [`MAX_PERIOD`].
    pub fn new(keep: Duration) -> Result<Self, PeriodError> {
        if keep < Duration::from_secs(1) || keep > MAX_PERIOD {
            Err(PeriodError::OutOfRange)
        } else {
            Ok(Self(keep))
        }
    }

    /// A period of whole days. `days` must be 1 to 36500: for the built-in policies and for tests.
    ///
    /// # Errors
    /// [`PeriodError::OutOfRange`] as for [`RetentionPeriod::new`].
    pub fn from_days(days: u32) -> Result<Self, PeriodError> {
        Self::new(Duration::from_secs(u64::from(days) * 86_400))
    }

    /// A period written in days or hours alone: `7d`, `24h`, `1d 12h`, `P7D`, `PT24H`.
    ///
    /// # Errors
    /// [`PeriodError::NotDaysOrHours`] for everything else, also for smaller units that add up to hours;
    /// [`PeriodError::OutOfRange`] as for [`RetentionPeriod::new`], [`PeriodError::TooLong`] as for [`parse_duration`].
    pub fn in_days_or_hours(text: &str) -> Result<Self, PeriodError> {
        let keep = parse_duration(text).map_err(|error| match error {
            PeriodError::Malformed => PeriodError::NotDaysOrHours,
            other => other,
        })?;
        // In what can be read as a duration, these letters stand in minutes, seconds and milliseconds alone.
        if text.contains(['m', 's', 'M', 'S']) {
            return Err(PeriodError::NotDaysOrHours);
        }
        Self::new(keep)
    }

    /// The period's length.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The period as a calendar difference; cannot overflow within [`MAX_PERIOD`].
    #[must_use]
    pub fn as_delta(self) -> TimeDelta {
        TimeDelta::from_std(self.0).unwrap_or(TimeDelta::MAX)
    }
}

impl fmt::Display for RetentionPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

/// Reads a duration: `30d`, `1d 12h`, `90m`, `1500ms`, `P30D`, `PT24H`, `P1DT12H`.
///
/// Units are `ms s m h d`, lower case, each at most once and from large to small; parts may be joined or
/// separated by one blank. ISO 8601 is read with days, hours, minutes and seconds. Zero is a duration here;
/// whether it is allowed is the caller's range.
///
/// # Errors
/// [`PeriodError::Malformed`] for a bare number, weeks, months, years, upper-case short units, fractions, signs,
/// surrounding blanks, or an empty text; [`PeriodError::TooLong`] when it cannot be counted in milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, PeriodError> {
    let millis = match text.strip_prefix('P') {
        Some(iso) => parse_iso(iso)?,
        None => parse_parts(
            text,
            &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)],
            true,
        )?,
    };
    Ok(Duration::from_millis(millis))
}

/// Writes a duration the way [`parse_duration`] reads it, largest unit first: `1d 12h`, `0s`, `1500ms` as `1s 500ms`.
/// What is below a millisecond is cut off.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut parts = Vec::new();
    for (unit, millis) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if left >= millis {
            parts.push(format!("{}{unit}", left / millis));
            left %= millis;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

fn parse_iso(text: &str) -> Result<u64, PeriodError> {
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return Err(PeriodError::Malformed),
        Some((days, time)) => (days, Some(time)),
        None => (text, None),
    };
    let mut millis = 0_u64;
    if !days.is_empty() {
        millis = parse_parts(days, &[("D", 86_400_000)], false)?;
    } else if time.is_none() {
        return Err(PeriodError::Malformed);
    }
    if let Some(time) = time {
        let time = parse_parts(time, &[("H", 3_600_000), ("M", 60_000), ("S", 1_000)], false)?;
        millis = millis.checked_add(time).ok_or(PeriodError::TooLong)?;
    }
    Ok(millis)
}

/// Sums `<digits><unit>` parts; units must come in the order given, each at most once.
fn parse_parts(text: &str, units: &[(&str, u64)], spaced: bool) -> Result<u64, PeriodError> {
    let mut rest = text;
    let mut units = units.iter();
    let mut total = 0_u64;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        if digits == 0 || letters == 0 {
            return Err(PeriodError::Malformed);
        }
        let unit = &rest[digits..digits + letters];
        let (_, millis) = units.find(|(name, _)| *name == unit).ok_or(PeriodError::Malformed)?;
        let count: u64 = rest[..digits].parse().map_err(|_| PeriodError::TooLong)?;
        let part = count.checked_mul(*millis).ok_or(PeriodError::TooLong)?;
        total = total.checked_add(part).ok_or(PeriodError::TooLong)?;
        rest = &rest[digits + letters..];
        if rest.is_empty() {
            return Ok(total);
        }
        if spaced {
            rest = rest.strip_prefix(' ').unwrap_or(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("7d", Ok(168))]
    #[case("24h", Ok(24))]
    #[case("1d 12h", Ok(36))]
    #[case("P7D", Ok(168))]
    #[case("PT24H", Ok(24))]
    #[case("60m", Err(PeriodError::NotDaysOrHours))]
    #[case("3600s", Err(PeriodError::NotDaysOrHours))]
    #[case("7d 1ms", Err(PeriodError::NotDaysOrHours))]
    #[case("PT60M", Err(PeriodError::NotDaysOrHours))]
    #[case("P1M", Err(PeriodError::NotDaysOrHours))]
    #[case("2 months", Err(PeriodError::NotDaysOrHours))]
    #[case("7", Err(PeriodError::NotDaysOrHours))]
    #[case("0d", Err(PeriodError::OutOfRange))]
    #[case("36501d", Err(PeriodError::OutOfRange))]
    #[case("99999999999999999999d", Err(PeriodError::TooLong))]
    fn declared_periods_are_days_or_hours(#[case] text: &str, #[case] hours: Result<u64, PeriodError>) {
        let read = RetentionPeriod::in_days_or_hours(text);
        assert_eq!(read.map(|period| period.get().as_secs()), hours.map(|hours| hours * 3_600));
    }

    #[rstest]
    #[case("30d", 30 * 86_400_000)]
    #[case("7d", 7 * 86_400_000)]
    #[case("168h", 168 * 3_600_000)]
    #[case("90m", 90 * 60_000)]
    #[case("1d 12h", 36 * 3_600_000)]
    #[case("1d12h", 36 * 3_600_000)]
    #[case("1m 1ms", 60_001)]
    #[case("100ms", 100)]
    #[case("0s", 0)]
    #[case("P30D", 30 * 86_400_000)]
    #[case("PT24H", 24 * 3_600_000)]
    #[case("P1DT12H30M5S", 131_405_000)]
    fn reads_what_the_contract_allows(#[case] text: &str, #[case] millis: u64) {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
    }

    #[rstest]
    #[case::empty("")]
    #[case::blank(" ")]
    #[case::bare("30")]
    #[case::zero_bare("0")]
    #[case::no_number("d")]
    #[case::no_second_number("1d h")]
    #[case::iso_no_number("PD")]
    #[case::weeks("1w")]
    #[case::months("1mo")]
    #[case::years("1y")]
    #[case::iso_weeks("P1W")]
    #[case::iso_months("P1M")]
    #[case::iso_years("P1Y")]
    #[case::iso_empty("P")]
    #[case::iso_empty_time("P1DT")]
    #[case::iso_lower("p30d")]
    #[case::upper("90D")]
    #[case::upper_hours("24H")]
    #[case::words("7days")]
    #[case::inner_blank("7 d")]
    #[case::two_blanks("1d  12h")]
    #[case::fraction("1.5d")]
    #[case::iso_fraction("PT1.5S")]
    #[case::minus("-7d")]
    #[case::minus_zero("-0")]
    #[case::plus("+5d")]
    #[case::trailing(" 7d")]
    #[case::leading("7d ")]
    #[case::repeated("1d 1d")]
    #[case::wrong_order("1h 1d")]
    #[case::exponent("1e3s")]
    #[case::underscore("1_000s")]
    #[case::other_digits("٣d")]
    #[case::micro("5us")]
    fn refuses_everything_else(#[case] text: &str) {
        assert_eq!(parse_duration(text), Err(PeriodError::Malformed));
    }

    #[rstest]
    #[case("99999999999999999999d")]
    #[case("18446744073709551615d")]
    fn refuses_what_cannot_be_counted(#[case] text: &str) {
        assert_eq!(parse_duration(text), Err(PeriodError::TooLong));
    }

    #[rstest]
    #[case(Duration::ZERO, false)]
    #[case(Duration::from_millis(999), false)]
    #[case(Duration::from_secs(1), true)]
    #[case(MAX_PERIOD, true)]
    #[case(MAX_PERIOD + Duration::from_millis(1), false)]
    fn a_period_has_bounds(#[case] keep: Duration, #[case] accepted: bool) {
        assert_eq!(RetentionPeriod::new(keep).is_ok(), accepted);
    }

    #[test]
    fn a_period_is_written_as_its_duration() {
        assert_eq!(RetentionPeriod::in_days_or_hours("36h").unwrap().to_string(), "1d 12h");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0_u64..=u64::from(u32::MAX) * 1_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_duration(&text);
        }
    }
}
