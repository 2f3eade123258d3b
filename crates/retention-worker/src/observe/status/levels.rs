//! The service levels of the specification, judged by what the last runs counted. A level that nothing is known about
//! neither holds nor is broken.

use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::period::format_duration;
use serde::Serialize;

use super::Counted;
use super::view::At;
use crate::render::days;

/// Of a hundred rows past their threshold, so many must be gone when the next run ends.
const PERCENT_IN_TIME: u64 = 99;

/// A service level and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// `in_time`, `no_stragglers` or `recent_success`.
    pub id: &'static str,
    /// The policy it is about; none when it is about all of them.
    pub policy: Option<String>,
    /// What must hold, in words.
    pub target: String,
    /// What was measured, in words; none when nothing was.
    pub measured: Option<String>,
    /// Whether it holds; none when nothing was measured.
    pub holds: Option<bool>,
    /// When it was measured.
    pub as_of: Option<At>,
}

/// How long a row may stay, at most: its retention and two intervals.
pub(super) fn limit(retention: Duration, interval: Duration) -> Duration {
    retention + interval * 2
}

/// Rows past their threshold that the last run deleted, in tenths of a percent, cut off; all of them if there were
/// none.
pub(super) fn per_mille_in_time(counted: &Counted) -> u64 {
    let past = counted.deleted + counted.backlog.pending;
    if past == 0 {
        1000
    } else {
        u64::try_from(u128::from(counted.deleted) * 1000 / u128::from(past)).unwrap_or(0)
    }
}

/// A success within two intervals. A process that is younger than that may be the first there is.
pub(super) fn recent_success(
    last: Option<DateTime<Utc>>,
    process_started_at: DateTime<Utc>,
    interval: Duration,
    now: DateTime<Utc>,
) -> Level {
    let too_long = |since: DateTime<Utc>| (now - since).to_std().is_ok_and(|past| past > interval * 2);
    let (holds, measured) = match last {
        Some(at) => (Some(!too_long(at)), Some("the last successful run ended".to_owned())),
        None if too_long(process_started_at) => {
            (Some(false), Some("no run has succeeded since this process started".to_owned()))
        }
        None => (None, None),
    };
    Level {
        id: "recent_success",
        policy: None,
        target: format!("a run succeeded in the last {}", format_duration(interval * 2)),
        as_of: measured.as_ref().map(|_| At(last.unwrap_or(process_started_at))),
        measured,
        holds,
    }
}

/// Nearly all rows leave with the first run after their threshold.
pub(super) fn in_time(policy: &str, counted: Option<&Counted>) -> Level {
    let share = counted.map(per_mille_in_time);
    Level {
        id: "in_time",
        policy: Some(policy.to_owned()),
        target: format!("{PERCENT_IN_TIME} % of the rows that are due leave with the next run"),
        measured: share.map(|share| format!("{}.{} % left with the last run", share / 10, share % 10)),
        holds: share.map(|share| share >= PERCENT_IN_TIME * 10),
        as_of: counted.map(|counted| At(counted.at)),
    }
}

/// No row that can go is older than its limit. Ages go on after the count: who was left then is older now.
pub(super) fn no_stragglers(
    policy: &str,
    limit: Duration,
    counted: Option<&Counted>,
    now: DateTime<Utc>,
) -> Level {
    let oldest = counted.map(|counted| age(counted.backlog.oldest_pending, now));
    Level {
        id: "no_stragglers",
        policy: Some(policy.to_owned()),
        target: format!("no row that can go is older than {}", days(limit.as_secs())),
        measured: oldest.map(|oldest| match oldest {
            Some(age) => format!("the oldest is {} old", days(age)),
            None => "none is left".to_owned(),
        }),
        holds: oldest.map(|oldest| oldest.is_none_or(|age| age <= limit.as_secs())),
        as_of: counted.map(|counted| At(counted.at)),
    }
}

/// Whole seconds since a date, if there is one.
pub(super) fn age(date: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<u64> {
    date.map(|date| u64::try_from((now - date).num_seconds()).unwrap_or(0))
}
