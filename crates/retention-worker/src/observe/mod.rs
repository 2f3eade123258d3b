//! What is told about the worker's doings: log lines, metrics, spans, HTTP.
//!
//! What happens is a [`retention_domain::ports::RunEvent`]; [`events::Observer`] alone turns it into lines, spans
//! and numbers. Nothing here decides when a run starts or what goes.

mod audit;
pub mod events;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod health;
pub mod http;
mod in_flight;
mod lines;
pub mod logging;
pub mod metric_page;
pub mod metric_table;
pub mod metrics;
mod policy_hash;
mod register;
pub mod status;
mod textfile;
pub mod traces;

pub use events::Observer;
pub use health::{Health, Readiness};
pub use metrics::Metrics;
pub use status::Status;
pub use textfile::TextfileError;
pub use traces::Traces;
