//! The instant that separates due rows from young ones.

use chrono::{DateTime, Utc};

use crate::period::RetentionPeriod;

/// `now − period`, exclusive: a row strictly older is due, a row exactly at the cutoff stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cutoff(DateTime<Utc>);

/// The period reaches back before the calendar's first instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a retention period of {keep} reaches back before the calendar begins")]
pub struct BeforeCalendar {
    /// The period asked for.
    pub keep: RetentionPeriod,
}

impl Cutoff {
    /// The cutoff of a run that read `now` from the database.
    ///
    /// # Errors
    /// [`BeforeCalendar`] when the subtraction leaves the calendar.
    pub fn before(now: DateTime<Utc>, keep: RetentionPeriod) -> Result<Self, BeforeCalendar> {
        now.checked_sub_signed(keep.as_delta()).map(Self).ok_or(BeforeCalendar { keep })
    }

    /// The instant itself.
    #[must_use]
    pub const fn instant(self) -> DateTime<Utc> {
        self.0
    }

    /// Whether a row of this age is old enough. An undated row (`None`) never is.
    #[must_use]
    pub fn passes(self, age: Option<DateTime<Utc>>) -> bool {
        age.is_some_and(|age| age < self.0)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_cutoff_itself_stays_one_microsecond_older_goes() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let cutoff = Cutoff::before(now, RetentionPeriod::from_days(30).unwrap()).unwrap();
        let line = now - TimeDelta::days(30);
        assert!(!cutoff.passes(Some(line)));
        assert!(cutoff.passes(Some(line - TimeDelta::microseconds(1))));
        assert!(!cutoff.passes(Some(line + TimeDelta::microseconds(1))));
        assert!(!cutoff.passes(None));
    }

    #[test]
    fn a_cutoff_before_the_calendar_is_an_error() {
        let keep = RetentionPeriod::from_days(36_500).unwrap();
        assert_eq!(Cutoff::before(DateTime::<Utc>::MIN_UTC, keep), Err(BeforeCalendar { keep }));
    }
}
