//! The worker's binary as a process, with settings that suit a test.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::{Finished, Process, binary};

/// Far more than anything in a test takes.
const DEADLINE: Duration = Duration::from_mins(2);

/// How the worker is to be started.
#[derive(Clone, Debug)]
pub struct Worker {
    variables: Vec<(String, String)>,
    one_core: bool,
}

impl Worker {
    /// A worker on this database that makes no pauses and waits shortly for locks.
    #[must_use]
    pub fn on(url: &str) -> Self {
        Self { variables: Vec::new(), one_core: false }
            .set("DATABASE_URL", url)
            .set("SESSION_RETENTION_BATCH_PAUSE", "0s")
            .set("SESSION_RETENTION_LOCK_TIMEOUT", "100ms")
            .set("SESSION_RETENTION_HTTP_ADDR", "127.0.0.1:0")
            .set("LOG_FORMAT", "json")
    }

    /// Sets a variable of its environment, by its full name.
    #[must_use]
    pub fn set(mut self, variable: &str, value: impl Into<String>) -> Self {
        self.variables.retain(|(name, _)| name != variable);
        self.variables.push((variable.to_owned(), value.into()));
        self
    }

    /// Gives it one core alone, whatever the machine has.
    #[must_use]
    pub fn on_one_core(mut self) -> Self {
        self.one_core = true;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// When it does not build or start.
    pub async fn spawn(&self, arguments: &[&str]) -> Result<Process> {
        let program = spawn_blocking(|| binary("retention-worker")).await??;
        let variables = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        if !self.one_core {
            return Process::spawn(&program, arguments.iter().copied(), variables);
        }
        let core = first_core()?;
        let program = program.to_str().context("a path that is no text")?;
        let arguments = ["--cpu-list", &core, program].into_iter().chain(arguments.iter().copied());
        Process::spawn(Path::new("taskset"), arguments, variables)
    }

    /// Starts it and waits for its end.
    ///
    /// # Errors
    ///
    /// When it does not build, start or end.
    pub async fn finish(&self, arguments: &[&str]) -> Result<Finished> {
        self.spawn(arguments).await?.wait(DEADLINE).await
    }

    /// One run, and its report.
    ///
    /// # Errors
    ///
    /// When it does not end or prints anything but one JSON value.
    pub async fn run(&self) -> Result<(Finished, Value)> {
        let finished = self.finish(&["run", "--format", "json"]).await?;
        let report = serde_json::from_str(&finished.stdout).with_context(|| format!("{finished:?}"))?;
        Ok((finished, report))
    }
}

/// A core this process may run on.
fn first_core() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cores = cores.context("the kernel does not say which cores there are")?.trim();
    Ok(cores.chars().take_while(char::is_ascii_digit).collect())
}
