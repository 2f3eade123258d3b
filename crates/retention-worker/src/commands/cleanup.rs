//! `cleanup`: one declared policy now, with another retention, for a CronJob. Which policy that is, `policies.rs` has
//! decided: it is the only one of the app. Everything else is a run, or a plan, like any other.

use super::{Exit, plan, run};
use crate::app::App;
use crate::cli::Cleanup;

pub(super) async fn execute(app: &App, asked: &Cleanup, colour: bool) -> Result<Exit, String> {
    let printer = asked.output.printer(colour);
    if !asked.dry_run {
        return run::execute(app, printer, asked.metrics_file.as_deref()).await;
    }
    if let Some(path) = &asked.metrics_file {
        // A run's numbers that are there already must not be replaced by those of no run.
        tracing::warn!(path = %path.display(), "a dry run has no metrics, the metrics file is not written");
    }
    Ok(plan::execute(app, printer, None).await)
}
