//! The workers of a soak: real processes, half of them `serve`, half of them one `run` after the other, started
//! again whenever they end.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::tally::Tally;
use super::world::World;
use crate::{Finished, Process, Worker};

/// Rows of the largest batch of any worker.
pub(super) const LARGEST_BATCH: u64 = 500;
/// Rows per batch, batches at a time, patience with locks, pause: one worker each, then all over again.
const SETTINGS: [(u64, u64, &str, &str); 4] = [
    (LARGEST_BATCH, 1, "100ms", "0s"),
    (20, 2, "2s", "0s"),
    (100, 1, "10ms", "2ms"),
    (250, 2, "500ms", "1ms"),
];
/// Between two runs of a worker that makes one run at a time.
const BETWEEN_RUNS: Duration = Duration::from_millis(200);
/// Far more than a worker takes to end when it is told to.
const DEADLINE: Duration = Duration::from_mins(2);

/// What is done to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP, and after a while SIGCONT.
    Pause(Duration),
    /// SIGTERM, and it is not started again.
    Retire,
}

/// Running workers.
pub(super) struct Fleet {
    orders: Vec<mpsc::Sender<Order>>,
    posts: JoinSet<Result<Account>>,
}

/// What workers have deleted by their own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Rows of the batches that were logged.
    pub reported: u64,
    /// Rows of the batches that may have been in flight when a process was killed.
    pub unaccounted: u64,
}

/// One place in the fleet.
struct Post {
    world: Arc<World>,
    number: usize,
    worker: Worker,
    serves: bool,
    /// Rows in flight at most.
    in_flight: u64,
    /// Nothing is done to it that excuses a failure.
    calm: bool,
    account: Account,
}

impl Fleet {
    /// Starts `workers` on the database of `url`. With `calm`, none of their runs may fail.
    pub fn start(world: &Arc<World>, url: &str, workers: usize, calm: bool) -> Self {
        let mut fleet = Self { orders: Vec::new(), posts: JoinSet::new() };
        for (number, (batch, lanes, patience, pause)) in (0..workers).zip(SETTINGS.into_iter().cycle()) {
            let worker = Worker::on(url)
                .set("SESSION_RETENTION_BATCH_SIZE", batch.to_string())
                .set("SESSION_RETENTION_CONCURRENCY", lanes.to_string())
                .set("SESSION_RETENTION_LOCK_TIMEOUT", patience)
                .set("SESSION_RETENTION_BATCH_PAUSE", pause)
                .set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always")
                .set("SESSION_RETENTION_INTERVAL", "1s")
                // Every batch is told, however many there are.
                .set("RUST_LOG", "retention_worker=debug");
            let (sender, orders) = mpsc::channel(1);
            let post = Post {
                world: Arc::clone(world),
                number,
                worker,
                serves: number % 2 == 0,
                in_flight: batch * lanes,
                calm,
                account: Account::default(),
            };
            fleet.orders.push(sender);
            fleet.posts.spawn(post.man(orders));
        }
        fleet
    }

    /// How many workers there are.
    pub fn size(&self) -> usize {
        self.orders.len()
    }

    /// Has something done to a worker; waits while the one before is still being done.
    pub async fn order(&self, worker: usize, order: Order) {
        // One that is gone has ended with an error, which the end of the fleet tells.
        let _ = self.orders[worker].send(order).await;
    }

    /// Ends all of them in good order.
    pub async fn retire(mut self) -> Result<Account> {
        for worker in 0..self.size() {
            self.order(worker, Order::Retire).await;
        }
        let mut sum = Account::default();
        while let Some(account) = self.posts.join_next().await {
            let account = account??;
            sum.reported += account.reported;
            sum.unaccounted += account.unaccounted;
        }
        Ok(sum)
    }
}

impl Post {
    async fn man(mut self, mut orders: mpsc::Receiver<Order>) -> Result<Account> {
        let arguments: &[&str] = if self.serves { &["serve"] } else { &["run", "--format", "json"] };
        loop {
            let mut process = self.worker.spawn(arguments).await?;
            let (order, finished) = self.attend(&mut process, &mut orders).await?;
            self.judge(order, &finished);
            match order {
                Some(Order::Retire) => return Ok(self.account),
                Some(_) => {}
                None => sleep(BETWEEN_RUNS).await,
            }
        }
    }

    /// Carries orders out until the process has ended, by itself or by the order returned.
    async fn attend(
        &mut self,
        process: &mut Process,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Result<(Option<Order>, Finished)> {
        loop {
            let order = tokio::select! {
                finished = process.wait(Duration::MAX) => return Ok((None, finished?)),
                order = orders.recv() => order.context("the fleet is gone")?,
            };
            let (signal, fault) = match order {
                Order::Kill => (Signal::SIGKILL, "kill -9"),
                Order::Terminate => (Signal::SIGTERM, "SIGTERM"),
                Order::Pause(_) => (Signal::SIGSTOP, "SIGSTOP and SIGCONT"),
                Order::Retire => (Signal::SIGTERM, "SIGTERM at the end of a stage"),
            };
            // One that makes a single run may just have ended by itself.
            if process.signal(signal).is_ok() {
                self.world.fault(fault);
            }
            match order {
                Order::Pause(duration) => {
                    sleep(duration).await;
                    let _ = process.signal(Signal::SIGCONT);
                }
                Order::Kill | Order::Terminate | Order::Retire => {
                    return Ok((Some(order), process.wait(DEADLINE).await?));
                }
            }
        }
    }

    fn judge(&mut self, order: Option<Order>, finished: &Finished) {
        let tally = Tally::of(&finished.stderr);
        self.account.reported += tally.deleted;
        if order == Some(Order::Kill) {
            self.account.unaccounted += self.in_flight;
        }
        let started = finished.stderr.contains(r#""message":"job started""#);
        let is_right = match (order, finished.code(), finished.status.signal()) {
            (_, Some(0), _) => order.is_some() || !self.serves,
            (Some(Order::Kill), _, Some(9)) => true,
            // It was told so early that it had not begun to listen.
            (Some(Order::Terminate | Order::Retire), _, Some(15)) => !started,
            (_, Some(1 | 3), _) => !self.calm && !self.serves,
            _ => false,
        };
        let mut figures = self.world.figures();
        for (reason, runs) in tally.runs {
            *figures.runs.entry(reason).or_default() += runs;
        }
        figures.attempts_failed += tally.attempts_failed;
        if !is_right {
            let what = format!("worker {}, after {order:?}, ended with {}", self.number, finished.status);
            figures.violation(format!("{what}:\n{}", finished.stderr));
        }
        let excused = |run: &String| !self.calm && !run.contains("SQLSTATE 23");
        for broken in tally.faults.into_iter().chain(tally.failed.into_iter().filter(|run| !excused(run))) {
            figures.violation(format!("worker {}: {broken}", self.number));
        }
    }
}
