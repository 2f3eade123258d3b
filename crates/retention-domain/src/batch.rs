//! What is asked of the store for one batch, and what it answers.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// Where the store finds a row again: a hint, not an identity. The row there may have changed or be another by
/// the time it is used, so the store repeats the whole guard before it deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowAddress(pub u64);

/// How far a pass has come in the order (age, address): the next window starts strictly after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowMark {
    /// Age of the last row seen.
    pub age: DateTime<Utc>,
    /// Address of the last row seen; breaks ties between rows of one age.
    pub address: RowAddress,
}

/// Due rows that nothing refers to, oldest first: seeds for many batches, from one read-only scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Addresses in the order (age, address). Eight bytes a row, so that a million of them are cheap.
    pub rows: Vec<RowAddress>,
    /// Where the next window continues; `None` when this one reached the end.
    pub next: Option<WindowMark>,
}

/// One batch: one transaction, one deleting statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Leaves to start from.
    pub seeds: Vec<RowAddress>,
    /// Most rows the batch may delete, climbed ancestors included. At least 1.
    pub max_rows: u32,
    /// Bound of the deleting statement. At least one millisecond.
    pub limit: Duration,
}

/// What a committed batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchDone {
    /// Rows deleted and acknowledged by the commit.
    pub deleted: u64,
    /// Due rows passed over because somebody else holds them.
    pub held: u64,
    /// Rows that were locked and passed the guard, and yet are still there: row security, a vetoing trigger, or
    /// an update in between.
    pub stayed: Vec<RowAddress>,
    /// Due parents of deleted rows: leaves now, unless another child remains. Seeds of the next batch.
    pub frontier: Vec<RowAddress>,
}
