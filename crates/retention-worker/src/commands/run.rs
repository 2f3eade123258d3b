//! `run`: one run now, for a CronJob. Ignores window and interval, binds no port.

use std::path::Path;

use retention_domain::{Outcome, RunRefused};

use super::{Exit, advice};
use crate::app::App;
use crate::cli::Printer;
use crate::render::{report_json, report_text};

pub(super) async fn execute(
    app: &App,
    printer: Printer,
    metrics_file: Option<&Path>,
) -> Result<Exit, String> {
    if let Some(path) = metrics_file {
        check_metrics_file(path)?;
    }
    app.shutdown
        .listen(&app.store, app.settings.shutdown_grace)
        .map_err(|error| format!("signals cannot be listened for: {error}"))?;
    let ended = app.run_once(None).await;
    app.write_metrics(metrics_file);
    app.store.database().close().await;
    match ended {
        Ok(report) => {
            printer.print(|| report_text(&report), || report_json(&report));
            Ok(if report.outcome() == Outcome::Failed { Exit::Failed } else { Exit::Done })
        }
        Err(RunRefused::BeforeCalendar(error)) => Err(error.to_string()),
        // The log has told why.
        Err(reason) => {
            tracing::error!(advice = advice::for_refusal(&reason), "the run did not do its work");
            Ok(if matches!(reason, RunRefused::Broken) { Exit::Failed } else { Exit::NoDatabase })
        }
    }
}

/// A file that cannot be written is better known before the run than after it.
fn check_metrics_file(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = path.display();
    let existing = path.symlink_metadata().ok();
    if path.file_name().is_none() || existing.is_some_and(|existing| !existing.is_file()) {
        // Renaming over a device or a link would destroy it.
        Err(format!("--metrics-file {shown}: expected a regular file, or a name that is not taken"))
    } else if folder.is_dir() {
        Ok(())
    } else {
        Err(format!(
            "--metrics-file {shown}: the folder {} does not exist; make it, or name another file",
            folder.display()
        ))
    }
}
