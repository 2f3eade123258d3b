//! The soak: several workers, online traffic, and faults, for as long as one likes; then the proof that exactly the
//! right rows went.
//!
//! Owns the sequence: a storm (processes killed, connections cut), a calm (processes told to stop, paused), one quiet
//! run. What is right is worked out by `reference.rs` from the ledger of what was written, not from the worker's
//! predicate. The seed decides what each client wants to do and what befalls the workers; who meets whom is up to the
//! machine.

mod age;
mod client;
mod expiry;
mod faults;
mod figures;
mod fleet;
mod ledger;
mod meddling;
mod statements;
mod tally;
mod vacuum;
mod verdict;
mod world;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tokio::task::{JoinSet, spawn_blocking};
use uuid::Uuid;

use crate::{Role, Rows, TestDatabase, Worker, binary, shape};
use client::Client;
use faults::{Faults, Weather};
pub use figures::{Figures, Stage};
use fleet::{Account, Fleet, LARGEST_BATCH};
use world::World;

/// Between two comparisons of everything, at most.
const COMPARED_EVERY: Duration = Duration::from_secs(20);
/// The part of the time that is storm.
const STORM: f64 = 0.6;

/// How to soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soak {
    /// Decides what everybody does.
    pub seed: u64,
    /// How long storm and calm take together. Preparation and proof come on top.
    pub duration: Duration,
    /// Online clients.
    pub clients: u64,
    /// Worker processes.
    pub workers: usize,
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, duration, clients, workers } = self;
        let minutes = duration.as_secs_f64() / 60.0;
        write!(
            f,
            "cargo xtask soak --minutes {minutes} --seed {seed} --clients {clients} --workers {workers}"
        )
    }
}

/// What a soak plays with.
struct Stand<'a> {
    soak: Soak,
    world: Arc<World>,
    rows: Rows,
    role: &'a Role,
    faults: Faults,
}

impl Soak {
    /// Soaks in a migrated database of its own, and tells how far it is about every second.
    ///
    /// Broken promises are in the figures; see [`Figures::is_clean`].
    ///
    /// # Errors
    ///
    /// When something could not be done at all.
    pub async fn run(
        self,
        database: &TestDatabase,
        mut told: impl FnMut(Duration, &Figures),
    ) -> Result<Figures> {
        // Built before the clock runs, which would otherwise be all there is of the storm.
        spawn_blocking(|| binary("retention-worker")).await??;
        let began = Instant::now();
        let role = Role::worker(database).await?;
        let world = Arc::new(World::new(self.seed));
        let rows = Rows::of(database).await?;
        rows.execute(SLOW_DELETES).await?;
        backlog(&world, &rows).await?;
        let service = self.open(&world, &rows, database).await?;
        let admin = PgConnection::connect(database.url()).await?;
        let faults = Faults::new(world.rng(0), admin);
        let mut stand = Stand { soak: self, world: Arc::clone(&world), rows, role: &role, faults };

        let mut progress = |figures: &Figures| told(began.elapsed(), figures);
        let storm = self.duration.mul_f64(STORM);
        stand.stage("storm", Weather::Storm, storm, &mut progress).await?;
        stand.stage("calm", Weather::Calm, self.duration.saturating_sub(storm), &mut progress).await?;
        world.stop();
        for ended in service.join_all().await {
            ended.close().await?;
        }
        stand.quiet_run().await?;
        let mut figures = world.figures().clone();
        figures.lasted = began.elapsed();
        Ok(figures)
    }

    /// Lets the clients, the expiry job and the housekeeping begin.
    async fn open(
        self,
        world: &Arc<World>,
        rows: &Rows,
        database: &TestDatabase,
    ) -> Result<JoinSet<PgConnection>> {
        let mut service = JoinSet::new();
        for number in 1..=self.clients {
            let user = Uuid::from_u128(u128::from(u64::MAX) + u128::from(number));
            sqlx::query("INSERT INTO identity.users (id) VALUES ($1)")
                .bind(user)
                .execute(rows.pool())
                .await?;
            let conn = PgConnection::connect(database.url()).await?;
            service.spawn(Client::new(world, conn, number, user).work());
        }
        let conn = PgConnection::connect(database.url()).await?;
        service.spawn(expiry::work(Arc::clone(world), conn));
        let conn = PgConnection::connect(database.url()).await?;
        service.spawn(vacuum::work(Arc::clone(world), conn));
        Ok(service)
    }
}

/// Deletes take about a millisecond a row, as with large rows on a busy disk; batches that are over in no time would
/// hardly ever be hit by anything.
const SLOW_DELETES: &str = "
CREATE FUNCTION public.take_time() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_sleep(0.001); RETURN OLD; END $$;
CREATE TRIGGER takes_time BEFORE DELETE ON identity.refresh_sessions
  FOR EACH ROW EXECUTE FUNCTION public.take_time();
CREATE TRIGGER takes_time BEFORE DELETE ON identity.sign_in_confirmation_requests
  FOR EACH ROW EXECUTE FUNCTION public.take_time()";

/// Rows of years ago, so that the workers begin with something to do.
async fn backlog(world: &World, rows: &Rows) -> Result<()> {
    rows.sessions(format!("{} ORDER BY random()", shape::chains(1, 100, 50))).await?;
    rows.sessions(format!("{} ORDER BY random()", shape::trees(100_000, 500))).await?;
    rows.sessions(shape::singles(200_000, 2000)).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 5000) AS n").await?;
    let (sessions, requests) = (rows.all_sessions().await?, rows.all_requests().await?);
    let mut tables = world.ledger.tables();
    tables.written = u64::try_from(sessions.len() + requests.len())?;
    tables.attempts = requests.keys().map(|n| (*n, 0)).collect();
    tables.sessions = sessions;
    tables.requests = requests;
    Ok(())
}

impl Stand<'_> {
    async fn stage(
        &mut self,
        name: &'static str,
        weather: Weather,
        duration: Duration,
        progress: &mut impl FnMut(&Figures),
    ) -> Result<()> {
        let ends = Instant::now() + duration;
        let calm = weather == Weather::Calm;
        let fleet = Fleet::start(&self.world, self.role.url(), self.soak.workers, calm);
        let cut_before = self.faults.cut;
        let mut gone = 0;
        let mut compared = Instant::now();
        while Instant::now() < ends {
            self.faults.strike(&self.world, &fleet, weather).await?;
            if compared.elapsed() > COMPARED_EVERY {
                gone += self.compare(None).await?;
                compared = Instant::now();
            }
            progress(&self.world.figures());
        }
        let Account { reported, unaccounted } = fleet.retire().await.context("the workers")?;
        self.rows
            .wait_until(
                "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'SessionRetentionJob')",
            )
            .await?;
        gone += self.compare(None).await?;
        let unaccounted = unaccounted + (self.faults.cut - cut_before) * LARGEST_BATCH;
        self.enter(Stage { name, gone, reported, unaccounted });
        Ok(())
    }

    /// With nobody else about, one run takes all that is left to take.
    async fn quiet_run(&mut self) -> Result<()> {
        let (finished, report) = Worker::on(self.role.url()).run().await?;
        let ended = (finished.code(), report["outcome"].as_str(), report["stop_reason"].as_str());
        if ended != (Some(0), Some("completed"), Some("drained")) {
            self.world.violation(format!("the quiet run ended otherwise: {report}\n{}", finished.stderr));
        }
        let reported = [&report["sicr_deleted"], &report["refresh_deleted"]];
        let reported = reported.into_iter().filter_map(Value::as_u64).sum();
        let gone = self.compare(Some(started_at(&report)?)).await?;
        self.enter(Stage { name: "quiet run", gone, reported, unaccounted: 0 });
        let users = self.rows.number("SELECT count(*) FROM identity.users").await?;
        if users != self.soak.clients + 1 {
            self.world.violation(format!("{users} users of {} are left", self.soak.clients + 1));
        }
        Ok(())
    }

    async fn compare(&self, drained_at: Option<DateTime<Utc>>) -> Result<u64> {
        let closed = self.world.gate.write().await;
        let gone = verdict::compare(&self.world, &self.rows, drained_at).await;
        drop(closed);
        gone
    }

    fn enter(&self, stage: Stage) {
        let mut figures = self.world.figures();
        if let Some(fault) = stage.fault() {
            figures.violation(fault);
        }
        figures.stages.push(stage);
    }
}

/// When a run read its clock, to the microsecond: a period after its cutoff.
fn started_at(report: &Value) -> Result<DateTime<Utc>> {
    let of = |policy: usize, days: i64| {
        let cutoff = report["policies"][policy]["cutoff"].as_str().context("a policy without a cutoff")?;
        anyhow::Ok(cutoff.parse::<DateTime<Utc>>()? + TimeDelta::days(days))
    };
    let (sicr, refresh) = (of(0, 30)?, of(1, 90)?);
    anyhow::ensure!(sicr == refresh, "two cutoffs of two clocks: {report}");
    Ok(sicr)
}
