//! Pages that speak of what is not there: links to no file, promises behind which no test stands.

use std::path::{Component, Path, PathBuf};

use super::TextFile;

/// Pages on which every name that looks like a test's must be one.
const PAGES_OF_TESTS: [&str; 2] = ["docs/architecture.md", "docs/reliability.md"];

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

/// Tests that a page names and that do not exist, at least not in the module it names.
pub fn missing_tests(files: &[TextFile]) -> Vec<String> {
    let exists = |code: &str| {
        let (modules, name) = code.rsplit_once("::").unwrap_or(("", code));
        let sources = files.iter().filter(|file| file.is_a("rs") && is_in(&file.path, modules));
        sources.into_iter().any(|file| file.text.contains(&format!("fn {name}(")))
    };
    let missing = |page: &TextFile| {
        let codes = page.text.split('`').skip(1).step_by(2);
        let missing = codes.filter(|code| looks_like_a_test(code) && !exists(code));
        missing.map(|code| format!("{}: there is no test {code}", page.path)).collect::<Vec<_>>()
    };
    files.iter().filter(|file| PAGES_OF_TESTS.contains(&file.path.as_str())).flat_map(missing).collect()
}

/// A sentence of at least four words, maybe after the modules it is in.
fn looks_like_a_test(code: &str) -> bool {
    let name = code.rsplit("::").next().unwrap_or(code);
    name.matches('_').count() >= 3
        && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':')
}

/// Whether a file is that of these modules, the last of them included: `a::b` is in `…/a/b.rs` and in `…/a/b/tests.rs`.
fn is_in(path: &str, modules: &str) -> bool {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let modules: Vec<&str> = modules.split("::").filter(|module| !module.is_empty()).collect();
    modules.is_empty() || parts.windows(modules.len()).any(|window| window == modules)
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
        let files =
            [file(PAGES_OF_TESTS[0], map), file("tests/a.rs", "async fn keeps_what_was_committed() {")];
        assert_eq!(missing_tests(&files), ["docs/architecture.md: there is no test keeps_what_was_lost"]);
    }

    #[test]
    fn a_test_is_looked_for_in_the_module_that_is_named() {
        let page = "`a::keeps_what_was_committed`, `c::a::keeps_what_was_committed`, `b::keeps_what_was_committed`, \
                    `a_longer::keeps_what_was_committed`";
        let files =
            [file(PAGES_OF_TESTS[1], page), file("c/a/tests.rs", "    fn keeps_what_was_committed() {")];
        let found = missing_tests(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with(" b::keeps_what_was_committed"), "{found:?}");
        assert!(found[1].ends_with(" a_longer::keeps_what_was_committed"), "{found:?}");
    }
}
