//! `cargo xtask tidy`: rules about the project's files that no compiler checks. Looks at files that are tracked or
//! about to be, and changes none.

mod pages;

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What a package must never come to depend on, not even by way of others: crates whose names begin so.
const BOUNDARIES: [(&str, &[&str]); 3] = [
    // No IO, no runtime, no logging.
    (
        "retention-domain",
        &["axum", "hyper", "opentelemetry", "prometheus", "reqwest", "sea-orm", "sqlx", "tokio", "tracing"],
    ),
    // Knows no process around it.
    ("retention-postgres", &["axum", "clap", "envy", "prometheus", "retention-worker"]),
    // Runs no DDL, and carries nothing that is for developers.
    ("retention-worker", &["migrations", "retention-tests", "sea-orm-migration", "xtask"]),
];

/// How SQL asks for the time.
const SQL_CLOCKS: [&str; 7] = [
    "clock_timestamp",
    "current_date",
    "current_time",
    "localtime",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
];

/// Something that must not stand in a line.
struct Rule {
    /// What is wrong about it.
    meaning: &'static str,
    /// Which files it is about.
    about: fn(&TextFile) -> bool,
    /// What must not stand there; compared without regard to case.
    never: Vec<String>,
    /// What makes the line right after all.
    unless: Option<&'static str>,
}

/// A file that is text, by its path from the root.
struct TextFile {
    path: String,
    text: String,
}

const DOMAIN: &str = "crates/retention-domain/src";
const POSTGRES: &str = "crates/retention-postgres";

impl TextFile {
    fn is_below(&self, folder: &str) -> bool {
        Path::new(&self.path).starts_with(folder)
    }

    fn is_a(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// Runs the command.
///
/// # Errors
///
/// Names everything that breaks a rule.
pub fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let files = files(&root)?;
    let pending =
        output(&root, "git", &["ls-files", "--others", "--ignored", "--exclude-standard", "*.snap.new"])?;

    let mut findings = crates_without_the_lints(&files);
    findings.extend(unreferenced_snapshots(&files));
    findings.extend(pages::dead_links(&files));
    findings.extend(pages::dead_anchors(&files));
    findings.extend(pages::missing_tests(&files));
    findings.extend(pending.lines().map(|path| format!("{path}: a snapshot that nobody has accepted")));
    for (package, never) in BOUNDARIES {
        let edges = ["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--package", package];
        findings.extend(crossed(package, never, &output(&root, "cargo", &edges)?));
    }
    for rule in rules(&root) {
        findings.extend(files.iter().flat_map(|file| rule.broken_in(file)));
    }
    ensure!(findings.is_empty(), "{} broken rules:\n  {}", findings.len(), findings.join("\n  "));
    writeln!(stdout(), "tidy: {} files, no rule is broken", files.len())?;
    Ok(())
}

fn rules(root: &Path) -> Vec<Rule> {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    // The pieces keep this file from breaking its own rules.
    vec![
        Rule {
            meaning: "the domain does IO",
            about: |file| file.is_below(DOMAIN),
            never: texts(&["std::env", "std::fs", "std::io", "std::net", "std::process", "std::thread"]),
            unless: None,
        },
        Rule {
            // The ledger alone records when something happened.
            meaning: "a statement other than the clock's and the ledger's reads the clock",
            about: |file| file.is_below(POSTGRES) && !file.path.contains("ledger"),
            never: texts(&SQL_CLOCKS),
            unless: Some("\"SELECT pg_catalog.clock_timestamp() AS now\""),
        },
        Rule {
            meaning: "a generated statement reads the clock",
            about: |file| file.is_below(POSTGRES) && file.is_a("snap"),
            never: texts(&["now()"]),
            unless: None,
        },
        Rule {
            meaning: "a test that is never run",
            about: |file| file.is_a("rs"),
            never: texts(&[concat!("#[ign", "ore")]),
            unless: None,
        },
        Rule { meaning: "a path of one machine", about: |_| true, never: machine_paths(root), unless: None },
        Rule {
            meaning: "a registry other than crates.io",
            about: |_| true,
            never: texts(&[
                concat!("registry", "+http"),
                concat!("sparse", "+http"),
                concat!("replace", "-with"),
            ]),
            unless: Some("https://github.com/rust-lang/crates.io-index"),
        },
    ]
}

/// The places on this machine that a slip of the hand would bring in, and where people's homes are.
fn machine_paths(root: &Path) -> Vec<String> {
    let temporary = std::env::temp_dir();
    let home = std::env::var_os("HOME").map(Into::into);
    let parent = root.parent().map(Path::to_path_buf).filter(|parent| *parent != temporary);
    [Some(root.to_path_buf()), parent, home]
        .into_iter()
        .flatten()
        .filter(|path| path.components().count() > 1)
        .map(|path| format!("{}/", path.display()))
        .chain([concat!("/ho", "me/"), concat!("/Us", "ers/")].map(str::to_owned))
        .collect()
}

impl Rule {
    fn broken_in(&self, file: &TextFile) -> Vec<String> {
        if !(self.about)(file) {
            return Vec::new();
        }
        let is_broken = |line: &str| {
            let lower = line.to_lowercase();
            self.never.iter().any(|never| lower.contains(&never.to_lowercase()))
                && !self.unless.is_some_and(|unless| line.contains(unless))
        };
        let lines = file.text.lines().zip(1..).filter(|(line, _)| is_broken(line));
        lines
            .map(|(line, number)| format!("{}:{number}: {}: {}", file.path, self.meaning, line.trim()))
            .collect()
    }
}

/// What a package depends on against its boundary. `tree` has a crate and its version on each line.
fn crossed(package: &str, never: &[&str], tree: &str) -> Vec<String> {
    let of_others = tree.lines().filter(|line| line.split(' ').next() != Some(package));
    let mut found: Vec<&str> =
        of_others.filter(|line| never.iter().any(|name| line.starts_with(name))).collect();
    found.sort_unstable();
    found.dedup();
    found.iter().map(|line| format!("{package} comes to depend on {line}")).collect()
}

/// Every package takes its lints from the workspace.
fn crates_without_the_lints(files: &[TextFile]) -> Vec<String> {
    let inherits = |text: &str| {
        let mut lines = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
        lines.any(|line| line.replace(' ', "") == "workspace=true")
    };
    files
        .iter()
        .filter(|file| {
            file.path.ends_with("Cargo.toml") && file.text.contains("[package]") && !inherits(&file.text)
        })
        .map(|file| format!("{}: lacks [lints] workspace = true", file.path))
        .collect()
}

/// A snapshot whose test is gone would look reviewed for ever. Its name stands in the source file that it names.
fn unreferenced_snapshots(files: &[TextFile]) -> Vec<String> {
    let is_referenced = |file: &TextFile| {
        let source = file.text.lines().find_map(|line| line.strip_prefix("source: "));
        let name = file.path.trim_end_matches(".snap").rsplit("__").next();
        files
            .iter()
            .find(|other| source == Some(&other.path))
            .is_some_and(|other| name.is_some_and(|name| other.text.contains(name)))
    };
    files
        .iter()
        .filter(|file| file.is_a("snap") && !is_referenced(file))
        .map(|file| format!("{}: a snapshot of no test", file.path))
        .collect()
}

fn files(root: &Path) -> Result<Vec<TextFile>> {
    let paths = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let read = |path: &str| {
        // What is not there any more or is no text is none of our business.
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(TextFile { path: path.to_owned(), text })
    };
    Ok(paths.lines().filter_map(read).collect())
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.with_context(|| format!("running {program}"))?;
    let command = arguments.join(" ");
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {command} ended with {}: {stderr}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("what {program} {command} wrote is no text"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn broken(path: &str, text: &str) -> Vec<String> {
        let rules = rules(Path::new("/clones/this"));
        rules.iter().flat_map(|rule| rule.broken_in(&file(path, text))).collect()
    }

    #[rstest]
    #[case("crates/retention-domain/src/run.rs", "use std::net::TcpStream;", "the domain does IO")]
    #[case("crates/retention-postgres/src/sql/window.rs", "WHERE age < CURRENT_TIMESTAMP", "reads the clock")]
    #[case("crates/retention-postgres/src/sql/snapshots/x.snap", "WHERE age < now()", "reads the clock")]
    #[case("tests/integration/main.rs", concat!("    #[ign", "ore = \"slow\"]"), "a test that is never run")]
    #[case("README.md", "see /clones/this/docs", "a path of one machine")]
    #[case("README.md", "see /clones/other/docs", "a path of one machine")]
    #[case(".ci/run", concat!("cd /ho", "me/somebody"), "a path of one machine")]
    #[case("Cargo.lock", concat!("source = \"sparse", "+https://mirror.example/\""), "a registry other than crates.io")]
    fn a_broken_rule_is_told_with_its_place(#[case] path: &str, #[case] line: &str, #[case] meaning: &str) {
        let found = broken(path, &format!("fine\n{line}\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{path}:2: ")) && found[0].contains(meaning), "{found:?}");
    }

    #[rstest]
    #[case("crates/retention-postgres/src/store.rs", "    \"SELECT pg_catalog.clock_timestamp() AS now\",")]
    #[case("crates/retention-postgres/src/store.rs", "let now = store.now().await;")]
    #[case("crates/retention-worker/src/main.rs", "use std::env;")]
    #[case("Cargo.lock", concat!("source = \"registry", "+https://github.com/rust-lang/crates.io-index\""))]
    #[case("README.md", "see docs/ and /usr/lib/postgresql")]
    fn what_is_right_is_left_alone(#[case] path: &str, #[case] line: &str) {
        assert_eq!(broken(path, line), Vec::<String>::new());
    }

    #[test]
    fn a_crossed_boundary_is_found_however_far_below() {
        let [(package, never), ..] = BOUNDARIES;
        let pure = "retention-domain v0.1.0 (/clones/this)\nchrono v0.4.45\nfutures-util v0.3.34\n";
        assert_eq!(crossed(package, never, pure), Vec::<String>::new());
        let found =
            crossed(package, never, &format!("{pure}sqlx-core v0.9.0\nsqlx-core v0.9.0\ntokio v1.54.1\n"));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_package_without_the_lints_is_found_and_a_workspace_is_none() {
        let files = [
            file("Cargo.toml", "[workspace]\n[workspace.package]\n"),
            file("a/Cargo.toml", "[package]\nname = \"a\"\n[lints]\nworkspace = true\n"),
            file("b/Cargo.toml", "[package]\nname = \"b\"\nversion.workspace = true\n"),
        ];
        assert_eq!(crates_without_the_lints(&files), ["b/Cargo.toml: lacks [lints] workspace = true"]);
    }

    #[test]
    fn a_snapshot_of_no_test_is_found() {
        let files = [
            file("src/sql/tests.rs", "snapshot!(window, …)"),
            file("src/sql/snapshots/c__sql__tests__window.snap", "---\nsource: src/sql/tests.rs\n"),
            file("src/sql/snapshots/c__sql__tests__renamed.snap", "---\nsource: src/sql/tests.rs\n"),
            file("src/sql/snapshots/c__sql__gone__window.snap", "---\nsource: src/sql/gone.rs\n"),
        ];
        assert_eq!(unreferenced_snapshots(&files).len(), 2);
    }
}
