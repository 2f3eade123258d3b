//! One file a command; each returns the process's exit code.

mod check;
mod config;
mod plan;
mod readiness;
mod run;
mod serve;

use std::ffi::OsString;
use std::io::IsTerminal;

use crate::app::App;
use crate::cli::{Cli, Command};
use crate::observe::Traces;
use crate::observe::logging::Logging;
use crate::settings::Settings;

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
    // The first of two variables with one name counts: the command line wins.
    let policy_file =
        cli.policy_file.map(|path| ("SESSION_RETENTION_POLICY_FILE".into(), path.into_os_string()));
    let settings =
        Settings::load(policy_file.into_iter().chain(vars)).map_err(|faults| faults.to_string())?;
    if let Command::Config { output } = cli.command {
        return Ok(config::execute(&settings, output));
    }
    // What is told is never worth more than the work: without traces it goes on.
    let makes_runs = matches!(cli.command, Command::Serve | Command::Run { .. });
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
        let app = App::new(settings);
        match cli.command {
            Command::Serve => serve::execute(app).await,
            Command::Run { output, metrics_file } => {
                run::execute(&app, output, metrics_file.as_deref()).await
            }
            Command::Plan { output } => Ok(plan::execute(&app, output).await),
            Command::Check { output } => check::execute(&app, output).await,
            Command::Config { output } => Ok(config::execute(&app.settings, output)),
        }
    });
    if let Ok(Some(traces)) = export {
        traces.finish();
    }
    // A task that does not end (a peer that does not answer) must not hold up the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    exit
}

/// An error with everything behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
