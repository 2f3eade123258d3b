//! A policy with its cutoff, and what a preview says about it.

use chrono::{DateTime, Utc};

use crate::cutoff::{BeforeCalendar, Cutoff};
use crate::policy::RetentionPolicy;

/// A policy of a run, with the cutoff that the run's one reading of the clock gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which rows.
    pub policy: RetentionPolicy,
    /// Strictly older than this goes.
    pub cutoff: Cutoff,
}

/// What a run would meet, counted without a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Rows under the predicate (age and conditions), whoever refers to them.
    pub due: u64,
    /// Due rows all of whose descendants are due too: one run removes them.
    pub deletable: u64,
    /// Due rows with a descendant that stays, or on a cycle.
    pub blocked: u64,
    /// Rows that pass the conditions but carry no usable date (NULL, `infinity`, `-infinity`): they stay.
    pub undated: u64,
    /// Rows whose status is none of the known ones: they stay.
    pub unknown_status: u64,
    /// Date of the oldest due row.
    pub oldest: Option<DateTime<Utc>>,
}

/// The policies of a run with their cutoffs, in order.
///
/// # Errors
/// [`BeforeCalendar`] when a retention period leaves the calendar.
pub fn targets(policies: &[RetentionPolicy], now: DateTime<Utc>) -> Result<Vec<Target>, BeforeCalendar> {
    policies
        .iter()
        .map(|policy| Ok(Target { cutoff: Cutoff::before(now, policy.retention)?, policy: policy.clone() }))
        .collect()
}
