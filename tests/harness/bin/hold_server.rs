//! Starts a server and a process and comes to the end it is told: for the tests of what is left behind.
//!
//! `hold-server <return|panic|wait> <file>`: writes a line `starting` to stderr, later one with the server's address
//! and folder. The process keeps `file` open for writing as long as it lives.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Process, server};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, end, file] = arguments.as_slice() else {
        anyhow::bail!("usage: hold-server <return|panic|wait> <file>, not {arguments:?}");
    };
    eprintln!("starting");
    // As in a test process the server is a static, which is never dropped.
    let server = server().await?;
    let script = "exec 9>\"$0\"; echo open >&2; exec sleep 600";
    let mut process = Process::spawn(Path::new("/bin/sh"), ["-c", script, file], [])?;
    process.wait_for_line(|line| line == "open", Duration::from_secs(10)).await?;
    let folder = server.folder().context("not a cluster of our own")?;
    eprintln!("holding {} {}", server.maintenance_url(), folder.display());
    match end.as_str() {
        "return" => Ok(()),
        "panic" => panic!("as told"),
        _ => loop {
            thread::park();
        },
    }
}
