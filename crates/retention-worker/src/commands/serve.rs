//! `serve`: runs for ever, one run at a time, in the slots of the night window; answers HTTP meanwhile.

use std::sync::Arc;
use std::time::Duration;

use retention_domain::Outcome;
use retention_domain::ports::{Clock, StopSignal};

use super::{Exit, chain};
use crate::app::App;
use crate::observe::http::{self, HttpState};
use crate::observe::{Health, Readiness};
use crate::scheduler::{Ended, Runs, Scheduler};

/// How often the database is asked whether it is there. More often loads it for nothing, less often keeps `/readyz`
/// behind the facts.
const READINESS_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const READINESS_PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn execute(app: App) -> Result<Exit, String> {
    let listener = http::bind(app.settings.http_addr).await.map_err(|error| chain(&error))?;
    app.shutdown
        .listen(&app.store, app.settings.shutdown_grace)
        .map_err(|error| format!("signals cannot be listened for: {error}"))?;
    let app = Arc::new(app);
    let health = Health::new();
    let state = HttpState { metrics: Arc::clone(&app.metrics), health: Arc::clone(&health) };
    tracing::info!(address = %app.settings.http_addr, "listening");
    let server = tokio::spawn(http::serve(listener, state, app.shutdown.token()));
    let readiness = tokio::spawn(watch_database(Arc::clone(&app), Arc::clone(&health)));

    let heartbeat = health.heartbeat();
    let scheduler = Scheduler::new(app.settings.schedule, &app.clock, &app.shutdown, &*app.metrics);
    scheduler.run(&*app).await;
    drop(heartbeat);

    readiness.abort();
    app.store.database().close().await;
    // Ends by itself, within a second of the shutdown.
    let _ = server.await;
    Ok(Exit::Done)
}

/// Asks the database, again and again, until the shutdown.
async fn watch_database(app: Arc<App>, health: Arc<Health>) {
    while !app.shutdown.is_requested() {
        let answer = tokio::time::timeout(READINESS_PATIENCE, app.store.database().ping()).await;
        let readiness = if matches!(answer, Ok(Ok(()))) { Readiness::Ready } else { Readiness::NoDatabase };
        if readiness != health.readiness() {
            if readiness == Readiness::Ready {
                tracing::info!("the database answers");
            } else {
                tracing::warn!("the database does not answer");
            }
        }
        health.report(readiness);
        app.clock.wait(READINESS_INTERVAL).await;
    }
}

impl Runs for App {
    async fn run(&self, window_closes_in: Option<Duration>) -> Ended {
        match self.run_once(window_closes_in).await {
            Ok(report) if report.outcome() != Outcome::Failed => Ended::Normally,
            _ => Ended::Failed,
        }
    }
}
