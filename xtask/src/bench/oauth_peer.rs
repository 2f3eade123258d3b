//! django-oauth-toolkit in a virtual environment of its own, from `PyPI`: installed for one bench and gone after it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

const SCRIPT: &str = include_str!("oauth_peer.py");
const PACKAGES: [&str; 2] = ["django-oauth-toolkit", "psycopg[binary]"];

/// The installed package.
pub struct OauthPeer {
    folder: TempDir,
    /// Of the package, as installed.
    pub version: String,
}

/// What its cleaner did.
#[derive(Deserialize)]
struct Cleaned {
    seconds: f64,
    deleted: u64,
    left: u64,
}

/// What was made for it.
#[derive(Deserialize)]
struct Prepared {
    revoked: u32,
    live: u32,
}

impl OauthPeer {
    /// Makes the virtual environment and installs the package.
    ///
    /// # Errors
    ///
    /// When there is no `python3` with `venv`, or the package cannot be fetched: with what was said.
    pub async fn install() -> Result<Self> {
        spawn_blocking(|| {
            let folder = tempfile::Builder::new().prefix("retention-bench-").tempdir()?;
            let environment = folder.path().join("venv");
            output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            let python = python_of(folder.path());
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            output(Command::new(&python).args(install).args(PACKAGES))?;
            std::fs::write(folder.path().join("oauth_peer.py"), SCRIPT)?;
            let ask = format!("from importlib.metadata import version; print(version('{}'))", PACKAGES[0]);
            let version = output(Command::new(&python).args(["-c", &ask]))?.trim().to_owned();
            Ok(Self { folder, version })
        })
        .await?
    }

    /// Makes its schema in an empty database and fills it.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub async fn prepare(&self, url: &str, revoked: u32, live: u32) -> Result<()> {
        let arguments = ["prepare".to_owned(), revoked.to_string(), live.to_string()];
        let prepared: Prepared = self.script(url, arguments.to_vec()).await?;
        ensure!((prepared.revoked, prepared.live) == (revoked, live), "not what was asked for");
        Ok(())
    }

    /// Runs its cleaner, and says how long that took without the start of the interpreter. `batch_rows` as the package
    /// has it unless given.
    ///
    /// # Errors
    ///
    /// When it fails, or leaves or deletes the wrong number of tokens.
    pub async fn clean(
        &self,
        url: &str,
        batch_rows: Option<u32>,
        revoked: u32,
        live: u32,
    ) -> Result<Duration> {
        let arguments = std::iter::once("clean".to_owned()).chain(batch_rows.map(|rows| rows.to_string()));
        let Cleaned { seconds, deleted, left } = self.script(url, arguments.collect()).await?;
        ensure!(
            (deleted, left) == (revoked.into(), live.into()),
            "django-oauth-toolkit deleted {deleted} tokens and left {left}"
        );
        Ok(Duration::from_secs_f64(seconds))
    }

    async fn script<T: DeserializeOwned + Send + 'static>(
        &self,
        url: &str,
        arguments: Vec<String>,
    ) -> Result<T> {
        let options: PgConnectOptions = url.parse()?;
        let mut command = Command::new(python_of(self.folder.path()));
        command.arg(self.folder.path().join("oauth_peer.py")).args(arguments);
        let port = options.get_port().to_string();
        let database = options.get_database().unwrap_or_default();
        command.envs([
            ("PGHOST", options.get_host()),
            ("PGPORT", port.as_str()),
            ("PGUSER", options.get_username()),
            ("PGDATABASE", database),
            ("PGPASSWORD", password(url)),
        ]);
        let said = spawn_blocking(move || output(&mut command)).await??;
        serde_json::from_str(&said).with_context(|| format!("the peer said {said:?}"))
    }
}

fn python_of(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// The password in a URL, which the driver does not give away; empty without one.
fn password(url: &str) -> &str {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.split_once(':').map_or("", |(_, password)| password)
}

/// Runs a program and returns what it wrote to stdout.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_owned();
    let name =
        Path::new(&program).file_name().unwrap_or(OsStr::new("program")).to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {name}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word on stderr");
    ensure!(output.status.success(), "{name} ended with {}: {last}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("postgres://postgres@127.0.0.1:5432/x", "")]
    #[case("postgres://user:secret@db.example/x", "secret")]
    #[case("postgres://db.example/x", "")]
    fn a_password_is_cut_out(#[case] url: &str, #[case] expected: &str) {
        assert_eq!(password(url), expected);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let error = output(Command::new("sh").args(["-c", "echo no such package >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("exit status: 3: no such package"), "{error}");
        assert!(output(&mut Command::new("no-such-program")).is_err());
    }
}
