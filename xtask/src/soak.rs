//! `cargo xtask soak`: several workers, online traffic and faults, for as long as one likes, and the proof that exactly
//! the right rows went. What happens is `tests/harness/soak.rs`; here are the options, the progress and the figures.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::{Durability, Figures, Server, Soak, TestDatabase, binary};
use indicatif::{ProgressBar, ProgressStyle};

use crate::demo::interrupted;
use crate::demo::table::numbers;

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Args {
    /// How long it lasts; fractions are allowed
    #[arg(long, value_name = "N", default_value = "60", value_parser = minutes)]
    minutes: Duration,
    /// Decides what clients do and what befalls workers; drawn and printed if not given
    #[arg(long, value_name = "U64")]
    seed: Option<u64>,
    /// Online clients
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,
}

/// Runs the command.
///
/// # Errors
///
/// When something could not be done, when it is interrupted, and when a single promise was broken.
pub async fn run(args: Args) -> Result<()> {
    writeln!(stdout(), "building the worker")?;
    binary("retention-worker")?;
    let soak = Soak {
        seed: args.seed.unwrap_or_else(rand::random),
        duration: args.minutes,
        clients: args.clients,
        workers: args.workers.into(),
    };
    writeln!(stdout(), "{soak}")?;
    let mut interrupted = pin!(interrupted());
    let figures = tokio::select! {
        figures = play(soak) => figures?,
        error = &mut interrupted => return Err(error),
    };
    writeln!(stdout(), "{}", told(&figures))?;
    ensure!(figures.is_clean(), "the soak has found {} faults; once more: {soak}", figures.findings());
    Ok(())
}

async fn play(soak: Soak) -> Result<Figures> {
    let server = Server::find(Durability::Fast).await?;
    writeln!(stdout(), "{}", server.describe())?;
    let database = TestDatabase::migrated_on(&server).await?;
    let bar = ProgressBar::new(soak.duration.as_secs());
    bar.set_style(ProgressStyle::with_template("{wide_bar} {elapsed}  {msg}")?);
    let figures = soak
        .run(&database, |elapsed, figures| {
            bar.set_position(elapsed.as_secs());
            bar.set_message(format!(
                "{} operations, {} faults, {} rows gone, {} broken promises",
                figures.operations(),
                figures.faults(),
                figures.gone(),
                figures.findings(),
            ));
        })
        .await;
    bar.finish_and_clear();
    let figures = figures?;
    database.drop().await?;
    Ok(figures)
}

/// The figures as tables, then whatever is wrong.
fn told(figures: &Figures) -> String {
    let mut text = String::new();
    let counts = |text: &mut String, title: &str, counts: Vec<(&str, u64)>| {
        let sum = counts.iter().map(|(_, count)| count).sum();
        let rows = counts.into_iter().chain([("all", sum)]).map(|(kind, n)| [kind.to_owned(), n.to_string()]);
        let _ = writeln!(text, "\n{}", numbers([title, "count"], rows));
    };
    counts(
        &mut text,
        "operations of the service",
        figures.operations.iter().map(|(kind, n)| (*kind, *n)).collect(),
    );
    counts(&mut text, "faults injected", figures.faults.iter().map(|(kind, n)| (*kind, *n)).collect());
    counts(
        &mut text,
        "runs that ended, by reason",
        figures.runs.iter().map(|(kind, n)| (&**kind, *n)).collect(),
    );
    let stages = figures.stages.iter().map(|stage| {
        let exact = if stage.unaccounted == 0 { "exactly".to_owned() } else { "at least".to_owned() };
        [stage.name.to_owned(), stage.gone.to_string(), stage.reported.to_string(), exact]
    });
    let header = ["rows deleted", "gone", "reported by workers", "must be"];
    let _ = writeln!(text, "\n{}", numbers(header, stages));
    let (in_table, in_ledger) = figures.attempts;
    let whole: Vec<[String; 2]> = [
        ("seconds", figures.lasted.as_secs().to_string()),
        ("rows written", figures.written.to_string()),
        ("rows deleted", figures.gone().to_string()),
        ("rows left", figures.survivors.to_string()),
        ("their attempts, in the table and in the ledger", format!("{in_table}, {in_ledger}")),
        ("comparisons of all rows", figures.comparisons.to_string()),
        ("failed attempts of workers, got over or excused by a fault", figures.attempts_failed.to_string()),
        ("client errors", figures.client_errors.len().to_string()),
        ("violations", figures.violations.len().to_string()),
        ("more of either, not kept", figures.more.to_string()),
    ]
    .map(|(what, figure)| [what.to_owned(), figure])
    .into();
    let _ = writeln!(text, "\n{}", numbers(["all in all", ""], whole));
    for broken in figures.client_errors.iter().chain(&figures.violations) {
        let _ = writeln!(text, "{broken}");
    }
    text
}

fn minutes(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=24.0 * 60.0).contains(&minutes) => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Err("a number of minutes from 0.1 to 1440".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("60", Some(3600))]
    #[case("0.5", Some(30))]
    #[case("0", None)]
    #[case("-1", None)]
    #[case("NaN", None)]
    #[case("inf", None)]
    #[case("5m", None)]
    fn minutes_are_bounded(#[case] text: &str, #[case] seconds: Option<u64>) {
        assert_eq!(minutes(text).ok(), seconds.map(Duration::from_secs));
    }

    #[test]
    fn what_is_wrong_is_told_last_and_in_full() {
        let figures = Figures {
            client_errors: vec!["client 1, refresh: deadlock detected".to_owned()],
            violations: vec!["identity.refresh_sessions 7: missing".to_owned()],
            ..Figures::default()
        };
        let text = told(&figures);
        assert!(!figures.is_clean());
        assert!(text.ends_with("deadlock detected\nidentity.refresh_sessions 7: missing\n"), "{text}");
    }
}
