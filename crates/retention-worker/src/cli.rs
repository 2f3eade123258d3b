//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Physically deletes spent sign-in confirmation requests and terminal refresh sessions, in bounded batches, safely
/// beside online traffic.
#[derive(Clone, Debug, Parser)]
#[command(name = "retention-worker", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// File with declared policies; the same as `SESSION_RETENTION_POLICY_FILE`.
    #[arg(long, value_name = "PATH", global = true)]
    pub policy_file: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Settings come from the environment (see `retention-worker config` and docs/configuration.md); DATABASE_URL is required.

Examples:
  retention-worker plan                      what would go, without deleting anything
  retention-worker check                     what stands in the way of a run, and what mends it
  retention-worker run --format json         one run now, for a CronJob; the report goes to stdout
  retention-worker serve                     every night in the window, with /metrics, /healthz, /readyz

Exit codes:
  0  done, or ended normally before everything was gone
  1  at least one policy failed, or `check` found an error
  2  wrong usage or settings; nothing was touched
  3  no usable database; nothing was touched";

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run for ever: wait for the slots of the night window, run, report; serve HTTP.
    Serve,
    /// One run now, whatever the window says; print its report.
    Run {
        #[command(flatten)]
        output: Output,
        /// Write the metrics to this file when the run is over, atomically, for a textfile collector.
        #[arg(long, value_name = "PATH")]
        metrics_file: Option<PathBuf>,
    },
    /// Show what a run would meet. Deletes nothing, takes no row lock.
    Plan {
        #[command(flatten)]
        output: Output,
    },
    /// Look at tables, rights, indexes and server for what would fail or cost too much, and say what mends it.
    Check {
        #[command(flatten)]
        output: Output,
    },
    /// Show the resolved settings, secrets hidden. Needs no database.
    Config {
        #[command(flatten)]
        output: Output,
    },
}

/// How results are written to stdout.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// For people or for machines.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// A result's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One JSON value.
    Json,
}

impl Output {
    /// Writes one of the two forms to stdout. Nobody reading it is no failure of the work done.
    pub fn print(self, text: impl FnOnce() -> String, json: impl FnOnce() -> String) {
        use std::io::Write as _;
        let shown = match self.format {
            Format::Text => text(),
            Format::Json => json(),
        };
        let _ = writeln!(std::io::stdout().lock(), "{}", shown.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
