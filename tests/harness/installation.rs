//! Finding the server binaries of this machine. Starts none of them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::Environment;

/// What a throw-away cluster needs. `psql` is not among them: it talks to any server.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The folders that hold a complete set of server binaries, best first, each once.
///
/// # Errors
///
/// When there is none, or when `TEST_POSTGRES_BIN` names a folder that is not one: who names a version wants
/// that version tested and no other.
pub(crate) fn folders(environment: &Environment) -> Result<Vec<PathBuf>> {
    if let Some(folder) = &environment.postgres_bin {
        ensure!(
            is_complete(folder),
            "TEST_POSTGRES_BIN is {}, which does not hold {}",
            folder.display(),
            PROGRAMS.join(", ")
        );
        return Ok(vec![folder.clone()]);
    }
    let mut seen = HashSet::new();
    let found: Vec<PathBuf> = environment
        .path
        .iter()
        .cloned()
        .chain(from_pg_config(environment))
        .chain(by_version(&environment.versions))
        // Often only a link: the other programs lie beside what it points to.
        .filter_map(|folder| Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_path_buf()))
        .filter(|folder| is_complete(folder) && seen.insert(folder.clone()))
        .collect();
    ensure!(
        !found.is_empty(),
        "no folder with {} in PATH, `pg_config --bindir` or {}/*/bin (TEST_POSTGRES_BIN is not set)",
        PROGRAMS.join(", "),
        environment.versions.display()
    );
    Ok(found)
}

fn is_complete(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| folder.join(program).is_file())
}

fn from_pg_config(environment: &Environment) -> Option<PathBuf> {
    let output = Command::new(environment.program("pg_config")?).arg("--bindir").output().ok()?;
    let path = output.stdout.trim_ascii_end().to_vec();
    (output.status.success() && !path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)))
}

/// `<versions>/*/bin`, the highest version first.
fn by_version(versions: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = fs::read_dir(versions)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version =
                entry.file_name().to_str()?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|(left, _), (right, _)| right.cmp(left));
    found.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    fn install(folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        for program in PROGRAMS {
            fs::write(folder.join(program), "").unwrap();
        }
        folder.to_path_buf()
    }

    #[test]
    fn prefers_the_path_then_pg_config_then_the_highest_version() {
        let root = TempDir::new().unwrap();
        let root = &root.path().canonicalize().unwrap();
        let linked = install(&root.join("linked"));
        let configured = install(&root.join("configured"));
        let versions = root.join("versions");
        let [nine, fifteen, eighteen] =
            ["9.6", "15", "18"].map(|version| install(&versions.join(version).join("bin")));
        fs::create_dir_all(versions.join("99/bin")).unwrap();
        let path = root.join("path");
        fs::create_dir(&path).unwrap();
        symlink(linked.join("postgres"), path.join("postgres")).unwrap();
        fs::write(path.join("pg_config"), format!("#!/bin/sh\necho {}\n", configured.display())).unwrap();
        fs::set_permissions(path.join("pg_config"), fs::Permissions::from_mode(0o755)).unwrap();

        let mut environment =
            Environment { path: vec![root.join("missing"), path], versions, ..Environment::default() };
        let in_order = vec![linked.clone(), configured, eighteen, fifteen, nine.clone()];
        assert_eq!(folders(&environment).unwrap(), in_order);

        environment.path.insert(0, linked);
        assert_eq!(folders(&environment).unwrap(), in_order, "a folder met twice is listed once");

        environment.postgres_bin = Some(nine.clone());
        assert_eq!(folders(&environment).unwrap(), [nine]);
    }

    #[test]
    fn names_the_folder_that_was_asked_for_and_holds_no_server() {
        let environment = Environment { postgres_bin: Some("/nowhere".into()), ..Environment::default() };
        let error = folders(&environment).unwrap_err().to_string();
        assert_eq!(error, "TEST_POSTGRES_BIN is /nowhere, which does not hold initdb, pg_ctl, postgres");
    }
}
