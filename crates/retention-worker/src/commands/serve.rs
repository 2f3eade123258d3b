//! `serve`: runs for ever, one run at a time, in the slots of the night window; answers HTTP meanwhile.

use std::sync::Arc;
use std::time::Duration;

use retention_domain::Outcome;

use super::readiness::watch;
use super::{Exit, chain};
use crate::app::App;
use crate::observe::Health;
use crate::observe::http::{self, HttpState};
use crate::scheduler::{Ended, Runs, Scheduler};

pub(super) async fn execute(app: App) -> Result<Exit, String> {
    let listener = http::bind(app.settings.http_addr).await.map_err(|error| chain(&error))?;
    app.shutdown
        .listen(&app.store, app.settings.shutdown_grace)
        .map_err(|error| format!("signals cannot be listened for: {error}"))?;
    let app = Arc::new(app);
    let health = Health::new();
    let state = HttpState {
        metrics: Arc::clone(&app.metrics),
        health: Arc::clone(&health),
        status: Arc::clone(&app.status),
    };
    if let Ok(address) = listener.local_addr() {
        // With port 0 only the listener knows.
        tracing::info!(%address, "listening");
    }
    let server = tokio::spawn(http::serve(listener, state, app.shutdown.token()));
    let readiness = tokio::spawn(watch(Arc::clone(&app), Arc::clone(&health)));

    let heartbeat = health.heartbeat();
    let scheduler = Scheduler::new(app.settings.schedule, &app.clock, &app.shutdown, &app.observer);
    scheduler.run(&*app).await;
    drop(heartbeat);

    readiness.abort();
    app.store.database().close().await;
    // Ends by itself, within a second of the shutdown.
    let _ = server.await;
    Ok(Exit::Done)
}

impl Runs for App {
    async fn run(&self, window_closes_in: Option<Duration>) -> Ended {
        match self.run_once(window_closes_in).await {
            Ok(report) if report.outcome() != Outcome::Failed => Ended::Normally,
            _ => Ended::Failed,
        }
    }
}
