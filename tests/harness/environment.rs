//! What this machine offers to find a server with, as a value: a test of the search makes its own.

use std::env;
use std::path::PathBuf;

use crate::installation;

/// Where to look for a server.
///
/// The default offers nothing at all, which is what a test of the search starts from.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `TEST_DATABASE_URL`: a server to use. Empty counts as not set.
    pub database_url: Option<String>,
    /// `TEST_POSTGRES_BIN`: the folder of the server binaries to use. Empty counts as not set.
    pub postgres_bin: Option<PathBuf>,
    /// The folders of `PATH`, for server binaries, `pg_config` and `docker`.
    pub path: Vec<PathBuf>,
    /// The folder with one installation per major version, as `<version>/bin`.
    pub versions: PathBuf,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            database_url: set("TEST_DATABASE_URL").map(|url| url.to_string_lossy().into_owned()),
            postgres_bin: set("TEST_POSTGRES_BIN").map(PathBuf::from),
            path: set("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default(),
            versions: PathBuf::from("/usr/lib/postgresql"),
        }
    }

    /// Whether a cluster can be made from binaries of this machine, as far as one can tell without trying.
    #[must_use]
    pub fn has_server_binaries(&self) -> bool {
        installation::folders(self).is_ok()
    }

    /// The first `program` on the path.
    #[must_use]
    pub fn program(&self, program: &str) -> Option<PathBuf> {
        self.path.iter().map(|folder| folder.join(program)).find(|file| file.is_file())
    }
}
