//! `cargo xtask bench`: how fast the worker drains, what it costs others and how that grows, each beside something to
//! compare it with, measured in the same run on identical copies.
//!
//! Owns the sequence: a server, the scenarios, the verdict, the files. What is measured is the shipped binary as a
//! process; its time is what its report says.

mod args;
mod chart;
mod figures;
mod goals;
mod machine;
mod oauth_peer;
mod page;
mod progress;
mod results;
mod scenarios;
mod signin;
mod sql;
mod stage;
mod stats;
mod timeline;
mod worker;

use std::io::{Write, stdout};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;

use anyhow::{Result, ensure};

pub use args::Args;

use crate::demo::interrupted;
use machine::Circumstances;
use results::Results;
use stage::Stage;

/// Due rows of a scenario of the normal size.
const ROWS: u32 = 1_000_000;
/// The same for `--quick`. Whoever measures so little wants no figures but an answer, and soon.
const QUICK_ROWS: u32 = 100_000;

/// Runs the command.
///
/// # Errors
///
/// When something could not be measured; with `--quick` also when a goal is missed.
pub async fn run(args: Args) -> Result<()> {
    let rows = args.rows.unwrap_or(if args.quick { QUICK_ROWS } else { ROWS });
    // A client in an unoptimised build takes so much of the machine that it measures itself.
    if cfg!(debug_assertions) && rows > QUICK_ROWS {
        return Err(become_optimised());
    }
    let mut interrupted = pin!(interrupted());
    let mut stage = tokio::select! {
        stage = Stage::set_up(args.database_url.clone(), rows, args.quick) => stage?,
        error = &mut interrupted => return Err(error),
    };
    let results = tokio::select! {
        results = measure(&mut stage, &args) => results,
        error = &mut interrupted => Err(error),
    };
    stage.clean_up();
    let (results, [json, html]) = results?;
    writeln!(stdout(), "\n{results}\n\n{}\n{}", json.display(), html.display())?;
    let failed: Vec<&str> = results.failed().into_iter().map(|(name, _)| name).collect();
    ensure!(failed.is_empty(), "could not be measured: {}", failed.join(", "));
    let missed: Vec<&str> = results.missed().into_iter().map(|verdict| verdict.goal).collect();
    ensure!(!args.quick || missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Measures what is asked for. After each scenario everything so far is written, so that nobody loses an hour.
async fn measure(stage: &mut Stage, args: &Args) -> Result<(Results, [PathBuf; 2])> {
    let circumstances = Circumstances::of(stage).await?;
    if !circumstances.durable {
        stage.progress.say("NOTE: this server is not durable: fsync or synchronous_commit is off");
    }
    let names = scenarios::selected(&args.scenario, args.quick);
    ensure!(!names.is_empty(), "--quick measures none of these scenarios");
    let mut results = Results {
        version: 1,
        command: command(args, stage.rows),
        quick: args.quick,
        rows: stage.rows,
        circumstances,
        goals: Vec::new(),
        scenarios: Vec::new(),
    };
    let mut files = results.write(&args.out)?;
    for &name in &names {
        // The depths are measured together, so that they can be compared.
        if results.scenarios.iter().any(|measured| measured.name == name.text()) {
            continue;
        }
        results.scenarios.extend(scenarios::measure(stage, name, &names).await);
        results.goals = goals::judge(&results.scenarios, args.quick);
        files = results.write(&args.out)?;
    }
    Ok((results, files))
}

/// What to type to do it again; the server's address may hold a password.
fn command(args: &Args, rows: u32) -> String {
    let names: Vec<String> = args.scenario.iter().map(|name| name.text()).collect();
    let parts = [
        Some("cargo xtask bench".to_owned()),
        (!names.is_empty()).then(|| format!("--scenario {}", names.join(" "))),
        Some(format!("--rows {rows}")),
        args.quick.then(|| "--quick".to_owned()),
        args.database_url.is_some().then(|| "--database-url URL".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

/// Builds this program optimised and becomes it. Returns only when that fails.
fn become_optimised() -> anyhow::Error {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let error = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(std::env::args_os().skip(1))
        .exec();
    anyhow::Error::new(error).context("running the optimised bench")
}
