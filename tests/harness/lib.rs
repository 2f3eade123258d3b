//! A real PostgreSQL for whoever needs one: the integration tests and the developer commands.
//!
//! Owns finding or starting a server, the databases made in it, and running the workspace's binaries as
//! processes. Leaves nothing behind, however the process ends. Knows nothing of what is tested.

mod binary;
mod cluster;
mod container;
mod database;
mod environment;
mod installation;
mod lifeline;
mod process;
mod server;
mod server_url;

#[cfg(feature = "embedded")]
mod download;

pub use binary::binary;
pub use database::TestDatabase;
pub use environment::Environment;
pub use process::{Finished, Process};
pub use server::{Durability, Server, server};
