//! `cargo xtask ci`: what a change must pass, the same here as anywhere else. The steps are in `.ci/run`, which a
//! machine can start before anything is built.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs the command.
///
/// # Errors
///
/// When a step fails.
pub fn run() -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/run");
    let status = Command::new("bash").arg(script).status().context("running bash")?;
    ensure!(status.success(), ".ci/run ended with {status}");
    Ok(())
}
