//! A network that misbehaves: a TCP proxy before a server that delays, freezes, loses and cuts connections.
//!
//! Knows bytes, not the protocol; the one thing it looks for is the beginning of transactions, so that a test can
//! act at that very moment.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How a transaction begins on the wire, as the text of a simple query.
const BEGIN: &[u8] = b"BEGIN ";

/// A proxy before one server, on a port of its own on loopback.
///
/// # Invariant
///
/// Its connections end when this is dropped.
pub struct Proxy {
    url: String,
    network: watch::Sender<Network>,
    begins: Arc<watch::Sender<u64>>,
    listening: JoinHandle<()>,
}

/// What the network does to connections, which are numbered as they come.
#[derive(Clone, Copy, Debug, Default)]
struct Network {
    frozen: bool,
    delay: Duration,
    connections: u64,
    /// Connections below this number are lost: nothing gets through any more, neither bytes nor the end.
    lost: u64,
    /// Connections below this number are cut.
    cut: u64,
}

impl Network {
    fn lets_through(&self, connection: u64) -> bool {
        !self.frozen && connection >= self.lost
    }
}

impl Proxy {
    /// A proxy before the server of this database address (host and port in figures).
    ///
    /// # Errors
    ///
    /// When there is no port to be had, or no such part in the address.
    pub async fn before(url: &str) -> Result<Self> {
        let (_, rest) = url.split_once('@').context("a URL with a user")?;
        let (server, _) = rest.split_once('/').context("a URL with a database")?;
        let server: SocketAddr = server.parse().context("a server known by number")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = url.replacen(&server.to_string(), &listener.local_addr()?.to_string(), 1);
        let (network, begins) = (watch::Sender::new(Network::default()), Arc::new(watch::Sender::new(0)));
        let listening = tokio::spawn(listen(listener, server, network.clone(), Arc::clone(&begins)));
        Ok(Self { url, network, begins, listening })
    }

    /// The address of the same database through the proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on connections are accepted and nothing gets through, on old and new ones.
    pub fn freeze(&self) {
        self.network.send_modify(|network| network.frozen = true);
    }

    /// Ends [`Proxy::freeze`]; what was held back gets through.
    pub fn thaw(&self) {
        self.network.send_modify(|network| network.frozen = false);
    }

    /// Nothing gets through on the present connections any more, and no side is told. New ones work.
    pub fn lose(&self) {
        self.network.send_modify(|network| network.lost = network.connections);
    }

    /// Cuts the present connections. New ones work.
    pub fn cut(&self) {
        self.network.send_modify(|network| network.cut = network.connections);
    }

    /// From now on all that is sent, either way, arrives this much later.
    pub fn delay(&self, delay: Duration) {
        self.network.send_modify(|network| network.delay = delay);
    }

    /// How many transactions were begun: counted when the beginning arrives here, before it is passed on.
    #[must_use]
    pub fn begins(&self) -> watch::Receiver<u64> {
        self.begins.subscribe()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(
    listener: TcpListener,
    server: SocketAddr,
    network: watch::Sender<Network>,
    begins: Arc<watch::Sender<u64>>,
) {
    // Aborts them all when this task is aborted.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let number = network.borrow().connections;
        network.send_modify(|network| network.connections += 1);
        let (mut cut, begins) = (network.subscribe(), Arc::clone(&begins));
        let network = network.subscribe();
        connections.spawn(async move {
            tokio::select! {
                _ = forward(client, server, number, network, &begins) => {}
                _ = cut.wait_for(|network| number < network.cut) => {}
            }
        });
    }
}

/// Passes bytes on in both directions, until one side has ended and the other knows.
async fn forward(
    client: TcpStream,
    server: SocketAddr,
    number: u64,
    mut network: watch::Receiver<Network>,
    begins: &watch::Sender<u64>,
) -> std::io::Result<()> {
    let _ = network.wait_for(|network| network.lets_through(number)).await;
    let server = TcpStream::connect(server).await?;
    // What a delay lets pile up must not be delayed further by the kernel.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let count = |sent: &[u8]| {
        if sent.windows(BEGIN.len()).any(|window| window == BEGIN) {
            begins.send_modify(|begins| *begins += 1);
        }
    };
    let there = pump(from_client, to_server, number, network.clone(), count);
    let back = pump(from_server, to_client, number, network, |_| {});
    tokio::try_join!(there, back)?;
    Ok(())
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut network: watch::Receiver<Network>,
    seen: impl Fn(&[u8]),
) -> std::io::Result<()> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        // A side that ended the hard way has ended.
        let length = from.read(&mut chunk).await.unwrap_or(0);
        seen(&chunk[..length]);
        let delay = network.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // The sender outlives the connections.
        let _ = network.wait_for(|network| network.lets_through(number)).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more than anything here takes.
    const DEADLINE: Duration = Duration::from_mins(1);

    /// A server that sends back what it gets, and the address of a database on it.
    async fn echo() -> Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("postgres://user@{}/database", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        Ok(url)
    }

    async fn connect(proxy: &Proxy) -> Result<TcpStream> {
        let (_, rest) = proxy.url().split_once('@').unwrap();
        Ok(TcpStream::connect(rest.split_once('/').unwrap().0).await?)
    }

    async fn exchange(stream: &mut TcpStream) -> Result<u8> {
        stream.write_all(b"BEGIN x").await?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await?;
        Ok(answer[6])
    }

    #[tokio::test]
    async fn freezes_thaws_loses_and_cuts() -> Result<()> {
        let proxy = Proxy::before(&echo().await?).await?;
        let mut stream = connect(&proxy).await?;
        assert_eq!(exchange(&mut stream).await?, b'x');
        assert_eq!(*proxy.begins().borrow(), 1);

        proxy.freeze();
        let mut begins = proxy.begins();
        stream.write_all(b"BEGIN y").await?;
        begins.wait_for(|begins| *begins == 2).await?;
        // It has arrived and goes no further, whoever is waited for.
        let mut other = connect(&proxy).await?;
        let held = tokio::time::timeout(Duration::from_millis(50), exchange(&mut other)).await;
        assert!(held.is_err(), "{held:?}");
        proxy.thaw();
        let mut answer = [0; 7];
        tokio::time::timeout(DEADLINE, stream.read_exact(&mut answer)).await??;
        assert_eq!(&answer, b"BEGIN y");

        proxy.lose();
        assert!(tokio::time::timeout(Duration::from_millis(50), exchange(&mut stream)).await.is_err());
        let mut fresh = connect(&proxy).await?;
        assert_eq!(exchange(&mut fresh).await?, b'x');
        proxy.cut();
        assert!(!matches!(tokio::time::timeout(DEADLINE, fresh.read(&mut answer)).await?, Ok(1..)));
        Ok(())
    }
}
