//! Whether `serve` could work: asks the database again and again, and runs the preflight at start, whenever the
//! database comes back, and until it finds no error any more. Tells `/readyz` and the log; never stops anything.

use std::sync::Arc;
use std::time::Duration;

use retention_domain::ports::{Clock, StopSignal};
use retention_postgres::{Finding, Level};

use super::check::{has_errors, preflight};
use crate::app::App;
use crate::observe::{Health, Readiness};

/// How often the database is asked whether it is there. More often loads it for nothing, less often keeps `/readyz`
/// behind the facts.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports until the shutdown.
pub(super) async fn watch(app: Arc<App>, health: Arc<Health>) {
    let mut known = None;
    while !app.shutdown.is_requested() {
        let readiness = look(&app, &mut known).await;
        let before = health.readiness();
        // Before the line: whoever reads it and asks `/readyz` gets the answer that goes with it.
        health.report(readiness);
        let answers = |readiness| matches!(readiness, Readiness::Ready | Readiness::PreflightErrors);
        match (answers(before), answers(readiness)) {
            (false, true) => tracing::info!("the database answers"),
            (true, false) => tracing::warn!("the database does not answer"),
            (false, false) if before == Readiness::NotAsked => tracing::warn!("the database does not answer"),
            _ => {}
        }
        if readiness == Readiness::Ready && before == Readiness::PreflightErrors {
            tracing::info!("the preflight finds no error any more");
        }
        app.clock.wait(INTERVAL).await;
    }
}

/// `known` are the findings of the last preflight; `None` when one is due.
async fn look(app: &App, known: &mut Option<Vec<Finding>>) -> Readiness {
    if !matches!(tokio::time::timeout(PATIENCE, app.store.database().ping()).await, Ok(Ok(()))) {
        *known = None;
        return Readiness::NoDatabase;
    }
    if known.as_ref().is_none_or(|findings| has_errors(findings)) {
        let Ok(findings) = preflight(app, PATIENCE).await else {
            *known = None;
            return Readiness::NoDatabase;
        };
        let told = known.take().unwrap_or_default();
        findings.iter().filter(|finding| !told.contains(finding)).for_each(tell);
        *known = Some(findings);
    }
    match known {
        Some(findings) if has_errors(findings) => Readiness::PreflightErrors,
        _ => Readiness::Ready,
    }
}

fn tell(finding: &Finding) {
    let Finding { id, policy, level, message, advice } = finding;
    let advice = advice.as_deref().unwrap_or_default();
    match level {
        Level::Ok => {}
        Level::Warning => {
            tracing::warn!(check = id, phase = policy, finding = message, advice, "preflight finding");
        }
        Level::Error => {
            tracing::error!(check = id, phase = policy, finding = message, advice, "preflight finding");
        }
    }
}
