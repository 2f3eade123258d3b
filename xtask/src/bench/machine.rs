//! Where and with what a bench was run: without it no figure says anything.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use serde::Serialize;
use sqlx::{Connection, PgConnection};

use super::stage::Stage;

/// Settings of a server that decide how fast it deletes.
const SETTINGS: [&str; 14] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_compression",
    "work_mem",
    "max_parallel_workers_per_gather",
    "autovacuum",
    "random_page_cost",
    "jit",
    "block_size",
];

/// The circumstances of a bench.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    /// When it began, by the database's clock.
    pub measured_at: String,
    /// Of the source tree; `-dirty` follows when it differs from the commit.
    pub commit: String,
    /// The worker's, as it says itself.
    pub worker: String,
    /// The compiler's.
    pub rustc: String,
    /// Processors this process may use.
    pub cores: usize,
    /// What the processor calls itself.
    pub processor: String,
    /// Memory of the machine, in gibibytes.
    pub memory_gib: f64,
    /// Of the kernel.
    pub kernel: String,
    /// Version and origin.
    pub server: String,
    /// By name, with their units.
    pub settings: BTreeMap<String, String>,
    /// Whether a committed row survives a crash of the server: fsync and synchronous commit are on.
    pub durable: bool,
}

impl Circumstances {
    /// Asks the server, the machine and the source tree.
    ///
    /// # Errors
    ///
    /// When the server or the worker does not answer.
    pub async fn of(stage: &Stage) -> Result<Self> {
        let mut connection = PgConnection::connect(stage.server.maintenance_url()).await?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY($1) ORDER BY name",
        )
        .bind(&SETTINGS[..])
        .fetch_all(&mut connection)
        .await
        .context("reading the server's settings")?;
        let measured_at =
            sqlx::query_scalar("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI \"UTC\"')")
                .fetch_one(&mut connection)
                .await?;
        connection.close().await?;
        let settings: BTreeMap<String, String> = settings.into_iter().collect();
        let is_on = |name: &str| settings.get(name).is_some_and(|value| value != "off");
        Ok(Self {
            measured_at,
            commit: commit(),
            worker: stage.worker.version().await?,
            rustc: said("rustc", &["--version"]),
            cores: available_parallelism().map_or(0, Into::into),
            processor: first(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            memory_gib: memory_gib(&read("/proc/meminfo")).unwrap_or(0.0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            server: stage.server.describe(),
            durable: is_on("fsync") && is_on("synchronous_commit"),
            settings,
        })
    }
}

fn commit() -> String {
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]);
    let differs = Command::new("git")
        .args(["diff", "--quiet", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .is_ok_and(|s| s.code() == Some(1));
    if differs { format!("{commit}-dirty") } else { commit }
}

/// What a program says in one line.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text =
        output.ok().filter(|output| output.status.success()).and_then(|o| String::from_utf8(o.stdout).ok());
    text.map_or_else(unknown, |text| text.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first `name : value` line.
fn first(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn memory_gib(meminfo: &str) -> Option<f64> {
    let kib: f64 = first(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib / 1024.0 / 1024.0 * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernel_s_page() {
        assert_eq!(memory_gib("MemTotal:       8388608 kB\nMemFree: 1 kB\n"), Some(8.0));
        assert_eq!(memory_gib(""), None);
    }

    #[test]
    fn a_program_that_is_not_there_says_nothing() {
        assert_eq!(said("no-such-program", &[]), "unknown");
    }
}
