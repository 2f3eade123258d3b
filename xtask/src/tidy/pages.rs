//! Pages that speak of what is not there: links to no file, promises behind which no test stands.

use std::path::{Component, Path, PathBuf};

use super::TextFile;

/// Where every name that looks like a test's must be one.
const MAP: &str = "docs/architecture.md";

/// Links of a page to files of the project that are not tracked.
pub fn dead_links(files: &[TextFile]) -> Vec<String> {
    let exists = |path: &Path| files.iter().any(|file| Path::new(&file.path).starts_with(path));
    let mut found = Vec::new();
    for page in files.iter().filter(|file| file.is_a("md")) {
        let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
        let targets = page.text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let dead = targets
            .filter(|target| !target.is_empty() && !target.contains("://"))
            .filter(|target| !exists(&plain(&folder.join(target))));
        found.extend(dead.map(|target| format!("{}: links to {target}, which is not there", page.path)));
    }
    found
}

/// Tests that the map of the code names and that do not exist.
pub fn missing_tests(files: &[TextFile]) -> Vec<String> {
    let sources: Vec<&str> =
        files.iter().filter(|file| file.is_a("rs")).map(|file| file.text.as_str()).collect();
    let exists = |name: &str| sources.iter().any(|text| text.contains(&format!("fn {name}(")));
    files
        .iter()
        .filter(|file| file.path == MAP)
        .flat_map(|map| map.text.split('`').skip(1).step_by(2))
        .filter(|code| looks_like_a_test(code) && !exists(code))
        .map(|code| format!("{MAP}: there is no test {code}"))
        .collect()
}

/// A sentence of at least four words.
fn looks_like_a_test(code: &str) -> bool {
    code.matches('_').count() >= 3
        && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            component => plain.push(component),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_link_to_a_file_or_folder_that_is_not_there_is_found() {
        let files = [
            file(
                "README.md",
                "[a](docs/a.md) [folder](docs/) [web](https://example.org/x) [gone](docs/gone.md)",
            ),
            file("docs/a.md", "[up](../README.md#part) [here](#part) [beside](./a.md) [out](../docs/b.md)"),
        ];
        let found = dead_links(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/gone.md") && found[1].contains("../docs/b.md"), "{found:?}");
    }

    #[test]
    fn a_test_that_is_gone_is_found_and_other_code_is_not_taken_for_one() {
        let map = "holds (`keeps_what_was_committed`, `keeps_what_was_lost`); `run.rs`, `sql/delete_batch.rs`, `job_run_id`";
        let files = [file(MAP, map), file("tests/a.rs", "async fn keeps_what_was_committed() {")];
        assert_eq!(missing_tests(&files), ["docs/architecture.md: there is no test keeps_what_was_lost"]);
    }
}
