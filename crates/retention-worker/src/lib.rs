//! When the work happens, and what is told about it: settings, command line, scheduler, shutdown,
//! observability. A library plus a thin `main`, so that everything can be tested without a process.

pub mod app;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod observe;
pub mod policies;
pub mod policy_file;
pub mod render;
pub mod scheduler;
pub mod settings;
pub mod shutdown;
