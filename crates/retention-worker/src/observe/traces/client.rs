//! How spans get to the collector: over HTTP or gRPC, with TLS where the endpoint asks for it. Connects when there is
//! something to send.

use std::pin::Pin;
use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _, WithTonicConfig as _,
};

use super::TracesError;
use super::exporter::Failures;
use crate::commands::chain;
use crate::settings::{TraceProtocol, TraceSettings};

/// How long one export may take, its retries included. More would only fill the queue.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for the collector of the settings, which tells `failures` why it could not deliver.
pub(super) fn new(settings: &TraceSettings, failures: &Failures) -> Result<SpanExporter, TracesError> {
    let endpoint = settings.endpoint.as_str();
    let is_tls = endpoint.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let exporter = match settings.protocol {
        TraceProtocol::Grpc => {
            let mut builder =
                SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT);
            if is_tls {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
            }
            builder.build()
        }
        TraceProtocol::Http if is_tls => {
            let connector = HttpsConnectorBuilder::new()
                .with_native_roots()
                .map_err(|source| TracesError::Certificates { endpoint: endpoint.to_owned(), source })?
                .https_only()
                .enable_http1()
                .build();
            over_http(endpoint, HyperClient::new(connector, EXPORT_TIMEOUT, None), failures)
        }
        TraceProtocol::Http => {
            over_http(endpoint, HyperClient::with_default_connector(EXPORT_TIMEOUT, None), failures)
        }
    };
    exporter.map_err(|source| TracesError::Exporter { endpoint: endpoint.to_owned(), source })
}

fn over_http(
    endpoint: &str,
    inner: impl HttpClient + 'static,
    failures: &Failures,
) -> Result<SpanExporter, ExporterBuildError> {
    SpanExporter::builder()
        .with_http()
        .with_endpoint(endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .with_http_client(Remembering { inner, failures: failures.clone() })
        .build()
}

/// Remembers why it failed: the exporter itself says "network error" of everything.
#[derive(Debug)]
struct Remembering<C> {
    inner: C,
    failures: Failures,
}

impl<C: HttpClient> HttpClient for Remembering<C> {
    fn send_bytes<'a, 'sending>(&'a self, request: Request<Bytes>) -> Sending<'sending>
    where
        'a: 'sending,
        Self: 'sending,
    {
        Box::pin(async move {
            let sent = self.inner.send_bytes(request).await;
            match &sent {
                Err(error) => self.failures.because(chain(error.as_ref())),
                Ok(response) if !response.status().is_success() => {
                    self.failures.because(format!("the collector answered {}", response.status()));
                }
                Ok(_) => {}
            }
            sent
        })
    }
}

/// What the trait's macro makes of an async function.
type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;
