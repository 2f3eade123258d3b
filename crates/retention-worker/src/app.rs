//! The composition root: the only place that knows concrete types.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use retention_domain::ports::{Clock, RunEvent, RunObserver};
use retention_domain::{RetentionPolicy, RunRefused, RunReport, RunRequest, run};
use retention_postgres::{Database, PgRetentionStore};
use tracing::Instrument;
use uuid::Uuid;

use crate::clock::SystemClock;
use crate::commands::chain;
use crate::observe::{Metrics, Observer, Status};
use crate::policy_file::Origin;
use crate::settings::Settings;
use crate::shutdown::Shutdown;

/// Everything a command works with.
#[derive(Debug)]
pub struct App {
    /// The settings.
    pub settings: Settings,
    /// The policies, in the order of a run.
    pub policies: Vec<RetentionPolicy>,
    /// Where those of a policy file stand, by their names.
    pub origins: BTreeMap<String, Origin>,
    /// The rows.
    pub store: PgRetentionStore,
    /// The numbers.
    pub metrics: Arc<Metrics>,
    /// What the status page shows.
    pub status: Arc<Status>,
    /// The process's clock.
    pub clock: SystemClock,
    /// Whether to stop.
    pub shutdown: Shutdown,
    /// Is told what happens.
    pub observer: Observer,
}

impl App {
    /// Puts everything together, for a run of these policies. Connects to nothing yet.
    #[must_use]
    pub fn new(
        settings: Settings,
        policies: Vec<RetentionPolicy>,
        origins: BTreeMap<String, Origin>,
    ) -> Self {
        let database = Database::new(settings.database_url.connect_options(), settings.limits.concurrency);
        let store = PgRetentionStore::new(database, settings.limits.lock_timeout);
        let metrics = Arc::new(Metrics::new(&policies, settings.schedule.interval()));
        let shutdown = Shutdown::default();
        let clock = SystemClock::new(shutdown.token());
        let wall = clock.clone();
        let status = Arc::new(Status::new(&policies, settings.schedule, move || wall.wall()));
        let observer = Observer::new(&policies, Arc::clone(&metrics), Arc::clone(&status));
        Self { settings, policies, origins, store, metrics, status, clock, shutdown, observer }
    }

    /// One run, bounded by the window if it closes.
    ///
    /// # Errors
    /// [`RunRefused`] when it did not start, or broke off.
    pub async fn run_once(&self, window_closes_in: Option<Duration>) -> Result<RunReport, RunRefused> {
        let mut limits = self.settings.limits;
        limits.window_closes_in = window_closes_in;
        let job_run_id = Uuid::now_v7().to_string();
        let span = self.observer.run_span(&job_run_id);
        let request = RunRequest { job_run_id, policies: self.policies.clone(), limits };
        let began = self.clock.monotonic();
        let run = run(&self.store, &self.clock, &self.shutdown, &self.observer, &request).instrument(span);
        // A panic ends the run, not the process: nothing of a run outlives it but its connections, which are closed.
        AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|_| {
            let reason = RunRefused::Broken;
            let took = self.clock.monotonic().saturating_sub(began);
            self.observer.observe(&RunEvent::Refused {
                job_run_id: &request.job_run_id,
                reason: &reason,
                took,
            });
            Err(reason)
        })
    }

    /// Writes the metrics file, if one was asked for. The run is over: a failure is told and changes nothing.
    pub fn write_metrics(&self, path: Option<&Path>) {
        if let Some(path) = path
            && let Err(error) = self.metrics.write_textfile(path)
        {
            tracing::error!(path = %path.display(), error = chain(&error), "metrics file not written");
        }
    }
}
