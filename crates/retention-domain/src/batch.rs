//! What is asked of the store for one batch, and what it answers.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// Where the store finds a row again: a hint, not an identity. The row there may have changed or be another by
/// the time it is used, so the store repeats the whole guard before it deletes.
///
/// # Invariant
/// Below 2^62: the upper bits are free for [`WindowRow`].
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

/// A due row, and what is known of its relatives. Sixteen bytes, so that a million of them are cheap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WindowRow {
    /// The row.
    pub address: RowAddress,
    /// The parent's address, [`NO_PARENT`] for none, with [`HELD_BACK`] as a flag.
    packed: u64,
}

const NO_PARENT: u64 = 1 << 62;
const HELD_BACK: u64 = 1 << 63;

/// Due rows, oldest first, from one read-only scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Rows in the order (age, address).
    pub rows: Vec<WindowRow>,
    /// Where the next window continues; `None` when this one reached the end.
    pub next: Option<WindowMark>,
}

/// Some of the due rows, picked at random, by what is right below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Those that nothing refers to: each the end of a chain, or of a branch, that may go from there on.
    pub leaves: u64,
    /// Those that a row refers to which stays: each the end of a chain that is blocked.
    pub blocked_ends: u64,
}

impl Sample {
    /// Ends that have to be seen before anything is made of them.
    const ENOUGH: u64 = 10;

    /// Whether chains that are blocked are more than twice as many as those that may go: then it is better not to read what
    /// is blocked. Takes both to be of one length.
    pub(crate) fn is_mostly_blocked(self) -> bool {
        self.blocked_ends >= Self::ENOUGH && self.blocked_ends > self.leaves.saturating_mul(2)
    }
}

/// One batch: one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// The run it belongs to, for the ledger.
    pub job_run_id: String,
    /// The rows to delete, distinct: the batch deletes no other, and hence no more than these.
    pub rows: Vec<RowAddress>,
    /// Bound of each of its statements. At least one millisecond.
    pub limit: Duration,
    /// Whether somebody else was met on these rows or their relatives: the store looks which of them are there, held by
    /// nobody and free before it deletes. Otherwise it may delete all of them at once, and fail with
    /// [`crate::FailureKind::Row`] or [`crate::FailureKind::Locked`] when one of them does not go: then the batch is
    /// tried once more, contended.
    pub contended: bool,
}

/// What a committed batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchDone {
    /// Rows deleted and acknowledged by the commit.
    pub deleted: u64,
    /// Due rows passed over because somebody else holds them.
    pub held: u64,
    /// Rows asked for that are not there any more, or not due: somebody else deleted or changed them. Their relatives
    /// may have become free, and a changed row may be due at another address.
    pub missing: u64,
    /// Rows that were locked, passed the guard and were free, and are now neither gone nor where they were: updated
    /// between the look and the lock, or by a trigger instead of being deleted. They may be due at another address.
    pub moved: u64,
    /// Rows that were locked, passed the guard and were free, and yet are still there: row security, a vetoing
    /// trigger, or an update in between.
    pub stayed: Vec<RowAddress>,
}

impl WindowRow {
    /// A row with its due parent, if it has one. `held_back`: another row that is no part of the same window refers
    /// to it.
    #[must_use]
    pub fn new(address: RowAddress, parent: Option<RowAddress>, held_back: bool) -> Self {
        let packed = parent.map_or(NO_PARENT, |parent| parent.0) | if held_back { HELD_BACK } else { 0 };
        Self { address, packed }
    }

    /// The row's parent, if that is due too.
    #[must_use]
    pub fn parent(self) -> Option<RowAddress> {
        (self.packed & NO_PARENT == 0).then_some(RowAddress(self.packed & !HELD_BACK))
    }

    /// Whether a row outside the window refers to this one.
    #[must_use]
    pub fn is_held_back(self) -> bool {
        self.packed & HELD_BACK != 0
    }
}

impl std::fmt::Debug for WindowRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} under {:?}", self.address, self.parent())?;
        if self.is_held_back() { write!(f, ", held back") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_remembers_its_parent_and_whether_it_is_held_back() {
        for (parent, held_back) in
            [(None, false), (None, true), (Some(RowAddress(0)), false), (Some(RowAddress(7)), true)]
        {
            let row = WindowRow::new(RowAddress(3), parent, held_back);
            assert_eq!((row.address, row.parent(), row.is_held_back()), (RowAddress(3), parent, held_back));
        }
        assert_eq!(size_of::<WindowRow>(), 16);
    }
}
