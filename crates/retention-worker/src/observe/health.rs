//! Whether the worker lives and whether it could work: what the probes are told. Asks nobody; others report here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared between the scheduler, who reports, and HTTP, which answers.
#[derive(Debug)]
pub struct Health {
    alive: AtomicBool,
    readiness: Mutex<Readiness>,
}

/// Whether the database can be worked with, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nobody has asked the database yet.
    NotAsked,
    /// It answered last time it was asked.
    Ready,
    /// It did not answer, or refused us, last time it was asked.
    NoDatabase,
    /// It answered, and the preflight found errors.
    PreflightErrors,
}

/// Alive while this exists, however it ends: return, panic or abort of the task that holds it.
#[derive(Debug)]
#[must_use = "the loop counts as dead once this is dropped"]
pub struct Heartbeat(Arc<Health>);

impl Health {
    /// Not alive and not asked yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { alive: AtomicBool::new(false), readiness: Mutex::new(Readiness::NotAsked) })
    }

    /// To be held by the task that runs the scheduler's loop, from its first line to its last.
    pub fn heartbeat(self: &Arc<Self>) -> Heartbeat {
        self.alive.store(true, Ordering::Release);
        Heartbeat(Arc::clone(self))
    }

    /// Whether the scheduler's loop runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The database was asked, or looked at by the preflight.
    pub fn report(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner) = readiness;
    }

    /// What was last reported.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.alive.store(false, Ordering::Release);
    }
}

impl Readiness {
    /// One line for whoever probes. Fixed words: an error's text could name hosts and users, and the port is open.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "the database has not been asked yet",
            Self::Ready => "ready",
            Self::NoDatabase => "the database did not answer last time it was asked",
            Self::PreflightErrors => "the preflight found errors",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_dead_before_it_starts_and_however_it_ends() {
        let health = Health::new();
        assert!(!health.is_alive());
        let (beating, shared) = (health.heartbeat(), Arc::clone(&health));
        assert!(health.is_alive());
        std::thread::spawn(move || {
            let _beating = beating;
            assert!(!shared.is_alive(), "the loop panics here, on purpose");
        })
        .join()
        .unwrap_err();
        assert!(!health.is_alive());
    }

    #[tokio::test]
    async fn a_loop_whose_task_is_aborted_is_dead() {
        let health = Health::new();
        let beating = health.heartbeat();
        let task = tokio::spawn(async move {
            let _beating = beating;
            std::future::pending::<()>().await;
        });
        assert!(health.is_alive());
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!health.is_alive());
    }

    #[test]
    fn the_last_report_counts() {
        let health = Health::new();
        assert_eq!(health.readiness(), Readiness::NotAsked);
        health.report(Readiness::Ready);
        health.report(Readiness::NoDatabase);
        assert_eq!(health.readiness(), Readiness::NoDatabase);
    }
}
