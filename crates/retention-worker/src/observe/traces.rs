//! Export of the runs' spans over OTLP. It has a thread, a runtime and a bounded queue of its own, so that it neither
//! slows nor blocks nor outlives the work. Which spans there are is [`super::events`]'s business.

mod client;
mod exporter;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider};
use tokio::runtime::{self, Runtime};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, layer::Filter};
use uuid::Uuid;

use self::exporter::{Exporter, Failures};
use crate::settings::TraceSettings;

/// The scope of the spans, and the beginning of the targets they have within the process.
const SCOPE: &str = env!("CARGO_CRATE_NAME");

/// How long the last spans may take when the work is done. All that follows must fit into 5 seconds with it.
const LAST_EXPORT: Duration = Duration::from_secs(3);

/// The export of traces.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    failures: Failures,
    /// Where requests are made: independent of the work's own runtime, however few threads that has.
    exporting: Runtime,
}

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// There is no thread for it.
    #[error("starting the export of traces")]
    Runtime(#[source] std::io::Error),
    /// The system's certificates cannot be read, and the collector is to be reached by TLS.
    #[error("reading the system's certificates for {endpoint}")]
    Certificates {
        /// The collector.
        endpoint: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A variable that the exporter reads itself is not understood.
    #[error("exporting traces to {endpoint}")]
    Exporter {
        /// The collector.
        endpoint: String,
        /// Why not.
        source: ExporterBuildError,
    },
}

impl Traces {
    /// Makes everything ready. Connects when there is something to export, and not before.
    ///
    /// # Errors
    /// [`TracesError`]; the work can be done all the same.
    pub fn start(settings: &TraceSettings) -> Result<Self, TracesError> {
        let exporting = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("trace-export")
            .enable_all()
            .build()
            .map_err(TracesError::Runtime)?;
        let failures = Failures::default();
        let exporter = {
            // The client for gRPC starts a task when it is built.
            let _inside = exporting.enter();
            client::new(settings, &failures)?
        };
        let exporter = Exporter::new(exporter, exporting.handle().clone(), failures.clone());
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(settings))
            .with_span_processor(BatchSpanProcessor::builder(exporter).build())
            .build();
        Ok(Self { provider, failures, exporting })
    }

    /// Takes the spans of runs, and nothing else: not what libraries open (exporting among them), and no log lines.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(spans_of_runs())
    }

    /// Exports what is left, for three seconds at most. The work is over.
    pub fn finish(self) {
        let delivered = self.provider.shutdown_with_timeout(LAST_EXPORT);
        // From here on, what is in flight is given up: nothing new to tell.
        self.failures.conclude(delivered.is_ok());
        self.exporting.shutdown_background();
    }
}

fn spans_of_runs<S>() -> impl Filter<S> {
    filter_fn(|metadata: &Metadata<'_>| metadata.is_span() && metadata.target().starts_with(SCOPE))
}

/// What the traces say about this process. The last value of a name counts.
fn resource(settings: &TraceSettings) -> Resource {
    let given = settings.attributes.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", Uuid::new_v4().to_string()),
    ];
    Resource::builder().with_attributes(own.into_iter().chain(given)).build()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::settings::TraceProtocol;

    /// A collector on a thread of its own that answers once, and what it was sent.
    fn collector() -> (String, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let received = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
            while !received.windows(6).any(|bytes| bytes == b"of_run") {
                let length = stream.read(&mut chunk).unwrap();
                received.extend_from_slice(&chunk[..length]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            received
        });
        (endpoint, received)
    }

    /// The end blocks the only thread there is, and the last spans go out all the same.
    #[tokio::test(flavor = "current_thread")]
    async fn the_last_spans_need_no_thread_of_the_work() {
        let (endpoint, received) = collector();
        let attributes = vec![("service.name".to_owned(), "test".to_owned())];
        let traces =
            Traces::start(&TraceSettings { endpoint, protocol: TraceProtocol::Http, attributes }).unwrap();
        let failures = traces.failures.clone();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(traces.layer()), || {
            tracing::info_span!("of_run").in_scope(|| tracing::info!("a line, not a span"));
            tracing::info_span!(target: "h2::client", "of_export").in_scope(|| {});
        });
        traces.finish();
        let received = String::from_utf8_lossy(&received.join().unwrap()).into_owned();
        assert!(received.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{received}");
        assert!(!received.contains("of_export") && !received.contains("a line"), "{received}");
        assert!(!failures.any());
    }
}
