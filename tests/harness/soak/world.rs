//! What everybody in a soak shares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::RwLock;

use super::figures::Figures;
use super::ledger::Ledger;

/// The shared state.
#[derive(Debug, Default)]
pub(super) struct World {
    /// What was written.
    pub ledger: Ledger,
    /// Held for reading during each operation of the service; held for writing, the ledger and the tables agree but
    /// for what workers delete.
    pub gate: RwLock<()>,
    seed: u64,
    figures: Mutex<Figures>,
    stopping: AtomicBool,
}

impl World {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Access for the length of a few additions; never held across an await.
    pub fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One operation of the service was done.
    pub fn operation(&self, kind: &'static str) {
        *self.figures().operations.entry(kind).or_default() += 1;
    }

    /// One fault was injected.
    pub fn fault(&self, kind: &'static str) {
        *self.figures().faults.entry(kind).or_default() += 1;
    }

    /// The service met an error.
    pub fn client_error(&self, who: &str, kind: &str, error: &sqlx::Error) {
        self.figures().client_error(format!("{who}, {kind}: {error}"));
    }

    /// A promise was broken.
    pub fn violation(&self, violation: String) {
        self.figures().violation(violation);
    }

    /// Asks the service to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether the service is asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Random numbers of one participant, which do not depend on what the others draw.
    pub fn rng(&self, participant: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(participant);
        rng
    }
}
