//! `plan`: what a run would meet. Deletes nothing, takes no row lock.

use retention_domain::plan::targets;
use retention_domain::ports::RetentionStore;

use super::{Exit, advice};
use crate::app::App;
use crate::cli::Printer;
use crate::render::{PlanRow, plan_json, plan_text};

pub(super) async fn execute(app: &App, printer: Printer) -> Exit {
    let now = match app.store.now().await {
        Ok(now) => now,
        Err(failure) => {
            let advice = advice::for_database(&failure.sentence);
            tracing::error!(exception = %failure, advice, "no usable database");
            return Exit::NoDatabase;
        }
    };
    let targets = match targets(&app.policies, now) {
        Ok(targets) => targets,
        Err(error) => {
            tracing::error!(exception = %error, "no cutoff");
            return Exit::Usage;
        }
    };
    let limits = app.settings.limits;
    let mut rows = Vec::new();
    for target in targets {
        let preview = app.store.preview(&target, limits.max_run_duration).await;
        rows.push(PlanRow {
            batch_size: target.policy.batch_size.unwrap_or(limits.batch_size),
            policy: target.policy.name,
            table: target.policy.table,
            cutoff: target.cutoff,
            preview,
            warnings: Vec::new(),
        });
    }
    app.store.database().close().await;
    printer.print(|| plan_text(now, &rows), || plan_json(now, &rows));
    if rows.iter().any(|row| row.preview.is_err()) { Exit::Failed } else { Exit::Done }
}
