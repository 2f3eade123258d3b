//! The file for a textfile collector: replaced in one step, since its reader may look at any moment. Does not know
//! what the metrics mean.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the metrics file {}: its folder must exist and be writable", path.display())]
pub struct TextfileError {
    /// The file asked for.
    pub path: PathBuf,
    /// What went wrong.
    pub source: io::Error,
}

/// Puts `content` at `path`, readable for all: a collector runs as somebody else.
///
/// # Errors
/// [`TextfileError`]; what was at `path` before is still there then, and nothing was left beside it.
pub(super) fn replace(path: &Path, content: &str) -> Result<(), TextfileError> {
    write_beside_and_rename(path, content).map_err(|source| TextfileError { path: path.to_owned(), source })
}

/// The value of a series without labels in the file at `path`; `None` when there is no such file, series or number.
pub(super) fn sample(path: &Path, series: &str) -> Option<f64> {
    let content = fs::read_to_string(path).ok()?;
    let value = content.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok().filter(|value: &f64| value.is_finite())
}

fn write_beside_and_rename(path: &Path, content: &str) -> io::Result<()> {
    // A rename is atomic within one file system only, hence the same folder.
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_file_is_replaced_readable_for_all_and_alone_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retention.prom");
        replace(&path, "old and longer\n").unwrap();
        replace(&path, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_reader_that_has_the_old_file_open_reads_it_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retention.prom");
        replace(&path, "old\n").unwrap();
        let open = fs::File::open(&path).unwrap();
        replace(&path, "new\n").unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "old\n");
    }

    #[test]
    fn a_sample_is_found_by_its_whole_name_and_only_as_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retention.prom");
        assert_eq!(sample(&path, "a"), None);
        fs::write(&path, "# HELP a b\na_b 1\na 1796004000.5\nc NaN\nd x\n").unwrap();
        assert_eq!(sample(&path, "a"), Some(1_796_004_000.5));
        assert_eq!([sample(&path, "c"), sample(&path, "d"), sample(&path, "e")], [None; 3]);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nowhere/retention.prom");
        let error = replace(&path, "x").unwrap_err();
        assert!(error.to_string().contains("nowhere/retention.prom"), "{error}");
        assert!(error.source().is_some());
    }

    #[test]
    fn a_folder_in_the_file_s_place_stays_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retention.prom");
        fs::create_dir(&path).unwrap();
        replace(&path, "x").unwrap_err();
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
