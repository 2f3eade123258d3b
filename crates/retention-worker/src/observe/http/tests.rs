//! The routes and the limits, over real connections on the loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rstest::rstest;
use tokio::task::{JoinHandle, spawn_blocking};

use super::*;
use crate::observe::fixtures::{self, INTERVAL};

/// A limit that no test reaches.
const PATIENT: Duration = Duration::from_secs(600);

/// After this long a test gives up: something hangs that should not.
const DEADLINE: Duration = Duration::from_secs(20);

struct Server {
    addr: SocketAddr,
    health: Arc<Health>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(limits: Limits) -> Server {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (health, shutdown) = (Health::new(), CancellationToken::new());
    let metrics = Arc::new(Metrics::new(&fixtures::policies(), INTERVAL));
    let state = HttpState { metrics, health: Arc::clone(&health), status: Arc::new(fixtures::status()) };
    let task = tokio::spawn(serve_within(limits, listener, state, shutdown.clone()));
    Server { addr, health, shutdown, task }
}

/// Sends bytes and reads until the server closes.
async fn exchange(addr: SocketAddr, bytes: Vec<u8>) -> String {
    spawn_blocking(move || {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        // The server may close before it has read everything: a reset ends the answer like a close.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    })
    .await
    .unwrap()
}

async fn ask(server: &Server, method: &str, path: &str) -> String {
    exchange(server.addr, format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()).await
}

#[rstest]
#[case("GET", "/metrics", "HTTP/1.1 200 ")]
#[case("HEAD", "/metrics", "HTTP/1.1 200 ")]
#[case("POST", "/metrics", "HTTP/1.1 405 ")]
#[case("GET", "/", "HTTP/1.1 200 ")]
#[case("HEAD", "/", "HTTP/1.1 200 ")]
#[case("POST", "/", "HTTP/1.1 405 ")]
#[case("DELETE", "/status.json", "HTTP/1.1 405 ")]
#[case("GET", "/status.json", "HTTP/1.1 200 ")]
#[case("HEAD", "/status.json", "HTTP/1.1 200 ")]
#[case("GET", "/run", "HTTP/1.1 404 ")]
#[case("POST", "/run", "HTTP/1.1 404 ")]
#[case("GET", "/metrics/", "HTTP/1.1 404 ")]
#[case("GET", "/healthz", "HTTP/1.1 503 ")]
#[case("GET", "/readyz", "HTTP/1.1 503 ")]
#[tokio::test]
async fn each_path_has_its_status(#[case] method: &str, #[case] path: &str, #[case] status: &str) {
    let server = start(LIMITS).await;
    let answer = ask(&server, method, path).await;
    assert!(answer.starts_with(status), "{answer}");
}

/// What a header of an answer says.
fn header_of<'a>(answer: &'a str, name: &str) -> &'a str {
    let head = answer.split("\r\n\r\n").next().unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

#[tokio::test]
async fn the_page_forbids_all_but_its_own_style() {
    let server = start(LIMITS).await;
    let answer = ask(&server, "GET", "/").await;
    let policy = header_of(&answer, "content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'nonce-"), "{policy}");
    let nonce = policy.split("nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(answer.contains(&format!("<style nonce=\"{nonce}\">")), "{answer}");
    assert!(!ask(&server, "GET", "/").await.contains(nonce), "each answer has its own");
    assert_eq!(header_of(&answer, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header_of(&answer, "x-content-type-options"), "nosniff");
    for told in ["http://", "https://", "<script", "url(", "@import", "<form"] {
        assert!(!answer.contains(told), "{told}");
    }
}

#[tokio::test]
async fn a_head_has_the_headers_and_no_body() {
    let server = start(LIMITS).await;
    let answer = ask(&server, "HEAD", "/").await;
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(header_of(&answer, "content-length").parse::<usize>().unwrap() > 1000);
}

#[tokio::test]
async fn the_data_is_json() {
    let server = start(LIMITS).await;
    let answer = ask(&server, "GET", "/status.json").await;
    assert_eq!(header_of(&answer, "content-type"), "application/json");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let view: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(view["verdict"], "not_known_yet");
}

#[tokio::test]
async fn a_body_is_not_read() {
    let server = start(Limits { exchange: PATIENT, after_shutdown: PATIENT }).await;
    // Announced and never sent: whoever waited for it would wait for ever.
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n";
    assert!(exchange(server.addr, request.into()).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_come_in_the_text_format_of_prometheus() {
    let server = start(LIMITS).await;
    let answer = ask(&server, "GET", "/metrics").await;
    assert!(answer.contains("\r\ncontent-type: text/plain; version=0.0.4\r\n"), "{answer}");
    assert!(answer.contains("\nidentity_session_retention_sicr_deleted_total 0\n"), "{answer}");
}

#[tokio::test]
async fn liveness_follows_the_loop_and_readiness_the_database() {
    let server = start(LIMITS).await;
    server.health.report(Readiness::NoDatabase);
    let beating = server.health.heartbeat();
    assert!(ask(&server, "GET", "/healthz").await.starts_with("HTTP/1.1 200 "));
    let unready = ask(&server, "GET", "/readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503 "), "{unready}");
    assert!(unready.ends_with("\r\n\r\nthe database did not answer last time it was asked\n"), "{unready}");
    server.health.report(Readiness::Ready);
    drop(beating);
    assert!(ask(&server, "GET", "/readyz").await.starts_with("HTTP/1.1 200 "));
    assert!(ask(&server, "GET", "/healthz").await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_to_be() {
    let server = start(LIMITS).await;
    let error = bind(server.addr).await.unwrap_err();
    let expected = format!("SESSION_RETENTION_HTTP_ADDR={}: the port is already taken", server.addr);
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_refused_and_named() {
    let error = bind("192.0.2.1:9464".parse().unwrap()).await.unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("SESSION_RETENTION_HTTP_ADDR=192.0.2.1:9464: cannot listen there"), "{error}");
}

#[tokio::test]
async fn a_peer_that_stalls_within_its_head_is_let_go() {
    let server = start(Limits { exchange: Duration::from_millis(20), after_shutdown: PATIENT }).await;
    assert_eq!(exchange(server.addr, b"GET /metrics HTTP/1.1\r\nHost:".to_vec()).await, "");
}

#[tokio::test]
async fn a_head_beyond_the_bound_is_refused() {
    let server = start(Limits { exchange: PATIENT, after_shutdown: PATIENT }).await;
    let head = format!("GET /metrics HTTP/1.1\r\nx: {}", "x".repeat(MAX_HEAD_BYTES));
    let answer = exchange(server.addr, head.into_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn peers_beyond_the_most_wait_until_another_is_let_go() {
    let exchange = Duration::from_millis(200);
    let server = start(Limits { exchange, after_shutdown: PATIENT }).await;
    let stalled: Vec<_> = (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(server.addr).unwrap()).collect();
    assert!(ask(&server, "GET", "/readyz").await.starts_with("HTTP/1.1 503 "));
    let let_go = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    };
    assert!(stalled.iter().any(let_go));
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_peer_that_stalls() {
    let server = start(Limits { exchange: PATIENT, after_shutdown: Duration::from_millis(20) }).await;
    let _stalled = TcpStream::connect(server.addr).unwrap();
    // Answered after the stalled one was accepted: the queue is in order.
    ask(&server, "GET", "/healthz").await;
    server.shutdown.cancel();
    timeout(DEADLINE, server.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.addr).is_err());
}
