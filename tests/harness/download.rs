//! Downloading server binaries. They are kept for the next time; the cluster made from them is not.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use postgresql_embedded::{PostgreSQL, Settings, V18};

/// Where root keeps them: the user that root runs a server as cannot look into root's home.
const OF_ROOT: &str = "/var/cache/retention-postgresql";

/// The folder of the downloaded binaries.
///
/// # Errors
///
/// When the release cannot be fetched or unpacked.
pub(crate) async fn folder() -> Result<PathBuf> {
    let mut settings = Settings::new();
    settings.version = V18.clone();
    if geteuid().is_root() {
        settings.installation_dir = PathBuf::from(OF_ROOT);
    }
    let scratch = [Some(settings.data_dir.clone()), settings.password_file.parent().map(Path::to_path_buf)];

    // It would also make a cluster of its own, which it cannot do as root and which would outlive us when we are
    // killed. A data folder that looks initialised spares it the trouble.
    fs::write(settings.data_dir.join("postgresql.conf"), "").context("preparing the download")?;
    let mut download = PostgreSQL::new(settings);
    let fetched = download.setup().await.context("downloading a PostgreSQL");
    for folder in scratch.iter().flatten() {
        let _ = fs::remove_dir_all(folder);
    }
    fetched?;
    Ok(download.settings().binary_dir())
}
