//! What the engine needs from the outside, as obligations.

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::batch::{BatchDone, BatchRequest, RowAddress, Sample, Window, WindowMark, WindowRow};
use crate::cutoff::Cutoff;
use crate::failure::Failure;
use crate::plan::{Preview, Target};
use crate::policy::RetentionPolicy;
use crate::report::{Backlog, RunReport};

/// Where due rows live.
pub trait RetentionStore: Send + Sync {
    /// The store's clock: the only `now` that cutoffs come from.
    ///
    /// # Errors
    /// Any failure means that there is no usable store.
    fn now(&self) -> impl Future<Output = Result<DateTime<Utc>, Failure>> + Send;

    /// Checks that the policy's table and columns are there and of a kind the rule can be applied to, and that rows may be
    /// locked.
    ///
    /// # Errors
    /// [`crate::FailureKind::Fatal`] for a missing table, column or right, or an age column that is not a point in time.
    fn prepare(&self, target: &Target, limit: Duration) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Counts the due rows, whoever refers to them, without a lock. All of them are called pending here: which
    /// are blocked is [`RetentionStore::backlog`]'s business.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn count_due(
        &self,
        target: &Target,
        limit: Duration,
    ) -> impl Future<Output = Result<Backlog, Failure>> + Send;

    /// Looks at the due rows in about one block of the table in `one_in` (1 or more), picked at random, and at the rows that
    /// refer to them. Takes no lock, and reads no more of the table than that.
    ///
    /// Only asked under the leaf rule.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn sample(
        &self,
        target: &Target,
        one_in: u64,
        limit: Duration,
    ) -> impl Future<Output = Result<Sample, Failure>> + Send;

    /// Due rows in the order (age, address), strictly after `after`, at most `max_rows`. Takes no lock. Must say
    /// `next: None` only after looking at the last candidate.
    ///
    /// Under the leaf rule each row comes with its parent if that is due, and is marked as held back if a row that
    /// is no part of this window refers to it: one that stays, or a due one of a later window.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn window(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> impl Future<Output = Result<Window, Failure>> + Send;

    /// As [`RetentionStore::window`], but only the leaves: due rows that nothing refers to, each with its parent if that is
    /// due. Where none is left, nothing may go: whatever is due is blocked.
    ///
    /// Only asked under the leaf rule.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn leaves(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> impl Future<Output = Result<Window, Failure>> + Send;

    /// Those of `from` that are due and that nothing refers to, and those of their ancestors that become free with
    /// them: at most `max_rows`, children before parents, as rows of a window. Takes no lock.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn climb(
        &self,
        target: &Target,
        from: &[RowAddress],
        max_rows: usize,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<WindowRow>, Failure>> + Send;

    /// Deletes those of `request.rows` that are due and free, in a transaction of its own. A row is free if every row
    /// that refers to it goes with it.
    ///
    /// Must delete nothing whose date is missing or not before the cutoff, nothing that fails a condition, no row
    /// that a remaining row refers to, and no row that is not asked for. Must not wait for a row that somebody else
    /// has locked, or only for a moment and then fail.
    ///
    /// # Errors
    /// When this returns an error, this call has deleted nothing, or its connection was lost during the commit.
    fn delete_batch(
        &self,
        target: &Target,
        request: &BatchRequest,
    ) -> impl Future<Output = Result<BatchDone, Failure>> + Send;

    /// Counts what is still due, told apart into pending and blocked, without a lock.
    ///
    /// # Errors
    /// As classified, [`crate::FailureKind::Timeout`] when `limit` did not suffice; nothing was changed.
    fn backlog(
        &self,
        target: &Target,
        limit: Duration,
    ) -> impl Future<Output = Result<Backlog, Failure>> + Send;

    /// Counts what a run would meet, without a lock.
    ///
    /// # Errors
    /// As classified; nothing was changed.
    fn preview(
        &self,
        target: &Target,
        limit: Duration,
    ) -> impl Future<Output = Result<Preview, Failure>> + Send;
}

/// The process's clock: for the time budget and for waiting, never for cutoffs.
pub trait Clock: Send + Sync {
    /// The wall clock, compared with the store's to notice a skew.
    fn wall(&self) -> DateTime<Utc>;

    /// Monotonic time since some fixed instant.
    fn monotonic(&self) -> Duration;

    /// Returns after `duration`, or at once when a stop is requested.
    fn wait(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

/// Whether the process was asked to stop. Honoured between batches.
pub trait StopSignal: Send + Sync {
    /// Whether a stop was requested.
    fn is_requested(&self) -> bool;
}

/// What happens in a run, in order. Policies are named by their value, batches by the lane (connection) they run on.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// The run starts; its cutoffs are known.
    Started {
        /// The run's id.
        job_run_id: &'a str,
        /// The store's clock.
        now: DateTime<Utc>,
        /// Store's clock minus process's clock, in milliseconds.
        skew_ms: i64,
        /// Policies and cutoffs.
        targets: &'a [Target],
    },
    /// A policy is about to be worked on.
    PhaseStarted {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// Its cutoff.
        cutoff: Cutoff,
    },
    /// A batch is sent.
    BatchStarted {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// The lane it runs on, from 0.
        lane: usize,
        /// Most rows it may delete.
        max_rows: usize,
    },
    /// A batch is committed (also one that deleted nothing).
    BatchEnded {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// The lane it ran on.
        lane: usize,
        /// Rows deleted.
        deleted: u64,
        /// How many batches of this policy have deleted something so far, this one included.
        batches: u64,
        /// How long it took.
        took: Duration,
    },
    /// A batch ended without a commit and is no failed attempt: the run's time was up, its row is set aside, or it is
    /// sent once more to find out whether a row refuses.
    BatchAbandoned {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// The lane it ran on.
        lane: usize,
    },
    /// An attempt failed; `ends_policy` tells whether the policy gives up.
    AttemptFailed {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// The lane whose batch it was; `None` for a scan.
        lane: Option<usize>,
        /// What failed.
        failure: &'a Failure,
        /// Whether this is the policy's last word.
        ends_policy: bool,
    },
    /// A row was set aside: it refuses to go.
    RowSetAside {
        /// The policy.
        policy: &'a RetentionPolicy,
        /// Why.
        sentence: &'a str,
    },
    /// A policy stopped; its backlog is not counted yet.
    PhaseEnded {
        /// The policy.
        policy: &'a RetentionPolicy,
    },
    /// The run could not start: no usable store, or its clock is refused.
    Refused {
        /// The run's id.
        job_run_id: &'a str,
        /// Why.
        reason: &'a crate::run::RunRefused,
        /// How long it took to find out.
        took: Duration,
    },
    /// The run is over.
    Completed(&'a RunReport),
}

/// Is told what happens. Must return at once: it is called from within the loop.
pub trait RunObserver: Send + Sync {
    /// Something happened.
    fn observe(&self, event: &RunEvent<'_>);
}
