//! How rows go: SQL built from a policy, executed on PostgreSQL 15 to 18.
//!
//! This crate never decides which rows may go (`retention-domain` does) and never runs DDL or VACUUM.

mod address;
mod batch;
mod catalogue;
mod connect;
mod destination;
pub mod entities;
mod error;
mod preflight;
mod session;
pub mod sql;
mod store;
mod window;

pub use connect::{APPLICATION_NAME, Database};
pub use error::{classify_sqlstate, failure};
pub use preflight::{Finding, Level};
pub use store::PgRetentionStore;
