//! `cargo xtask demo`: the worker at work on a database of its own, and proof that exactly the right rows went.
//!
//! Owns the sequence: a database, rows, plan, run, verdict, clean-up. What is expected is worked out in
//! `reference.sql` from the definitions alone; nothing of the worker's SQL or of its policies is used here.

mod handbook;
mod reference;
pub mod report;
pub mod table;
mod verdict;

use std::fmt::Display;
use std::io::{Write, stdout};
use std::pin::pin;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use harness::{Durability, Finished, Server, TestDatabase, Worker, binary};
use indicatif::ProgressBar;
use sqlx::{Connection, PgConnection};
use tokio::signal::unix::{SignalKind, signal};

use crate::seed::{self, Shape};
use reference::Reference;
use report::{Plan, Report};
use verdict::{Verdict, judge};

/// Small enough that a run takes many batches and both policies take turns.
const BATCH_SIZE: &str = "1000";

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Rows to begin with; chains that end in an active session come on top
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    rows: u32,
    /// Equal seeds make equal rows
    #[arg(long, value_name = "U64", default_value_t = 1)]
    seed: u64,
    /// Show declared policies instead: deploy/policies/handbook.toml on the tables of an example service
    #[arg(long)]
    handbook: bool,
    /// Keep the database as it is after the runs, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// Where it plays. Both go when this is dropped.
struct Stage {
    database: TestDatabase,
    /// Dropped after the database.
    server: Server,
}

/// Runs the command.
///
/// # Errors
///
/// When something could not be done, when it is interrupted, and when a single row is not where it belongs.
pub async fn run(args: Args) -> Result<()> {
    say("building the worker")?;
    // First of all: it takes longest, and there is nothing yet to clean up.
    binary("retention-worker")?;
    let mut interrupted = pin!(interrupted());
    let stage = tokio::select! {
        stage = Stage::set_up() => stage?,
        error = &mut interrupted => return Err(error),
    };
    let (failed, checks) = tokio::select! {
        verdict = stage.play(&args) => verdict?,
        error = &mut interrupted => return Err(error),
    };
    if args.keep {
        say(format_args!("\nthe database stays until Ctrl-C:\n  psql '{}'", stage.database.url()))?;
        interrupted.await;
    }
    stage.clean_up().await?;
    say("\ncleaned up")?;
    ensure!(failed == 0, "the demo failed: {failed} of {checks} checks");
    Ok(())
}

impl Stage {
    async fn set_up() -> Result<Self> {
        let server = Server::find(Durability::Fast).await?;
        say(format_args!("{}", server.describe()))?;
        let database = TestDatabase::migrated_on(&server).await?;
        Ok(Self { database, server })
    }

    /// Plays what was asked for and shows the verdict; how many checks did not hold, and of how many.
    async fn play(&self, args: &Args) -> Result<(usize, usize)> {
        if args.handbook {
            let verdict = self.play_the_handbook(args).await?;
            say(&verdict)?;
            return Ok((verdict.failed(), verdict.checks()));
        }
        let verdict = self.play_the_session_job(args).await?;
        say(&verdict)?;
        Ok((verdict.failed(), verdict.checks()))
    }

    async fn play_the_handbook(&self, args: &Args) -> Result<handbook::Verdict> {
        let mut conn = PgConnection::connect(self.database.url()).await?;
        let rows = args.rows / 10;
        handbook::set_the_scene(&mut conn, rows, args.seed).await?;
        say(format_args!(
            "the ten tables of an example service, {rows} rows each and some odd ones by hand"
        ))?;

        title("retention-worker plan --policy-file deploy/policies/handbook.toml")?;
        let with_the_file = ["--policy-file", handbook::POLICIES];
        let run = ["run", "--format", "json"];
        let plan = self.worker(&[&["plan"], &with_the_file[..]].concat()).await?;
        say(plan.stdout.trim_end())?;
        let plan = self.worker(&[&["plan", "--format", "json"], &with_the_file[..]].concat()).await?;
        let plan = Plan::read(&plan)?;

        title("retention-worker run --format json --policy-file deploy/policies/handbook.toml")?;
        let first = Report::read(&self.worker(&[&run, &with_the_file[..]].concat()).await?)?;
        say(&first)?;
        let after_first = handbook::compare(&mut conn).await?;
        let second = Report::read(&self.worker(&[&run, &with_the_file[..]].concat()).await?)?;
        let after_second = handbook::compare(&mut conn).await?;

        title("what went, moved and stayed, by SQL of the demo's own")?;
        Ok(handbook::judge(&plan, [&first, &second], [&after_first, &after_second]))
    }

    async fn play_the_session_job(&self, args: &Args) -> Result<Verdict> {
        let mut conn = PgConnection::connect(self.database.url()).await?;
        let began = Instant::now();
        let seeded = seed::fill(&mut conn, &shape(args)?, &ProgressBar::hidden()).await?;
        reference::add_odd_rows(&mut conn).await?;
        say(format_args!(
            "filled in {:.1} s, and some odd rows added by hand\n{seeded}",
            began.elapsed().as_secs_f64()
        ))?;
        let reference = Reference::work_out(&mut conn).await?;

        title("retention-worker plan")?;
        let plan = self.worker(&["plan"]).await?;
        say(plan.stdout.trim_end())?;
        let plan = Plan::read(&self.worker(&["plan", "--format", "json"]).await?)?;

        title("retention-worker run --format json")?;
        let first = Report::read(&self.worker(&["run", "--format", "json"]).await?)?;
        say(&first)?;
        let after_first = reference.compare(&mut conn).await?;
        let second = Report::read(&self.worker(&["run", "--format", "json"]).await?)?;
        let after_second = reference.compare(&mut conn).await?;

        title("what went and what stayed, by SQL of the demo's own")?;
        Ok(judge(&plan, [&first, &second], [&after_first, &after_second]))
    }

    /// The built worker, run to its end.
    async fn worker(&self, arguments: &[&str]) -> Result<Finished> {
        let worker = Worker::on(self.database.url())
            .set("SESSION_RETENTION_BATCH_SIZE", BATCH_SIZE)
            .set("SESSION_RETENTION_BATCH_PAUSE", "1ms");
        let finished = worker.finish(arguments).await?;
        let command = arguments.join(" ");
        ensure!(
            finished.code() == Some(0),
            "`{command}` ended with {}:\n{}",
            finished.status,
            finished.stderr
        );
        Ok(finished)
    }

    async fn clean_up(self) -> Result<()> {
        self.database.drop().await.context("dropping the demo's database")?;
        // Blocks until the server has stopped and its folder is gone.
        drop(self.server);
        Ok(())
    }
}

/// Chains short and long, forks, chains that somebody still uses, rows too young.
fn shape(args: &Args) -> Result<Shape> {
    let share = |percent| args.rows / 100 * percent;
    Ok(Shape {
        sicr_due: share(30),
        sicr_fresh: share(10),
        refresh_due: share(45),
        refresh_fresh: share(15),
        depths: "1:0.2,10:0.5,300:0.3".parse()?,
        forks: 0.2,
        active_share: 0.1,
        users: 500,
        seed: args.seed,
        ..Shape::default()
    })
}

/// Ends with why when the process is told to stop, so that everything made so far is dropped in good order.
pub async fn interrupted() -> anyhow::Error {
    let signals = signal(SignalKind::interrupt()).and_then(|int| Ok((int, signal(SignalKind::terminate())?)));
    match signals {
        Ok((mut interrupt, mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            anyhow!("interrupted; nothing is left behind")
        }
        Err(error) => anyhow::Error::new(error).context("listening for signals"),
    }
}

fn title(text: &str) -> Result<()> {
    say(format_args!("\n== {text}\n"))
}

fn say(text: impl Display) -> Result<()> {
    Ok(writeln!(stdout().lock(), "{text}")?)
}
