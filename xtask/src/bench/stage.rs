//! Where everything is measured: a server, the worker, and databases that are filled once and copied for each
//! measurement.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Durability, Environment, Server, TestDatabase};
use sqlx::{Connection, PgConnection, raw_sql};

use super::progress::Progress;
use super::sql::{self, Table};
use super::worker::{Run, Settings, Worker};
use crate::seed::{self, Seeded, Shape};

/// From so many rows on a scenario runs one round.
const ONE_ROUND: u64 = 5_000_000;
/// Below so many rows rounds are short enough for more of them.
const MANY_ROUNDS: u64 = 500_000;

/// A server with what is needed to measure on it.
pub struct Stage {
    /// Where databases are made.
    pub server: Server,
    /// What is measured.
    pub worker: Worker,
    /// Tells what is going on.
    pub progress: Progress,
    /// Due rows of a scenario of the normal size.
    pub rows: u32,
    /// Whether only a regression of kind is looked for.
    pub quick: bool,
    templates: Vec<(String, Arc<Template>)>,
    /// Peak memory of the runs so far, in mebibytes, by the template they drained.
    peaks: BTreeMap<String, f64>,
}

/// A filled database that is only ever copied.
pub struct Template {
    /// What is in it.
    pub name: String,
    /// What a run has to do with it.
    pub seeded: Seeded,
    database: TestDatabase,
}

/// Whether the optional index of `deploy/postgres/retention-index.sql` is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// It is not.
    Without,
    /// It is.
    With,
}

impl Template {
    /// All rows that a run deletes.
    pub fn deletable(&self) -> u64 {
        self.seeded.sicr.deletable + self.seeded.refresh.deletable
    }
}

impl Stage {
    /// Finds or starts a server with durable settings, and builds the worker.
    ///
    /// # Errors
    ///
    /// When there is no server, or the worker does not build.
    pub async fn set_up(database_url: Option<String>, rows: u32, quick: bool) -> Result<Self> {
        let progress = Progress::new()?;
        progress.begin("building the worker");
        let worker = Worker::build().await?;
        progress.begin("finding a server");
        let mut environment = Environment::of_process();
        if database_url.is_some() {
            environment.database_url = database_url;
        }
        let server = Server::find_in(environment, Durability::BENCHMARK).await?;
        progress.say(server.describe());
        Ok(Self { server, worker, progress, rows, quick, templates: Vec::new(), peaks: BTreeMap::new() })
    }

    /// How often a scenario with so many rows is measured.
    pub fn rounds(&self, rows: u64) -> usize {
        match rows {
            ONE_ROUND.. => 1,
            _ if self.quick => 3,
            MANY_ROUNDS.. => 3,
            _ => 5,
        }
    }

    /// A batch size at which a run of so many rows has about two hundred batches, up to the default of 5,000.
    pub fn batch_size(rows: u64) -> u64 {
        (rows / 200).clamp(50, 5000)
    }

    /// The database filled with these shapes, one after the other; filled at the first call.
    ///
    /// # Errors
    ///
    /// When it cannot be filled.
    pub async fn template(&mut self, name: impl Into<String>, shapes: &[Shape]) -> Result<Arc<Template>> {
        let name = name.into();
        if let Some((_, template)) = self.templates.iter().find(|(of, _)| *of == name) {
            return Ok(Arc::clone(template));
        }
        self.progress.begin(format_args!("filling {name}"));
        let began = Instant::now();
        let database = TestDatabase::migrated_on(&self.server).await?;
        let mut connection = PgConnection::connect(database.url()).await?;
        let mut all: Option<Seeded> = None;
        for (shape, seed) in shapes.iter().zip(1..) {
            let shape = Shape { seed, append: seed > 1, ..shape.clone() };
            let bar = self.progress.rows();
            let seeded = seed::fill(&mut connection, &shape, &bar).await;
            bar.finish_and_clear();
            let seeded = seeded.with_context(|| format!("filling {name}"))?;
            all = Some(all.map_or(seeded, |all| all.and(&seeded)));
        }
        connection.close().await?;
        let seeded = all.context("nothing to fill a database with")?;
        self.progress.say(format_args!("filled {name} in {:.1} s", began.elapsed().as_secs_f64()));
        let template = Arc::new(Template { name: name.clone(), seeded, database });
        self.templates.push((name, Arc::clone(&template)));
        Ok(template)
    }

    /// Drops a template that is needed no more.
    pub fn forget(&mut self, name: &str) {
        self.templates.retain(|(of, _)| of != name);
    }

    /// A copy of its own for one measurement, with everything written to disk before it begins.
    ///
    /// # Errors
    ///
    /// As for [`Stage::settle`], or when the copy cannot be made.
    pub async fn copy(&self, template: &Template, index: Index) -> Result<TestDatabase> {
        let copy = template.database.copy(&self.server).await?;
        if index == Index::With {
            let mut connection = PgConnection::connect(copy.url()).await?;
            seed::create_retention_index(&mut connection).await?;
            connection.close().await?;
        }
        self.settle().await?;
        Ok(copy)
    }

    /// Has the server write everything to disk, so that the next measurement does not pay for what was before it.
    ///
    /// # Errors
    ///
    /// When the server refuses: it wants a superuser or a member of `pg_checkpoint`.
    pub async fn settle(&self) -> Result<()> {
        let mut connection = PgConnection::connect(self.server.maintenance_url()).await?;
        raw_sql("CHECKPOINT").execute(&mut connection).await.context("checkpoint before a measurement")?;
        Ok(connection.close().await?)
    }

    /// One run of the worker over a copy. Everything that is due must be gone after it, and nothing else.
    ///
    /// # Errors
    ///
    /// When the run does not complete, or another number of rows goes.
    pub async fn drain(&mut self, template: &Template, index: Index, settings: &Settings) -> Result<Run> {
        let copy = self.copy(template, index).await?;
        let run = self.worker.run(copy.url(), settings).await?;
        copy.drop().await?;
        self.check(template, &run)?;
        Ok(run)
    }

    /// Whether a run deleted what it had to; remembers how much memory it took.
    ///
    /// # Errors
    ///
    /// When another number of rows went.
    pub fn check(&mut self, template: &Template, run: &Run) -> Result<()> {
        let (expected, Run { deleted, .. }) = (template.deletable(), run);
        ensure!(*deleted == expected, "{}: the worker deleted {deleted} rows, not {expected}", template.name);
        let peak = self.peaks.entry(template.name.clone()).or_default();
        *peak = peak.max(run.peak_mib);
        Ok(())
    }

    /// The most memory that a run over this template has had so far, in mebibytes.
    pub fn peak_mib(&self, template: &Template) -> Option<f64> {
        self.peaks.get(&template.name).copied()
    }

    /// Begins and ends a step around a measurement of so many seconds.
    ///
    /// # Errors
    ///
    /// Those of the measurement.
    pub async fn timed(
        &mut self,
        what: impl Display,
        measurement: impl AsyncFnOnce(&mut Self) -> Result<Duration>,
    ) -> Result<Duration> {
        self.progress.begin(&what);
        let took = measurement(self).await?;
        self.progress.end(format_args!("{what}: {:.3} s", took.as_secs_f64()));
        Ok(took)
    }

    /// One unbounded DELETE over a copy whose due rows are all free.
    ///
    /// # Errors
    ///
    /// When it fails, or another number of rows goes.
    pub async fn delete_at_once(&self, template: &Template, table: Table, index: Index) -> Result<Duration> {
        let copy = self.copy(template, index).await?;
        let took = sql::unbounded_delete(copy.url(), table, template.deletable()).await?;
        copy.drop().await?;
        Ok(took)
    }

    /// Drops everything. A throw-away server has stopped and its folder is gone when this returns.
    pub fn clean_up(self) {
        self.progress.finish();
        drop(self.templates);
        drop(self.server);
    }
}
