//! Being told to stop: the first signal ends the work between batches, the end of the grace period or a second
//! signal cancels the batch in flight.

use std::io;
use std::time::Duration;

use retention_domain::ports::StopSignal;
use retention_postgres::PgRetentionStore;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// After a batch was cancelled, its server has this long to say so before its connection is dropped.
const LAST_WORD: Duration = Duration::from_secs(2);

/// How soon scans are looked for again.
const SCANS_AGAIN: Duration = Duration::from_millis(200);

/// The state of being told to stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: CancellationToken,
}

impl Shutdown {
    /// Cancelled by the first signal.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.requested.clone()
    }

    /// Listens for SIGTERM and SIGINT from now on, and ends what the store has in flight: scans at once, batches
    /// after `grace` or at the second signal, and what then still does not answer a moment later.
    ///
    /// # Errors
    /// When the signals cannot be listened for.
    pub fn listen(&self, store: &PgRetentionStore, grace: Duration) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (requested, store) = (self.token(), store.clone());
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            tracing::info!("stopping after the batch in flight");
            requested.cancel();
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = either(&mut terminate, &mut interrupt) => {}
                // Again and again: a scan may only be about to start.
                () = cancel_scans(&store) => {}
            }
            tracing::warn!("cancelling the batch in flight");
            store.cancel_batches().await;
            tokio::time::sleep(LAST_WORD).await;
            store.abandon();
        });
        Ok(())
    }
}

impl StopSignal for Shutdown {
    fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }
}

async fn cancel_scans(store: &PgRetentionStore) {
    loop {
        store.cancel_scans().await;
        tokio::time::sleep(SCANS_AGAIN).await;
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
