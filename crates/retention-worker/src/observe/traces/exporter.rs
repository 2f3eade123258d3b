//! The exporter as the queue sees it: each batch goes out on the runtime made for it, and failures are told now and
//! then, however often they come.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;
use tracing::{info, warn};

/// At most one line about failures in this time: a collector may be away for a night.
const TELL_AGAIN: Duration = Duration::from_secs(300);

/// Exports batches on a runtime of their own.
#[derive(Debug)]
pub(super) struct Exporter<E> {
    inner: Arc<E>,
    exporting: Handle,
    failures: Failures,
}

/// What went wrong so far, shared with whoever ends the export.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(Arc<Mutex<Tally>>);

#[derive(Debug, Default)]
struct Tally {
    told: Option<Instant>,
    /// Spans that were not delivered and are not told of yet.
    lost: usize,
    /// Whether the last thing told was a failure.
    failing: bool,
    /// Why the last attempt failed, where the client knows better than the exporter.
    cause: Option<String>,
    concluded: bool,
}

/// What there is to tell after an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Tell {
    Nothing,
    Lost(usize),
    Recovered,
}

impl<E> Exporter<E> {
    pub(super) fn new(inner: E, exporting: Handle, failures: Failures) -> Self {
        Self { inner: Arc::new(inner), exporting, failures }
    }
}

impl<E: SpanExporter + 'static> SpanExporter for Exporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (inner, spans) = (Arc::clone(&self.inner), batch.len());
        let sent = self.exporting.spawn(async move { inner.export(batch).await }).await;
        let result = sent.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
        self.failures.attempted(spans, &result);
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Set before the first batch: nobody else holds it yet.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.set_resource(resource);
        }
    }
}

impl Failures {
    fn attempted(&self, spans: usize, result: &OTelSdkResult) {
        let (told, cause) = {
            let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (tally.attempted(spans, result.is_err(), Instant::now()), tally.cause.take())
        };
        match (told, result) {
            (Tell::Lost(spans), Err(error)) => {
                warn!(spans, %error, cause, "traces are not delivered; the work goes on without them");
            }
            (Tell::Recovered, _) => info!("traces are delivered again"),
            _ => {}
        }
    }

    /// Why the attempt that is going on fails.
    pub(super) fn because(&self, cause: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cause = Some(cause);
    }

    /// Whether there were any.
    #[cfg(test)]
    pub(super) fn any(&self) -> bool {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.told.is_some() || tally.lost > 0
    }

    /// Says, when the process ends, whether everything was delivered.
    pub(super) fn conclude(&self, delivered: bool) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !delivered && !tally.failing {
            warn!("the last traces were not delivered in time");
        }
        tally.concluded = true;
    }
}

impl Tally {
    fn attempted(&mut self, spans: usize, failed: bool, now: Instant) -> Tell {
        if self.concluded {
            return Tell::Nothing;
        }
        if !failed {
            return if std::mem::take(&mut self.failing) { Tell::Recovered } else { Tell::Nothing };
        }
        self.lost += spans;
        if self.told.is_some_and(|told| now.duration_since(told) < TELL_AGAIN) {
            return Tell::Nothing;
        }
        (self.told, self.failing) = (Some(now), true);
        Tell::Lost(std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_at_once_then_now_and_then_with_all_that_was_lost() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        assert_eq!(tally.attempted(5, false, start), Tell::Nothing);
        assert_eq!(tally.attempted(7, true, start), Tell::Lost(7));
        for second in 1..300 {
            assert_eq!(tally.attempted(2, true, start + Duration::from_secs(second)), Tell::Nothing);
        }
        assert_eq!(tally.attempted(2, true, start + TELL_AGAIN), Tell::Lost(600));
        assert_eq!(tally.attempted(1, false, start + TELL_AGAIN), Tell::Recovered);
        assert_eq!(tally.attempted(1, false, start + TELL_AGAIN), Tell::Nothing);
    }

    #[test]
    fn a_collector_that_comes_and_goes_does_not_flood_the_log() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        assert_eq!(tally.attempted(1, true, start), Tell::Lost(1));
        let told = |second| tally.attempted(1, second % 2 == 0, start + Duration::from_secs(second));
        let told: Vec<Tell> = (1..20).map(told).filter(|told| *told != Tell::Nothing).collect();
        assert_eq!(told, [Tell::Recovered]);
    }

    #[test]
    fn nothing_is_told_once_the_process_ends() {
        let (failures, failed) = (Failures::default(), Err(OTelSdkError::AlreadyShutdown));
        failures.conclude(false);
        failures.attempted(1, &failed);
        assert_eq!(failures.0.lock().unwrap().told, None);
    }
}
