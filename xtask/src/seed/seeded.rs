//! What was made, and what one drained run is expected to do with it.

use std::fmt;

use serde::Serialize;

/// What [`fill`](super::fill) added, counted while the rows were made and not by asking the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seeded {
    /// Users added.
    pub users: u64,
    /// Chains among the refresh sessions.
    pub chains: u64,
    /// Confirmation requests.
    pub sicr: TableCounts,
    /// Refresh sessions.
    pub refresh: TableCounts,
    /// Whether the server checked foreign keys row by row, because it did not let us turn that off.
    pub foreign_keys_checked: bool,
}

/// Rows of one table by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableCounts {
    /// All rows added.
    pub rows: u64,
    /// Due rows all of whose descendants are due: a drained run deletes them.
    pub deletable: u64,
    /// Due rows with a descendant that stays.
    pub blocked: u64,
}

impl Seeded {
    /// Both together, when one was added to the other.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            users: self.users + other.users,
            chains: self.chains + other.chains,
            sicr: self.sicr.and(other.sicr),
            refresh: self.refresh.and(other.refresh),
            foreign_keys_checked: self.foreign_keys_checked || other.foreign_keys_checked,
        }
    }
}

impl TableCounts {
    fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            deletable: self.deletable + other.deletable,
            blocked: self.blocked + other.blocked,
        }
    }

    /// Rows that meet the condition of age and status.
    pub fn due(&self) -> u64 {
        self.deletable + self.blocked
    }

    /// Rows that are still there after a drained run, the blocked ones included.
    pub fn kept(&self) -> u64 {
        self.rows - self.deletable
    }
}

impl fmt::Display for Seeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<40}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "table", "rows", "due", "deletable", "blocked", "kept"
        )?;
        let tables = [
            ("identity.sign_in_confirmation_requests", self.sicr),
            ("identity.refresh_sessions", self.refresh),
        ];
        for (table, counts) in tables {
            let TableCounts { rows, deletable, blocked } = counts;
            let (due, kept) = (counts.due(), counts.kept());
            writeln!(f, "{table:<40}{rows:>12}{due:>12}{deletable:>12}{blocked:>12}{kept:>12}")?;
        }
        write!(f, "{} users, {} chains", self.users, self.chains)?;
        if self.foreign_keys_checked {
            write!(
                f,
                "\nforeign keys were checked row by row (no right to set session_replication_role): slower"
            )?;
        }
        Ok(())
    }
}
