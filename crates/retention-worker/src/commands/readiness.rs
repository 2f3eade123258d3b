//! Whether `serve` could work: asks the database again and again, and runs the preflight at start, whenever the
//! database comes back, and until it finds no error any more. Tells `/readyz` and the log; never stops anything.

use std::sync::Arc;
use std::time::Duration;

use retention_domain::Failure;
use retention_domain::ports::{Clock, StopSignal};
use retention_postgres::{Finding, Level, failure};

use super::advice;
use super::check::{has_errors, preflight};
use crate::app::App;
use crate::observe::{Health, Readiness};

/// How often the database is asked whether it is there. More often loads it for nothing, less often keeps `/readyz`
/// behind the facts. One that does not answer at all is found out ten seconds later.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to examine one policy's table.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reports until the shutdown.
pub(super) async fn watch(app: Arc<App>, health: Arc<Health>) {
    let mut known = None;
    let mut told = None;
    while !app.shutdown.is_requested() {
        let looked = look(&app, &mut known).await;
        let readiness = *looked.as_ref().unwrap_or(&Readiness::NoDatabase);
        let before = health.readiness();
        // Before the line: whoever reads it and asks `/readyz` gets the answer that goes with it.
        health.report(readiness);
        let why = looked.err().map(|failure| failure.sentence);
        match &why {
            Some(exception) if told != why => {
                let advice = advice::for_database(exception);
                tracing::warn!(exception, advice, "the database does not answer");
            }
            None if !matches!(before, Readiness::Ready | Readiness::PreflightErrors) => {
                tracing::info!("the database answers");
            }
            _ => {}
        }
        told = why;
        if readiness == Readiness::Ready && before == Readiness::PreflightErrors {
            tracing::info!("the preflight finds no error any more");
        }
        app.clock.wait(INTERVAL).await;
    }
}

/// `known` are the findings of the last preflight; `None` when one is due.
///
/// # Errors
/// Why the database cannot be used.
async fn look(app: &App, known: &mut Option<Vec<Finding>>) -> Result<Readiness, Failure> {
    let examined = known.take();
    app.store.database().ping().await.map_err(|error| failure("asking the database", &error))?;
    if examined.as_ref().is_none_or(|findings| has_errors(findings)) {
        let findings = preflight(app, PATIENCE).await?;
        let told = examined.unwrap_or_default();
        findings.iter().filter(|finding| !told.contains(finding)).for_each(tell);
        *known = Some(findings);
    } else {
        *known = examined;
    }
    match known {
        Some(findings) if has_errors(findings) => Ok(Readiness::PreflightErrors),
        _ => Ok(Readiness::Ready),
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
