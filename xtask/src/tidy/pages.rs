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

/// Links to a heading that its page does not have: from pages, and from the alerts to the runbook.
pub fn dead_anchors(files: &[TextFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        // A page's links start where it is, an alert's at the root.
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        let links: Vec<(PathBuf, &str)> = if file.is_a("md") {
            let links =
                file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()?.split_once('#'));
            let links = links.filter(|(target, _)| !target.contains("://"));
            let here = Path::new(&file.path);
            let path =
                |target: &str| if target.is_empty() { here.into() } else { plain(&folder.join(target)) };
            links.map(|(target, anchor)| (path(target), anchor)).collect()
        } else if file.is_a("yml") {
            let links = file.text.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: "));
            links.map(|link| link.split_once('#').unwrap_or((link, ""))).map(|(t, a)| (t.into(), a)).collect()
        } else {
            continue;
        };
        let dead = links.into_iter().filter(|(page, anchor)| {
            let page = files.iter().find(|file| Path::new(&file.path) == page);
            !page.is_some_and(|page| anchors(&page.text).any(|heading| heading == *anchor))
        });
        found.extend(dead.map(|(page, anchor)| {
            format!("{}: links to {}#{anchor}, which is no heading", file.path, page.display())
        }));
    }
    found
}

/// What the headings of a page are linked by: lower case, blanks as hyphens, without punctuation.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let headings = page.lines().filter_map(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        line.starts_with('#').then(|| line.trim_start_matches('#').trim()).filter(|_| !is_code)
    });
    headings.map(|heading| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
    })
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
    fn a_link_to_no_heading_is_found_in_pages_and_alerts() {
        let files = [
            file(
                "README.md",
                "[a](docs/a.md#first-run-on-years) [gone](docs/a.md#second) [web](https://example.org/#x)",
            ),
            file(
                "docs/a.md",
                "# First run, on `years`\n```sh\n# second\n```\n[up](../README.md#none) [here](#first-run-on-years)",
            ),
            file(
                "deploy/rules.yml",
                "  runbook_url: docs/a.md#first-run-on-years\n  runbook_url: docs/a.md\n",
            ),
        ];
        let found = dead_anchors(&files);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("README.md: links to docs/a.md#second"), "{found:?}");
        assert!(found[1].contains("README.md#none") && found[2].contains("deploy/rules.yml"), "{found:?}");
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
