//! The command line as its users meet it: in a shell that completes, on a terminal and in a pipe, and when something
//! is wrong: then it says what to do next.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use harness::{Finished, Process, TestDatabase, Worker, binary};
use rstest::rstest;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

async fn worker() -> Result<String> {
    let path = spawn_blocking(|| binary("retention-worker")).await??;
    Ok(path.to_str().context("a path in UTF-8")?.to_owned())
}

/// A worker that needs no database and has no settings at all.
async fn bare(arguments: &[&str]) -> Result<Finished> {
    let program = worker().await?;
    let mut process = Process::spawn(Path::new(&program), arguments.iter().copied(), [])?;
    process.wait(std::time::Duration::from_mins(1)).await
}

/// What bash offers after this line, with the worker's script loaded.
async fn offered(line: &str) -> Result<Vec<String>> {
    let folder = TempDir::new()?;
    let script = folder.path().join("completions");
    std::fs::write(&script, bare(&["completions", "bash"]).await?.stdout)?;
    // What bash does at the press of the key.
    let press = r#"
        . "$1"
        completes=$(complete -p retention-worker) || exit 1
        completes=${completes##*-F } completes=${completes%% *}
        read -r -a COMP_WORDS <<<"$2"
        COMP_CWORD=${#COMP_WORDS[@]} COMP_LINE="$2 " COMP_POINT=$((${#2} + 1))
        COMP_WORDS+=("")
        "$completes" retention-worker "" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash").args(["-c", press, "bash"]).arg(&script).arg(line).output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn bash_completes_commands_options_and_values() -> Result<()> {
    let commands = offered("retention-worker").await?;
    for command in ["serve", "run", "plan", "check", "config", "completions", "man"] {
        assert!(commands.iter().any(|offered| offered == command), "{command}: {commands:?}");
    }
    let options = offered("retention-worker run").await?;
    assert!(options.iter().any(|option| option == "--metrics-file"), "{options:?}");
    assert_eq!(offered("retention-worker plan --format").await?, ["text", "json"]);
    Ok(())
}

#[rstest]
#[case("bash", "complete -F")]
#[case("zsh", "#compdef retention-worker")]
#[case("fish", "complete -c retention-worker")]
#[case("elvish", "edit:completion:arg-completer[retention-worker]")]
#[case("powershell", "Register-ArgumentCompleter")]
#[tokio::test]
async fn each_shell_has_its_script(#[case] shell: &str, #[case] part: &str) -> Result<()> {
    let finished = bare(&["completions", shell]).await?;
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    assert!(finished.stdout.contains(part), "{}", finished.stdout);
    Ok(())
}

#[tokio::test]
async fn the_manual_needs_no_settings_and_knows_its_commands() -> Result<()> {
    let finished = bare(&["man"]).await?;
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    assert!(finished.stdout.contains(".TH retention-worker 1"), "{}", finished.stdout);
    assert_eq!(bare(&["man", "run"]).await?.code(), Some(0));
    let unknown = bare(&["man", "cleanse"]).await?;
    assert_eq!((unknown.code(), unknown.stdout.as_str()), (Some(2), ""));
    assert!(unknown.stderr.contains("retention-worker --help"), "{}", unknown.stderr);
    Ok(())
}

/// What a command prints on a terminal.
async fn on_a_terminal(url: &str, command: &str, further: &[(&str, &str)]) -> Result<String> {
    let line = format!("{} {command}", worker().await?);
    let variables = [("DATABASE_URL", url), ("TERM", "xterm"), ("RUST_LOG", "off")];
    let variables = variables.iter().chain(further).copied();
    let arguments = ["--quiet", "--return", "--command", line.as_str(), "/dev/null"];
    let mut process = Process::spawn(Path::new("script"), arguments, variables)?;
    Ok(process.wait(std::time::Duration::from_mins(1)).await?.stdout)
}

#[tokio::test]
async fn colours_are_for_a_terminal_and_never_with_no_color() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let url = database.url();
    for command in ["check", "run", "plan", "config", "--help"] {
        let coloured = on_a_terminal(url, command, &[]).await?;
        assert!(coloured.contains("\u{1b}["), "{command}: {coloured:?}");
        let plain = on_a_terminal(url, command, &[("NO_COLOR", "1")]).await?;
        assert!(!plain.contains('\u{1b}') && plain.len() > 100, "{command}: {plain:?}");
        let piped = Worker::on(url).finish(&[command]).await?.stdout;
        assert!(!piped.contains('\u{1b}') && piped.len() > 100, "{command}: {piped:?}");
    }
    let json = on_a_terminal(url, "check --format json", &[]).await?;
    assert!(!json.contains('\u{1b}'), "{json:?}");
    Ok(())
}

#[tokio::test]
async fn whatever_is_wrong_it_says_what_to_do_next() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let unknown = database.url().replace(database.name(), "retention_no_such_database");
    for command in ["run", "plan", "check"] {
        for (url, advice) in [
            ("postgres://nobody@127.0.0.1:1/nothing", "check that the server runs and is reachable"),
            (unknown.as_str(), "check the database's name at the end of DATABASE_URL"),
        ] {
            let finished = Worker::on(url).finish(&[command]).await?;
            assert_eq!(finished.code(), Some(3));
            assert!(finished.stderr.contains(advice), "{command}: {}", finished.stderr);
        }
    }
    let misspelled =
        Worker::on(database.url()).set("SESSION_RETENTION_BATCHSIZE", "1").finish(&["run"]).await?;
    for part in ["the nearest is SESSION_RETENTION_BATCH_SIZE", "docs/configuration.md", "--help"] {
        assert!(misspelled.stderr.contains(part), "{part}: {}", misspelled.stderr);
    }
    let taken = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let _taken = TcpListener::bind(taken).await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_HTTP_ADDR", taken.to_string());
    let port = worker.finish(&["serve"]).await?;
    assert!(port.stderr.contains("stop whoever listens there"), "{}", port.stderr);
    let usage = bare(&["srve"]).await?;
    assert_eq!(usage.code(), Some(2));
    assert!(usage.stderr.contains("'serve'"), "the nearest command: {}", usage.stderr);
    Ok(())
}

/// What was done is done, but nobody would know.
#[tokio::test]
async fn a_result_that_cannot_be_written_is_told_and_is_no_success() -> Result<()> {
    let program = worker().await?;
    let shell = |redirected: &str| {
        let script = format!("LOG_FORMAT=text '{program}' config {redirected}");
        Command::new("sh").args(["-c", &script]).env("DATABASE_URL", "postgres://localhost/x").output()
    };
    let full = shell(">/dev/full")?;
    assert_eq!(full.status.code(), Some(1), "{}", String::from_utf8_lossy(&full.stderr));
    let unread = shell("| true")?;
    assert_eq!(unread.status.code(), Some(0));
    Ok(())
}
