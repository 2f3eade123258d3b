//! `plan`: what a run would meet. Deletes nothing, takes no row lock.

use std::time::Duration;

use retention_domain::Preview;
use retention_domain::period::format_duration;
use retention_domain::plan::{Target, targets};
use retention_domain::ports::RetentionStore;
use retention_postgres::{Finding, Level};

use super::{Exit, advice};
use crate::app::App;
use crate::cli::Printer;
use crate::render::{PlanRow, plan_json, plan_text};

/// What the preflight finds that decides how fast a run is and what stands in its way.
const TOLD: [&str; 5] = ["age-index", "parent-index", "self-reference", "foreign-keys-in", "autovacuum"];
/// Of these also what is as it should be.
const TOLD_WHEN_OK: [&str; 2] = ["age-index", "parent-index"];

pub(super) async fn execute(app: &App, printer: Printer, rows_per_second: Option<u32>) -> Exit {
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
        let (warnings, mut notes) = match &preview {
            Ok(_) => found(app, &target).await,
            // Why it could not be examined says enough.
            Err(_) => (Vec::new(), Vec::new()),
        };
        let batch_size = target.policy.batch_size.unwrap_or(limits.batch_size);
        if let (Ok(preview), Some(rate)) = (&preview, rows_per_second) {
            let pause = target.policy.batch_pause.unwrap_or(limits.batch_pause);
            notes.push(duration(preview, rate, batch_size, pause));
        }
        let Target { policy, cutoff } = target;
        rows.push(PlanRow {
            policy: policy.name,
            table: policy.table,
            cutoff,
            preview,
            batch_size,
            warnings,
            notes,
        });
    }
    app.store.database().close().await;
    printer.print(|| plan_text(now, &rows), || plan_json(now, &rows));
    if rows.iter().any(|row| row.preview.is_err()) { Exit::Failed } else { Exit::Done }
}

/// Warnings and notes from the preflight.
async fn found(app: &App, target: &Target) -> (Vec<String>, Vec<String>) {
    match app.store.preflight(target, app.settings.limits.statement_timeout).await {
        Ok(findings) => told(&findings),
        Err(failure) => (
            vec![format!("indexes and foreign keys could not be looked at: {}", failure.sentence)],
            Vec::new(),
        ),
    }
}

fn told(findings: &[Finding]) -> (Vec<String>, Vec<String>) {
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    for Finding { id, level, message, advice, .. } in
        findings.iter().filter(|finding| TOLD.contains(&finding.id))
    {
        match (level, advice) {
            (Level::Ok, _) if TOLD_WHEN_OK.contains(id) => notes.push(message.clone()),
            (Level::Ok, _) => {}
            (_, Some(advice)) => warnings.push(format!("{message}: {advice}")),
            (_, None) => warnings.push(message.clone()),
        }
    }
    (warnings, notes)
}

/// How long it takes at this rate, on one connection; pauses come on top, but for the last.
fn duration(preview: &Preview, rows_per_second: u32, batch_size: u32, pause: Duration) -> String {
    let rows = preview.deletable;
    let deleting = Duration::from_secs(rows.div_ceil(u64::from(rows_per_second)));
    let pauses =
        u32::try_from(rows.div_ceil(u64::from(batch_size.max(1))).saturating_sub(1)).unwrap_or(u32::MAX);
    format!(
        "at {rows_per_second} rows per second, {rows} rows take {}, and the pauses between batches {}",
        format_duration(deleting),
        format_duration(pause.saturating_mul(pauses))
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 500, "0 rows take 0s, and the pauses between batches 0s")]
    #[case(1, 500, "1 rows take 1s, and the pauses between batches 0s")]
    #[case(5_001, 500, "5001 rows take 11s, and the pauses between batches 100ms")]
    #[case(36_000_000, 1_000, "36000000 rows take 10h, and the pauses between batches 11m 59s 900ms")]
    fn a_duration_is_rows_by_rate_and_the_pauses(
        #[case] deletable: u64,
        #[case] rate: u32,
        #[case] says: &str,
    ) {
        let preview = Preview { deletable, ..Preview::default() };
        let text = duration(&preview, rate, 5_000, Duration::from_millis(100));
        assert_eq!(text, format!("at {rate} rows per second, {says}"));
    }

    #[test]
    fn the_index_in_use_is_a_note_and_what_is_in_the_way_a_warning() {
        let bad = |id, message: &str| Finding::bad(id, "p", Level::Warning, message, "DO IT;");
        let findings = [
            Finding::ok("table-exists", "p", "there"),
            Finding::ok("age-index", "p", "index ix finds due rows by at"),
            bad("foreign-keys-in", "a key"),
            bad("triggers", "a trigger"),
            bad("autovacuum", "dead rows"),
            Finding::ok("self-reference", "p", "none"),
        ];
        let (warnings, notes) = told(&findings);
        assert_eq!(warnings, ["a key: DO IT;", "dead rows: DO IT;"]);
        assert_eq!(notes, ["index ix finds due rows by at"]);
    }
}
