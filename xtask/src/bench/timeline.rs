//! When a run did what, read from the worker's own log lines. Judges nothing.

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::stats::mean;

/// One run as its log tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// When the cutoffs were known.
    pub started_at: DateTime<Utc>,
    /// When all was counted.
    pub completed_at: DateTime<Utc>,
    /// The batches that deleted something.
    pub batches: Vec<Batch>,
}

/// A committed batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Seconds from the start of the run to its commit.
    pub at: f64,
    /// Rows it deleted.
    pub rows: u64,
}

#[derive(Deserialize)]
struct Line {
    timestamp: DateTime<Utc>,
    message: String,
    #[serde(rename = "deletedCount")]
    rows: Option<u64>,
}

impl Timeline {
    /// Of the one run in these JSON lines, which must include `batch deleted` at level debug.
    ///
    /// # Errors
    ///
    /// When a line is no event, or the run has no beginning or no end.
    pub fn read(log: &str) -> Result<Self> {
        let (mut started_at, mut completed_at, mut batches) = (None, None, Vec::new());
        for line in log.lines() {
            let Line { timestamp, message, rows } =
                serde_json::from_str(line).with_context(|| format!("not a log line: {line:?}"))?;
            match (message.as_str(), started_at) {
                ("job started", _) => started_at = Some(timestamp),
                ("job completed", _) => completed_at = Some(timestamp),
                ("batch deleted", Some(start)) => {
                    batches.push(Batch { at: seconds(start, timestamp), rows: rows.unwrap_or(0) });
                }
                _ => {}
            }
        }
        let started_at = started_at.context("the log has no line `job started`")?;
        let completed_at = completed_at.context("the log has no line `job completed`")?;
        Ok(Self { started_at, completed_at, batches })
    }

    /// Seconds from one commit to the next: everything a batch takes, with whatever was read for it. The first batch
    /// is left out: the scan of the window stands before it.
    pub fn batch_times(&self) -> Vec<f64> {
        self.batches.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
    }

    /// Mean batch time of the last quarter of the run, divided by that of the first; `None` below eight batches.
    pub fn slowdown(&self) -> Option<f64> {
        let times = self.batch_times();
        let quarter = times.len() / 4;
        if quarter < 2 {
            return None;
        }
        Some(mean(&times[times.len() - quarter..])? / mean(&times[..quarter])?)
    }
}

/// Seconds from one instant to a later one; negative to an earlier one.
pub fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).as_seconds_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, message: &str, rest: &str) -> String {
        format!("{{\"timestamp\":\"2026-11-30T02:00:{second:02}Z\",\"message\":\"{message}\"{rest}}}\n")
    }

    #[test]
    fn a_run_is_read_from_its_lines() -> Result<()> {
        let log = [
            line(1, "job started", ""),
            line(3, "batch deleted", ",\"phase\":\"sicr\",\"deletedCount\":10"),
            line(4, "phase completed", ",\"deletedCount\":12"),
            line(5, "job completed", ""),
        ];
        let timeline = Timeline::read(&log.concat())?;
        assert_eq!(timeline.batches, [Batch { at: 2.0, rows: 10 }]);
        assert!((seconds(timeline.started_at, timeline.completed_at) - 4.0).abs() < f64::EPSILON);
        assert!(Timeline::read(&log[..2].concat()).is_err());
        assert!(Timeline::read("not JSON\n").is_err());
        Ok(())
    }

    #[test]
    fn the_slowdown_compares_the_last_quarter_with_the_first() {
        let instant = DateTime::UNIX_EPOCH;
        let run = |times: &[f64]| {
            let mut at = 100.0;
            let batches = times.iter().map(|time| {
                at += time;
                Batch { at, rows: 1 }
            });
            let batches = std::iter::once(Batch { at: 100.0, rows: 1 }).chain(batches).collect();
            Timeline { started_at: instant, completed_at: instant, batches }
        };
        assert_eq!(run(&[1.0; 8]).slowdown(), Some(1.0));
        assert_eq!(run(&[1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 2.0, 4.0]).slowdown(), Some(3.0));
        assert_eq!(run(&[1.0; 7]).slowdown(), None);
    }
}
