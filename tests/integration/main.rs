//! Everything that takes a real PostgreSQL or a process of ours.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod boundaries;
mod check;
mod command_line;
mod concurrency;
mod connections;
mod deadlock;
mod declared;
mod deploy;
mod dispositions;
mod faults;
mod handbook;
mod held;
mod keys;
mod leaf_rule;
mod migrations;
mod model;
mod partitioned;
mod plans;
mod process;
mod serve;
mod server;
mod shapes;
mod signals;
mod slow;
mod soak;
mod spec;
mod status_page;
mod store_contract;
mod stores;
mod traces;
