//! A run in this process: the loop and the store as the worker puts them together, with everything adjustable.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use chrono::{DateTime, Utc};
use retention_domain::plan::{Target, targets};
use retention_domain::ports::{Clock, RetentionStore, RunEvent, RunObserver, StopSignal};
use retention_domain::run::WINDOW_ROWS;
use retention_domain::{
    Backlog, BatchDone, BatchRequest, Failure, Preview, RetentionPeriod, RetentionPolicy, RowAddress,
    RunLimits, RunReport, RunRequest, Sample, Window, WindowMark, WindowRow,
};
use retention_postgres::{Database, PgRetentionStore};

/// A run to be made, of both policies with their usual periods.
pub struct Job {
    /// What to drain.
    pub policies: Vec<RetentionPolicy>,
    /// Its bounds; without pauses, and with short waits for locks.
    pub limits: RunLimits,
    /// What the database's clock is taken to show; its own time without it.
    pub now: Option<DateTime<Utc>>,
    /// Whether to stop; an observer may request it.
    pub stop: Stop,
    windows: AtomicUsize,
    observer: Box<dyn Fn(&RunEvent<'_>) + Send + Sync>,
}

/// A request to stop, shared.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests it.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl StopSignal for Stop {
    fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Job {
    /// A run of both policies in batches of at most `batch_size`.
    ///
    /// # Errors
    ///
    /// Never: the periods are valid.
    pub fn new(batch_size: u32) -> Result<Self> {
        Ok(Self {
            policies: vec![
                RetentionPolicy::sicr(RetentionPeriod::from_days(30)?),
                RetentionPolicy::refresh(RetentionPeriod::from_days(90)?),
            ],
            limits: RunLimits {
                batch_size,
                window_rows: WINDOW_ROWS,
                batch_pause: Duration::ZERO,
                max_run_duration: Duration::from_mins(5),
                window_closes_in: None,
                statement_timeout: Duration::from_secs(30),
                lock_timeout: Duration::from_millis(100),
                concurrency: 1,
            },
            now: None,
            stop: Stop::default(),
            windows: AtomicUsize::new(0),
            observer: Box::new(|_| {}),
        })
    }

    /// The run is told to call this at every event, from within its loop.
    #[must_use]
    pub fn observed(mut self, observer: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Windows of all that is due that have been asked for so far; those of leaves alone are not counted.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.windows.load(Ordering::SeqCst)
    }

    /// A store of its own on this database, as this run needs it.
    ///
    /// # Errors
    ///
    /// When the address cannot be read.
    pub fn store(&self, url: &str) -> Result<PgRetentionStore> {
        let database = Database::new(url.parse()?, self.limits.concurrency);
        Ok(PgRetentionStore::new(database, self.limits.lock_timeout))
    }

    /// Makes the run, with connections of its own.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub async fn run(&self, url: &str) -> Result<RunReport> {
        let store = self.store(url)?;
        let report = self.run_on(&store).await;
        store.database().close().await;
        report
    }

    /// What a run would meet, one preview a policy. Deletes nothing.
    ///
    /// # Errors
    ///
    /// When the database refuses.
    pub async fn preview(&self, url: &str) -> Result<Vec<Preview>> {
        let store = self.store(url)?;
        let now = store.now().await?;
        let mut previews = Vec::new();
        for target in targets(&self.policies, self.now.unwrap_or(now))? {
            previews.push(store.preview(&target, self.limits.max_run_duration).await?);
        }
        store.database().close().await;
        Ok(previews)
    }

    /// Makes the run on a store.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub async fn run_on(&self, store: &impl RetentionStore) -> Result<RunReport> {
        let request = RunRequest {
            job_run_id: "00000000-0000-7000-8000-000000000000".to_owned(),
            policies: self.policies.clone(),
            limits: self.limits,
        };
        let store = Dated { store, now: self.now, windows: &self.windows };
        let clock = TestClock { began: Instant::now(), now: self.now };
        let observer = Told(&*self.observer);
        Ok(retention_domain::run(&store, &clock, &self.stop, &observer, &request).await?)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("limits", &self.limits).field("now", &self.now).finish_non_exhaustive()
    }
}

struct Told<'a>(&'a (dyn Fn(&RunEvent<'_>) + Send + Sync));

impl RunObserver for Told<'_> {
    fn observe(&self, event: &RunEvent<'_>) {
        (self.0)(event);
    }
}

/// The machine's clock, or one whose wall agrees with the store's.
struct TestClock {
    began: Instant,
    now: Option<DateTime<Utc>>,
}

impl Clock for TestClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn wall(&self) -> DateTime<Utc> {
        self.now.unwrap_or_else(|| SystemTime::now().into())
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }

    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A store whose clock can be set; everything else is the store's own.
struct Dated<'a, S> {
    store: &'a S,
    now: Option<DateTime<Utc>>,
    windows: &'a AtomicUsize,
}

impl<S: RetentionStore> RetentionStore for Dated<'_, S> {
    async fn now(&self) -> Result<DateTime<Utc>, Failure> {
        match self.now {
            Some(now) => Ok(now),
            None => self.store.now().await,
        }
    }

    async fn prepare(&self, target: &Target, limit: Duration) -> Result<(), Failure> {
        self.store.prepare(target, limit).await
    }

    async fn count_due(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        self.store.count_due(target, limit).await
    }

    async fn sample(&self, target: &Target, one_in: u64, limit: Duration) -> Result<Sample, Failure> {
        self.store.sample(target, one_in, limit).await
    }

    async fn window(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        self.windows.fetch_add(1, Ordering::SeqCst);
        self.store.window(target, after, max_rows, limit).await
    }

    async fn leaves(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        self.store.leaves(target, after, max_rows, limit).await
    }

    async fn climb(
        &self,
        target: &Target,
        from: &[RowAddress],
        max_rows: usize,
        limit: Duration,
    ) -> Result<Vec<WindowRow>, Failure> {
        self.store.climb(target, from, max_rows, limit).await
    }

    async fn delete_batch(&self, target: &Target, request: &BatchRequest) -> Result<BatchDone, Failure> {
        self.store.delete_batch(target, request).await
    }

    async fn backlog(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        self.store.backlog(target, limit).await
    }

    async fn preview(&self, target: &Target, limit: Duration) -> Result<Preview, Failure> {
        self.store.preview(target, limit).await
    }
}
