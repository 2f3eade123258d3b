//! The worker as it is shipped, run as a process: how long its report says the run took, when its batches were
//! committed, and how much memory it had.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Finished, Process, release_binary};
use tokio::task::spawn_blocking;
use tokio::time::interval;

use super::timeline::Timeline;
use crate::demo::report::Report;

/// Far more than the longest run takes.
const DEADLINE: Duration = Duration::from_hours(3);
/// How often its memory is read. The kernel keeps the peak, so only one in the very last moment can be missed.
const POLL: Duration = Duration::from_millis(20);
const RUN: [&str; 3] = ["run", "--format", "json"];

/// The built worker.
#[derive(Clone)]
pub struct Worker {
    program: PathBuf,
}

/// How it is to be run: variables without their prefix, over the worker's own defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings(Vec<(&'static str, String)>);

/// A run that has ended as it should.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the report says.
    pub duration: Duration,
    /// Rows of both policies.
    pub deleted: u64,
    /// What the log says.
    pub timeline: Timeline,
    /// Peak resident memory of the process, in mebibytes.
    pub peak_mib: f64,
}

impl Settings {
    /// As operators have them who set nothing, but for the bound of a run.
    pub fn defaults() -> Self {
        Self::default().set("MAX_RUN_DURATION", "24h")
    }

    /// As fast as one connection can.
    pub fn full_speed() -> Self {
        Self::defaults().set("BATCH_PAUSE", "0s").set("CONCURRENCY", "1")
    }

    /// With another value of a variable, named without its prefix.
    pub fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, value.to_string()));
        self
    }
}

impl Worker {
    /// Builds it.
    ///
    /// # Errors
    ///
    /// When it does not build.
    pub async fn build() -> Result<Self> {
        let program = spawn_blocking(|| release_binary("retention-worker")).await??;
        Ok(Self { program })
    }

    /// What `--version` says.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub async fn version(&self) -> Result<String> {
        let mut process = Process::spawn(&self.program, ["--version"], [])?;
        Ok(process.wait(DEADLINE).await?.stdout.trim().to_owned())
    }

    /// Starts one run.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(&self, database_url: &str, settings: &Settings) -> Result<Process> {
        let variables: Vec<(String, &str)> = settings
            .0
            .iter()
            .map(|(name, value)| (format!("SESSION_RETENTION_{name}"), value.as_str()))
            .chain([
                ("DATABASE_URL".to_owned(), database_url),
                ("LOG_FORMAT".to_owned(), "json"),
                // The batches above the 100th are told at this level; statements are not.
                ("RUST_LOG".to_owned(), "debug"),
            ])
            .collect();
        let variables = variables.iter().map(|(name, value)| (name.as_str(), *value));
        Process::spawn(Path::new(&self.program), RUN, variables)
    }

    /// One run to its end.
    ///
    /// # Errors
    ///
    /// When it does not end as `completed`: a run that leaves something is no measurement.
    pub async fn run(&self, database_url: &str, settings: &Settings) -> Result<Run> {
        finish(self.start(database_url, settings)?).await
    }
}

/// Waits for the end of a run.
///
/// # Errors
///
/// As for [`Worker::run`].
pub async fn finish(mut process: Process) -> Result<Run> {
    let id = process.id();
    let mut peak_mib: f64 = 0.0;
    let mut poll = interval(POLL);
    let ended = process.wait(DEADLINE);
    tokio::pin!(ended);
    let finished: Finished = loop {
        tokio::select! {
            finished = &mut ended => break finished?,
            _ = poll.tick() => peak_mib = peak_mib.max(peak_of(id).unwrap_or(0.0)),
        }
    };
    ensure!(
        finished.code() == Some(0),
        "the worker ended with {}; the end of its log:\n{}",
        finished.status,
        last_lines(&finished.stderr, 5)
    );
    let report = Report::read(&finished)?;
    ensure!(
        report.outcome == "completed",
        "a run was {} ({}): {:?}",
        report.outcome,
        report.stop_reason,
        report.policies
    );
    let deleted = report.policies.iter().map(|policy| u64::try_from(policy.deleted)).sum::<Result<u64, _>>();
    Ok(Run {
        duration: Duration::from_millis(report.duration_ms),
        deleted: deleted.context("a negative count")?,
        timeline: Timeline::read(&finished.stderr)?,
        peak_mib,
    })
}

/// The peak resident memory of a running process so far, in mebibytes.
fn peak_of(process: u32) -> Option<f64> {
    peak_in(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn peak_in(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_the_kernel_s_page() {
        assert_eq!(peak_in("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2.0));
        assert_eq!(peak_in("Name:\tx\n"), None);
        assert!(peak_of(std::process::id()).is_some_and(|mib| mib > 1.0));
    }

    #[test]
    fn a_later_setting_replaces_an_earlier_one() {
        let settings = Settings::full_speed().set("CONCURRENCY", 2);
        let values = |name| settings.0.iter().filter(|(other, _)| *other == name).collect::<Vec<_>>();
        assert_eq!(values("CONCURRENCY"), [&("CONCURRENCY", "2".to_owned())]);
    }
}
