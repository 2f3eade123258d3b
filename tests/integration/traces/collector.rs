//! Collectors of traces: real ones that keep what they decode, and one that accepts and never answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

type Kept = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Where a collector over HTTP wants to see who is exporting.
const AUTHORIZATION: &str = "authorization";

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }
}

/// A collector on the loopback, gone when this is dropped.
pub struct Collector {
    address: SocketAddr,
    kept: Kept,
    connections: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

struct Keeper(Kept);

impl Collector {
    /// One that answers.
    pub async fn start(protocol: Protocol) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let kept = Kept::default();
        let task = match protocol {
            Protocol::Http => {
                let router = Router::new()
                    .route("/v1/traces", post(keep))
                    .route("/behind/a/key", post(keep_if_authorized))
                    .with_state(Arc::clone(&kept));
                tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
            }
            Protocol::Grpc => {
                let service = TraceServiceServer::new(Keeper(Arc::clone(&kept)));
                let server = Server::builder().add_service(service);
                tokio::spawn(async move {
                    server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
                })
            }
        };
        Ok(Self { address, kept, connections: watch::channel(0).1, task })
    }

    /// One that accepts whoever comes, reads nothing and answers nothing.
    pub async fn silent() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, connections) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
                sender.send_replace(held.len());
            }
        });
        Ok(Self { address, kept: Kept::default(), connections, task })
    }

    /// Waits until somebody has connected to a silent one.
    pub async fn connected(&mut self) -> Result<()> {
        self.connections.wait_for(|connections| *connections > 0).await?;
        Ok(())
    }

    /// Its base address.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything it was sent so far.
    pub fn received(&self) -> Vec<ExportTraceServiceRequest> {
        self.kept.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(State(kept): State<Kept>, body: Bytes) -> Result<Vec<u8>, StatusCode> {
    let request = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    kept.lock().unwrap().push(request);
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

/// Takes traces from whoever knows the key `sesame`.
async fn keep_if_authorized(
    kept: State<Kept>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, StatusCode> {
    let is_known = headers.get(AUTHORIZATION).is_some_and(|value| value == "Bearer sesame");
    if is_known { keep(kept, body).await } else { Err(StatusCode::UNAUTHORIZED) }
}

#[tonic::async_trait]
impl TraceService for Keeper {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
