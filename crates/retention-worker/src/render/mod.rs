//! Results for stdout: run report, plan, preflight and settings, as JSON for machines and as text for people. Prints nothing
//! itself, and reads no clock: everything shown comes with the value.

mod check;
mod config;
mod paint;
mod plan;
mod report;
mod text;

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

pub use check::{check_json, check_text};
pub use config::{config_json, config_text};
pub use paint::{colours, painted};
pub use plan::{PlanRow, plan_json, plan_text};
pub use report::{report_json, report_text};
pub(crate) use text::{days, grouped, plain};

/// RFC 3339 in UTC with `Z`, and with as many digits of the second as it takes.
pub(crate) fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Whole milliseconds, cut off.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole seconds from `date` to `now`, cut off; 0 for a date ahead of it.
fn age_seconds(now: DateTime<Utc>, date: DateTime<Utc>) -> u64 {
    u64::try_from((now - date).num_seconds()).unwrap_or(0)
}

/// JSON on one line. Only for values that can always be written: no maps with odd keys, no fallible fields.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
