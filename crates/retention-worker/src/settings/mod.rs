//! Settings from the environment: read as text, checked all together, then typed for good.
//!
//! The environment is an argument here; only `main` passes the real one. [`table`] is the one list of settings, and
//! whatever documents them is generated from it.

pub mod docs;
mod fault;
mod parse;
mod raw;
mod secret;
pub mod table;
#[cfg(test)]
mod tests;
mod traces;
mod valid;

pub use fault::{Fault, Faults};
pub use secret::DatabaseUrl;
pub use traces::{TraceProtocol, TraceSettings};
pub use valid::{Resolved, Settings};
