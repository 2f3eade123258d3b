//! What everybody but the workers has written, kept in memory: the other side of every comparison.
//!
//! Whoever writes a row enters it here in the same transaction, after its last statement and before its commit, while
//! it still holds the row's lock. So the order of entries is the order of commits, row by row.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::rows::StoredRow;

/// The rows that would be there if there were no worker.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Tables>);

/// Both tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// Refresh sessions by number.
    pub sessions: BTreeMap<u64, StoredRow>,
    /// Confirmation requests by number.
    pub requests: BTreeMap<u64, StoredRow>,
    /// The counter of each confirmation request.
    pub attempts: BTreeMap<u64, i32>,
    /// Rows ever entered.
    pub written: u64,
}

impl Ledger {
    /// Makes entries.
    pub fn enter<T>(&self, entries: impl FnOnce(&mut Tables) -> T) -> T {
        entries(&mut self.tables())
    }

    /// Access, never held across an await.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this session is in use.
    pub fn is_active(&self, n: u64) -> bool {
        self.tables().sessions.get(&n).is_some_and(|row| row.status.as_deref() == Some("Active"))
    }
}

impl Tables {
    /// A new session, in use.
    pub fn enter_session(&mut self, n: u64, parent: Option<u64>, at: DateTime<Utc>) {
        let row = StoredRow { parent, status: Some("Active".to_owned()), age: Some(at) };
        self.sessions.insert(n, row);
        self.written += 1;
    }

    /// A new request, not confirmed yet.
    pub fn enter_request(&mut self, n: u64, at: DateTime<Utc>) {
        let row = StoredRow { parent: None, status: Some("Pending".to_owned()), age: Some(at) };
        self.requests.insert(n, row);
        self.attempts.insert(n, 0);
        self.written += 1;
    }

    /// A session's status has changed.
    pub fn end_session(&mut self, n: u64, status: &str, at: DateTime<Utc>) {
        if let Some(row) = self.sessions.get_mut(&n) {
            row.status = Some(status.to_owned());
            row.age = Some(at);
        }
    }

    /// A request's status has changed.
    pub fn end_request(&mut self, n: u64, status: &str) {
        if let Some(row) = self.requests.get_mut(&n) {
            row.status = Some(status.to_owned());
        }
    }

    /// Sessions were given other dates.
    pub fn date_sessions(&mut self, dated: &[(Uuid, DateTime<Utc>)]) {
        for (id, at) in dated {
            if let Some(row) = self.sessions.get_mut(&number(*id)) {
                row.age = Some(*at);
            }
        }
    }

    /// Requests were given other dates.
    pub fn date_requests(&mut self, dated: &[(Uuid, DateTime<Utc>)]) {
        for (id, at) in dated {
            if let Some(row) = self.requests.get_mut(&number(*id)) {
                row.age = Some(*at);
            }
        }
    }

    /// One more attempt on each of these requests.
    pub fn count_attempts(&mut self, ids: &[Uuid]) {
        for id in ids {
            if let Some(attempts) = self.attempts.get_mut(&number(*id)) {
                *attempts += 1;
            }
        }
    }
}

/// The id of row `n`.
pub(super) fn id(n: u64) -> Uuid {
    Uuid::from_u128(n.into())
}

/// The number of a row of ours; those of others are told apart by being no number of ours either.
pub(super) fn number(id: Uuid) -> u64 {
    u64::try_from(id.as_u128()).unwrap_or(u64::MAX)
}
