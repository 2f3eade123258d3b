//! The command line: what can be asked for. What the help says beyond that is in `help.rs`.

mod help;
pub mod man;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::render::painted;

/// Physically deletes spent sign-in confirmation requests and terminal refresh sessions, in bounded batches, safely
/// beside online traffic.
#[derive(Clone, Debug, Parser)]
#[command(name = "retention-worker", version, after_help = help::SHORT, after_long_help = help::of_the_worker())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// File with declared policies; the same as `SESSION_RETENTION_POLICY_FILE`.
    #[arg(long, value_name = "PATH", global = true)]
    pub policy_file: Option<PathBuf>,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run for ever: wait for the slots of the night window, run, report; serve HTTP.
    #[command(after_long_help = help::of("serve"))]
    Serve,
    /// One run now, whatever the window says; print its report.
    #[command(after_long_help = help::of("run"))]
    Run {
        #[command(flatten)]
        output: Output,
        /// Write the metrics to this file when the run is over, atomically, for a textfile collector.
        #[arg(long, value_name = "PATH")]
        metrics_file: Option<PathBuf>,
    },
    /// Show what a run would meet. Deletes nothing, takes no row lock.
    #[command(after_long_help = help::of("plan"))]
    Plan {
        #[command(flatten)]
        output: Output,
        /// Say also how long a run would take if it deleted so many rows a second.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rows_per_second: Option<u32>,
    },
    /// Look at tables, rights, indexes and server for what would fail or cost too much, and say what mends it.
    #[command(after_long_help = help::of("check"))]
    Check {
        #[command(flatten)]
        output: Output,
    },
    /// One run of one declared policy now, with another retention; print its report.
    #[command(after_long_help = help::of("cleanup"))]
    Cleanup(Cleanup),
    /// Show the resolved settings, secrets hidden. Needs no database.
    #[command(after_long_help = help::of("config"))]
    Config {
        #[command(flatten)]
        output: Output,
    },
    /// Print a script that completes this command line in a shell.
    #[command(after_long_help = help::of("completions"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, of the worker or of one of its commands.
    #[command(after_long_help = help::of("man"))]
    Man {
        /// The command; the worker as a whole without it.
        command: Option<String>,
    },
}

/// What `cleanup` is asked to do.
#[derive(Clone, Debug, Args)]
pub struct Cleanup {
    /// The table of a declared policy; the schema may be left out where only one such table is declared.
    #[arg(long, value_name = "[SCHEMA.]TABLE")]
    pub table: String,
    /// The policy, where the table has several.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Delete rows older than this, in days or hours, instead of the policy's retention; not below its minimum.
    #[arg(long, value_name = "DURATION")]
    pub older_than: String,
    /// Show what the run would meet. Deletes nothing, takes no row lock.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: Output,
    /// Write the metrics to this file when the run is over, atomically, for a textfile collector.
    #[arg(long, value_name = "PATH")]
    pub metrics_file: Option<PathBuf>,
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
    /// Tables for people, in colour on a terminal unless `NO_COLOR` is set.
    Text,
    /// One JSON value.
    Json,
}

/// Writes results to stdout.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    format: Format,
    colour: bool,
}

impl Output {
    /// Whoever prints in this form, with or without colour.
    #[must_use]
    pub const fn printer(self, colour: bool) -> Printer {
        Printer { format: self.format, colour }
    }
}

impl Printer {
    /// Writes one of the two forms. JSON never has colours.
    pub fn print(self, text: impl FnOnce() -> String, json: impl FnOnce() -> String) {
        match self.format {
            Format::Text if self.colour => print(&painted(&text())),
            Format::Text => print(&text()),
            Format::Json => print(&json()),
        }
    }
}

/// Whether a result could not be written.
static RESULT_LOST: AtomicBool = AtomicBool::new(false);

/// Writes to stdout. Nobody reading it is no failure of the work done; a disk that is full is told, and remembered for the
/// exit code.
pub fn print(text: &str) {
    use std::io::Write as _;
    match writeln!(std::io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            RESULT_LOST.store(true, Ordering::Relaxed);
            tracing::error!(%error, "the result could not be written to stdout");
        }
        _ => {}
    }
}

/// Whether a result could not be written, other than because nobody reads it.
#[must_use]
pub fn result_is_lost() -> bool {
    RESULT_LOST.load(Ordering::Relaxed)
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
