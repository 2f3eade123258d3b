//! Small real fakes for everyone's fast tests: a store that applies the rule to rows in memory, a clock moved by
//! hand, a stop switch, a recording observer. What they cannot show: SQL, locks, time-outs, other sessions.

mod doubles;
mod memory;
mod reference;

pub use doubles::{ManualClock, RecordingObserver, StopSwitch};
pub use memory::{MemoryRow, MemoryStore};
pub use reference::{Fate, fates};
