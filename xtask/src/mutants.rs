//! `cargo xtask mutants`: changes the rules and the statements one place at a time, and counts the changes that no test
//! notices. The changing is done by cargo-mutants; what it looks at is in `.cargo/mutants.toml`.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Share of the viable mutants that must be caught, in percent.
const GOAL: f64 = 95.0;
/// Cases of a property per mutant: what differs differs soon, and a thousand runs of all cases take hours.
const PROPERTY_CASES: &str = "48";

/// Which mutants.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the results, in a folder mutants.out of its own
    #[arg(long, value_name = "DIR", default_value = "target")]
    out: String,
    /// What follows `--` is handed to `cargo mutants`, such as `--re` or `--shard`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// The sums cargo-mutants writes.
#[derive(Debug, Deserialize)]
struct Outcomes {
    caught: u32,
    missed: u32,
    timeout: u32,
    unviable: u32,
}

impl Outcomes {
    /// Percent of the mutants that compile; a test that never ends has noticed too.
    fn caught_percent(&self) -> f64 {
        let noticed = self.caught + self.timeout;
        f64::from(noticed) * 100.0 / f64::from((noticed + self.missed).max(1))
    }
}

/// Runs the command.
///
/// # Errors
///
/// When cargo-mutants is not installed or fails, or too few mutants are caught.
pub fn run(args: &Args) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let installed = Command::new(&cargo).args(["mutants", "--version"]).output();
    ensure!(
        installed.is_ok_and(|output| output.status.success()),
        "cargo-mutants is not installed: cargo install cargo-mutants --locked"
    );
    // Its exit code says whether any mutant was missed; which part of them is asked of its sums.
    let status = Command::new(cargo)
        .args([
            "mutants",
            "--output",
            &args.out,
            "--no-shuffle",
            "-p",
            "retention-domain",
            "-p",
            "retention-postgres",
        ])
        .args(&args.arguments)
        .env("PROPTEST_CASES", PROPERTY_CASES)
        // Failing tests are the rule here, and a backtrace takes longer than most of them.
        .env("RUST_BACKTRACE", "0")
        .status()
        .context("running cargo-mutants")?;
    let results = Path::new(&args.out).join("mutants.out");
    let outcomes = results.join("outcomes.json");
    let text =
        fs::read_to_string(&outcomes).with_context(|| format!("{status}, and no {}", outcomes.display()))?;
    let outcomes: Outcomes = serde_json::from_str(&text)?;
    let percent = outcomes.caught_percent();
    writeln!(
        stdout(),
        "{} caught, {} ran into the time limit, {} missed, {} do not compile: {percent:.1} % noticed",
        outcomes.caught,
        outcomes.timeout,
        outcomes.missed,
        outcomes.unviable
    )?;
    ensure!(
        percent >= GOAL,
        "less than {GOAL} %; those missed are in {}",
        results.join("missed.txt").display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_compile_counts_for_nothing() {
        let of = |caught, missed, timeout, unviable| Outcomes { caught, missed, timeout, unviable };
        assert!((of(94, 5, 1, 1000).caught_percent() - 95.0).abs() < 1e-9);
        assert!(of(0, 0, 0, 7).caught_percent() < GOAL);
    }
}
