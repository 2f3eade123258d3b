//! The workspace's own binaries, as other packages' tests need them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The beginnings of the variables by which cargo tells a program about its package.
const OF_THE_CALLER: [&str; 5] =
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The path of the binary `name` of this workspace, built in the profile of the caller, once per process.
///
/// Cargo hands such paths only to the tests of the same package. Blocks while it builds.
///
/// # Errors
///
/// When there is no such binary or it does not build: with what cargo said.
pub fn binary(name: &str) -> Result<PathBuf> {
    static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    // Held while building, so that the second to ask waits for the first. A panic leaves the map whole.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    // With the whole workspace selected, shared dependencies have the features they were just built with.
    let mut arguments = vec!["--workspace"];
    if !cfg!(debug_assertions) {
        arguments.push("--release");
    }
    let path = build(name, &arguments)?;
    built.insert(name.to_owned(), path.clone());
    Ok(path)
}

/// The path of the binary `name` as it is shipped: optimised, with no features but its own. Built by every call.
///
/// # Errors
///
/// As for [`binary`].
pub fn release_binary(name: &str) -> Result<PathBuf> {
    build(name, &["--release"])
}

fn build(name: &str, arguments: &[&str]) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--bin", name, "--message-format=json"]).args(arguments);
    // What cargo tells this process of its own package must not reach build scripts of others: they would run
    // again because of it, now and once more in the next ordinary build.
    for (name, _) in std::env::vars_os() {
        if OF_THE_CALLER.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .with_context(|| format!("running cargo to build {name}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "building {name} failed: {stderr}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo built {name} and named no executable: {stderr}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_a_binary_of_another_package_once() -> Result<()> {
        let path = binary("migrations")?;
        assert!(path.is_file());
        assert_eq!(binary("migrations")?, path);
        let error = binary("no-such-binary").unwrap_err().to_string();
        assert!(error.contains("building no-such-binary failed"), "{error}");
        Ok(())
    }
}
