//! When runs may start: the night window and the slots in it. A pure calendar: it is asked about instants and
//! never reads a clock, waits, or looks at a time zone. Everything is UTC.

#[cfg(test)]
mod definition;
mod night_window;
mod schedule;

pub use night_window::{Hours, NightWindow, NightWindowError};
pub use schedule::{Schedule, ScheduleError};
