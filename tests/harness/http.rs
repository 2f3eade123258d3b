//! The least of HTTP that a test needs to ask a server of this machine.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Status and body of one GET. `target` is path and query, already encoded.
///
/// # Errors
///
/// When there is no connection, or no answer in HTTP.
pub async fn get(address: SocketAddr, target: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    // With 1.0 the end of the body is the end of the connection, never a chunk.
    stream.write_all(format!("GET {target} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let status = head.split(' ').nth(1).context("an answer without a status")?.parse()?;
    Ok((status, body.to_owned()))
}
