//! What may go, and how a run proceeds. Pure: no runtime, no SQL, no clock call, no logging.
//!
//! A [`RetentionPolicy`] says which rows of which table are due; [`run()`] drains all policies,
//! interleaved, through the ports in [`ports`]; a [`RunReport`] says what happened.

mod agenda;
pub mod batch;
pub mod calendar;
pub mod cutoff;
mod drain;
pub mod failure;
pub mod forest;
pub mod guard;
mod pace;
mod passes;
pub mod period;
pub mod plan;
pub mod policy;
pub mod ports;
pub mod positions;
pub mod report;
pub mod run;
mod slice;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use batch::{BatchDone, BatchRequest, RowAddress, Sample, Window, WindowMark, WindowRow};
pub use calendar::{NightWindow, Schedule};
pub use cutoff::Cutoff;
pub use failure::{Failure, FailureKind};
pub use period::RetentionPeriod;
pub use plan::{Preview, Target};
pub use policy::{PolicyName, RetentionPolicy, TableName};
pub use report::{Backlog, Outcome, PolicyReport, RunReport, StopReason};
pub use run::{RunLimits, RunRefused, RunRequest, run};
