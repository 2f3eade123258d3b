//! A real PostgreSQL for whoever needs one: the integration tests and the developer commands.
//!
//! Owns finding or starting a server, the databases made in it, and running the workspace's binaries as
//! processes. Leaves nothing behind, however the process ends. Knows nothing of what is tested.

mod binary;
mod browser;
mod cluster;
mod container;
mod database;
mod environment;
mod http;
mod installation;
mod job;
mod lifeline;
mod own_cluster;
mod pgbouncer;
mod process;
mod prometheus;
mod proxy;
pub mod reference;
mod role;
mod rows;
mod server;
mod server_url;
mod soak;
mod watch;
mod worker;

#[cfg(feature = "embedded")]
mod download;

pub use binary::{binary, release_binary};
pub use browser::{Browser, Look};
pub use database::TestDatabase;
pub use environment::Environment;
pub use http::get;
pub use job::{Job, Stop};
pub use own_cluster::OwnCluster;
pub use pgbouncer::PgBouncer;
pub use process::{Finished, Process};
pub use prometheus::Prometheus;
pub use proxy::Proxy;
pub use role::Role;
pub use rows::{PERSONAL, Rows, StoredRow, shape};
pub use server::{Durability, Server, server};
pub use soak::{Figures, Soak, Stage};
pub use watch::Watch;
pub use worker::Worker;
