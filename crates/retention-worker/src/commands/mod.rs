//! One file a command; each returns the process's exit code.

mod advice;
mod check;
mod cleanup;
mod config;
mod plan;
mod readiness;
mod run;
mod serve;

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::app::App;
use crate::cli::{Cleanup, Cli, Command, man, print};
use crate::observe::Traces;
use crate::observe::logging::Logging;
use crate::policies::Policies;
use crate::render::colours;
use crate::settings::Settings;

/// What follows the faults of settings.
const WHERE_SETTINGS_ARE: &str = "\
Nothing was touched. Mend the environment and start again; `retention-worker --help` names the settings to begin with, \
docs/configuration.md has them all.";

/// How a command ended, as the contract numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or ended normally before everything was gone.
    Done = 0,
    /// At least one policy failed.
    Failed = 1,
    /// Wrong usage or configuration; nothing was touched.
    Usage = 2,
    /// No usable database; nothing was touched.
    NoDatabase = 3,
}

/// Runs the command with this environment.
///
/// # Errors
/// What is wrong with usage or configuration, one line each; nothing was touched.
pub fn execute(cli: Cli, vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Exit, String> {
    let vars: Vec<_> = vars.into_iter().collect();
    let var = |name: &str| vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str());
    let colour = colours(std::io::stdout().is_terminal(), var("NO_COLOR"), var("TERM"));
    // These need no settings.
    match &cli.command {
        Command::Completions { shell } => return Ok(completions(*shell)),
        Command::Man { command } => return manual(command.as_deref()),
        _ => {}
    }
    // The first of two variables with one name counts: the command line wins.
    let policy_file =
        cli.policy_file.map(|path| ("SESSION_RETENTION_POLICY_FILE".into(), path.into_os_string()));
    let settings = Settings::load(policy_file.into_iter().chain(vars))
        .map_err(|faults| format!("{faults}\n{WHERE_SETTINGS_ARE}"))?;
    let policies = Policies::load(&settings)?;
    if let Command::Config { output } = cli.command {
        return Ok(config::execute(&settings, output.printer(colour)));
    }
    let selected = match &cli.command {
        Command::Cleanup(asked) => Some(vec![policies.selected(asked)?]),
        _ => None,
    };
    // What is told is never worth more than the work: without traces it goes on.
    let makes_runs = matches!(
        cli.command,
        Command::Serve | Command::Run { .. } | Command::Cleanup(Cleanup { dry_run: false, .. })
    );
    let export = settings.traces.as_ref().filter(|_| makes_runs).map(Traces::start).transpose();
    let terminal = std::io::stderr().is_terminal();
    Logging::from_values(Some(&settings.log_filter), settings.log_format.as_deref(), terminal)
        .and_then(|logging| logging.init(export.as_ref().ok().and_then(Option::as_ref)))
        .map_err(|error| chain(&error))?;
    if let Err(error) = &export {
        tracing::warn!(error = chain(error), "traces are not exported");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime could not be started: {error}"))?;
    let exit = runtime.block_on(async {
        let app = App::new(settings, selected.unwrap_or_else(|| policies.all()), policies.origins());
        match cli.command {
            Command::Serve => serve::execute(app).await,
            Command::Run { output, metrics_file } => {
                run::execute(&app, output.printer(colour), metrics_file.as_deref()).await
            }
            Command::Plan { output, rows_per_second } => {
                Ok(plan::execute(&app, output.printer(colour), rows_per_second).await)
            }
            Command::Check { output } => check::execute(&app, output.printer(colour)).await,
            Command::Cleanup(asked) => cleanup::execute(&app, &asked, colour).await,
            Command::Config { .. } | Command::Completions { .. } | Command::Man { .. } => Ok(Exit::Done),
        }
    });
    if let Ok(Some(traces)) = export {
        traces.finish();
    }
    // A task that does not end (a peer that does not answer) must not hold up the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    exit
}

fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "retention-worker", &mut script);
    // For bash, clap_complete 4.6 spells a hyphen of the program's name in two ways, and no command completes.
    print(&String::from_utf8_lossy(&script).replace("retention__subcmd__worker", "retention__worker"));
    Exit::Done
}

fn manual(command: Option<&str>) -> Result<Exit, String> {
    let page =
        man::page(command).ok_or("man: there is no such command; `retention-worker --help` lists them")?;
    print(&page);
    Ok(Exit::Done)
}

/// An error with everything behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
