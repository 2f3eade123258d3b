//! What the worker says about itself in JSON, and its run report as a table for people.

use std::fmt;

use anyhow::{Context, Result};
use harness::Finished;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::table::numbers;

/// The parts of `plan --format json` that are checked.
#[derive(Debug, Deserialize)]
pub struct Plan {
    pub policies: Vec<Planned>,
}

/// One policy of a plan.
#[derive(Debug, Deserialize)]
pub struct Planned {
    pub table: String,
    pub deletable: i64,
    pub blocked: i64,
}

/// The parts of `run --format json` that are shown or checked.
#[derive(Debug, Deserialize)]
pub struct Report {
    pub job_run_id: String,
    pub duration_ms: u64,
    pub outcome: String,
    pub stop_reason: String,
    pub policies: Vec<Reported>,
}

/// One policy of a report.
#[derive(Debug, Deserialize)]
pub struct Reported {
    pub policy: String,
    pub table: String,
    pub cutoff: String,
    pub deleted: i64,
    pub batches: i64,
    pub skipped: i64,
    pub failed_rows: i64,
    pub stop_reason: String,
    pub backlog: Backlog,
}

/// Rows still due; `None` where they could not be counted.
#[derive(Debug, Deserialize)]
pub struct Backlog {
    pub pending: Option<i64>,
    pub blocked: Option<i64>,
}

impl Plan {
    /// Reads what `plan --format json` wrote.
    pub fn read(finished: &Finished) -> Result<Self> {
        read(finished)
    }
}

impl Report {
    /// Reads what `run --format json` wrote.
    pub fn read(finished: &Finished) -> Result<Self> {
        read(finished)
    }
}

/// Stdout must hold one JSON value and nothing else.
fn read<T: DeserializeOwned>(finished: &Finished) -> Result<T> {
    serde_json::from_str(&finished.stdout)
        .with_context(|| format!("not the JSON that was expected on stdout: {:?}", finished.stdout))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job_run_id, duration_ms, outcome, stop_reason, .. } = self;
        writeln!(f, "run {job_run_id}: {outcome} ({stop_reason}) after {duration_ms} ms\n")?;
        let known = |number: Option<i64>| number.map_or("unknown".to_owned(), |number| number.to_string());
        let rows = self.policies.iter().map(|policy| {
            [
                policy.policy.clone(),
                policy.cutoff.clone(),
                policy.deleted.to_string(),
                policy.batches.to_string(),
                policy.skipped.to_string(),
                policy.failed_rows.to_string(),
                known(policy.backlog.pending),
                known(policy.backlog.blocked),
                policy.stop_reason.clone(),
            ]
        });
        let header = [
            "policy",
            "older than",
            "deleted",
            "batches",
            "skipped",
            "failed",
            "pending",
            "blocked",
            "stopped by",
        ];
        f.write_str(&numbers(header, rows))
    }
}
