//! A store of rows in memory that keeps the contract of [`RetentionStore`], with faults on demand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::batch::{BatchDone, BatchRequest, RowAddress, Sample, Window, WindowMark, WindowRow};
use crate::failure::{Failure, FailureKind};
use crate::plan::{Preview, Target};
use crate::ports::RetentionStore;
use crate::report::Backlog;
use crate::testing::reference::{Fate, fates};

/// One row: its date (`None` stands for NULL and the infinities alike), its status, and the row it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// Value of the age column.
    pub age: Option<DateTime<Utc>>,
    /// Value of the only other column, `status`.
    pub status: Option<String>,
    /// The row this one refers to.
    pub parent: Option<RowAddress>,
}

/// Rows of one table, with faults.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: DateTime<Utc>,
    rows: BTreeMap<RowAddress, MemoryRow>,
    held: BTreeSet<RowAddress>,
    refusing: BTreeSet<RowAddress>,
    vetoed: BTreeSet<RowAddress>,
    failures: VecDeque<Failure>,
    sample: Option<Sample>,
    largest_batch: u64,
}

impl MemoryRow {
    /// Whether the row is due: dated before the cutoff and passing every condition.
    #[must_use]
    pub fn is_due(&self, target: &Target) -> bool {
        let status = self.status.as_deref();
        target.cutoff.passes(self.age)
            && target.policy.conditions.iter().all(|condition| condition.passes(status))
    }
}

impl MemoryStore {
    /// A store whose clock shows `now`.
    #[must_use]
    pub fn new(now: DateTime<Utc>, rows: BTreeMap<RowAddress, MemoryRow>) -> Self {
        Self { state: Mutex::new(State { now, rows, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that are there now.
    #[must_use]
    pub fn rows(&self) -> BTreeMap<RowAddress, MemoryRow> {
        self.state().rows.clone()
    }

    /// Most rows any batch has deleted.
    #[must_use]
    pub fn largest_batch(&self) -> u64 {
        self.state().largest_batch
    }

    /// Somebody else holds this row, or lets it go.
    pub fn hold(&self, row: RowAddress, held: bool) {
        let mut state = self.state();
        if held {
            state.held.insert(row)
        } else {
            state.held.remove(&row)
        };
    }

    /// Every delete of this row raises.
    pub fn refuse(&self, row: RowAddress) {
        self.state().refusing.insert(row);
    }

    /// Every delete of this row is silently vetoed.
    pub fn veto(&self, row: RowAddress) {
        self.state().vetoed.insert(row);
    }

    /// Samples show this, whatever the rows are: chance may have it so.
    pub fn show_in_samples(&self, sample: Sample) {
        self.state().sample = Some(sample);
    }

    /// The next calls (windows and batches) fail so, one each.
    pub fn fail_next(&self, failures: impl IntoIterator<Item = Failure>) {
        self.state().failures.extend(failures);
    }
}

impl State {
    /// Those of the due rows of a page that are `wanted`.
    fn page(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        wanted: impl Fn(RowAddress) -> bool,
    ) -> (Vec<(DateTime<Utc>, RowAddress)>, Option<WindowMark>) {
        let mut page: Vec<_> = self
            .rows
            .iter()
            .filter(|(address, row)| row.is_due(target) && wanted(**address))
            .filter_map(|(address, row)| Some((row.age?, *address)))
            .filter(|key| after.is_none_or(|mark| *key > (mark.age, mark.address)))
            .collect();
        page.sort_unstable();
        let full = page.len() >= max_rows;
        page.truncate(max_rows);
        let last = page.last().copied().filter(|_| full);
        (page, last.map(|(age, address)| WindowMark { age, address }))
    }

    fn scripted(&mut self) -> Result<(), Failure> {
        self.failures.pop_front().map_or(Ok(()), Err)
    }

    fn children(&self, parent: RowAddress) -> impl Iterator<Item = RowAddress> + '_ {
        self.rows.iter().filter(move |(_, row)| row.parent == Some(parent)).map(|(address, _)| *address)
    }

    fn is_due(&self, target: &Target, row: RowAddress) -> bool {
        self.rows.get(&row).is_some_and(|row| row.is_due(target))
    }

    fn is_leaf(&self, target: &Target, row: RowAddress) -> bool {
        target.policy.parent_column.is_none() || self.children(row).next().is_none()
    }

    fn parent(&self, target: &Target, row: RowAddress) -> Option<RowAddress> {
        target.policy.parent_column.as_ref()?;
        self.rows.get(&row)?.parent
    }

    fn window_row(&self, target: &Target, row: RowAddress, held_back: bool) -> WindowRow {
        let parent = self.parent(target, row).filter(|parent| self.is_due(target, *parent));
        WindowRow::new(row, parent, held_back)
    }
}

impl RetentionStore for MemoryStore {
    async fn now(&self) -> Result<DateTime<Utc>, Failure> {
        Ok(self.state().now)
    }

    async fn prepare(&self, _target: &Target, _limit: Duration) -> Result<(), Failure> {
        Ok(())
    }

    async fn count_due(&self, target: &Target, _limit: Duration) -> Result<Backlog, Failure> {
        let state = self.state();
        let ages: Vec<_> =
            state.rows.values().filter(|row| row.is_due(target)).filter_map(|row| row.age).collect();
        Ok(Backlog {
            pending: ages.len() as u64,
            oldest_pending: ages.into_iter().min(),
            ..Backlog::default()
        })
    }

    async fn sample(&self, target: &Target, _one_in: u64, _limit: Duration) -> Result<Sample, Failure> {
        let mut state = self.state();
        state.scripted()?;
        if let Some(sample) = state.sample {
            return Ok(sample);
        }
        let due = || state.rows.keys().copied().filter(|row| state.is_due(target, *row));
        let stays = |row: RowAddress| state.children(row).any(|child| !state.is_due(target, child));
        Ok(Sample {
            leaves: due().filter(|row| state.is_leaf(target, *row)).count() as u64,
            blocked_ends: due().filter(|row| stays(*row)).count() as u64,
        })
    }

    async fn window(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        _limit: Duration,
    ) -> Result<Window, Failure> {
        let mut state = self.state();
        state.scripted()?;
        let key = |address: RowAddress| Some((state.rows.get(&address)?.age?, address));
        let (page, next) = state.page(target, after, max_rows, |_| true);
        let last = page.last().copied();
        let follows_parents = target.policy.parent_column.is_some();
        let beyond = |child: RowAddress| !state.is_due(target, child) || key(child) > last;
        let row = |(_, address): &(DateTime<Utc>, RowAddress)| {
            let held_back = follows_parents && state.children(*address).any(beyond);
            state.window_row(target, *address, held_back)
        };
        Ok(Window { rows: page.iter().map(row).collect(), next })
    }

    async fn leaves(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        _limit: Duration,
    ) -> Result<Window, Failure> {
        let mut state = self.state();
        state.scripted()?;
        let (page, next) = state.page(target, after, max_rows, |row| state.is_leaf(target, row));
        let rows = page.iter().map(|(_, row)| state.window_row(target, *row, false)).collect();
        Ok(Window { rows, next })
    }

    async fn climb(
        &self,
        target: &Target,
        from: &[RowAddress],
        max_rows: usize,
        _limit: Duration,
    ) -> Result<Vec<WindowRow>, Failure> {
        let mut state = self.state();
        state.scripted()?;
        let free = |row: &RowAddress| state.is_due(target, *row) && state.is_leaf(target, *row);
        let mut climbed: Vec<_> = from.iter().copied().filter(free).collect();
        let mut next = 0;
        while let Some(row) = climbed.get(next).copied() {
            next += 1;
            if let Some(parent) = state.parent(target, row).filter(|parent| state.is_due(target, *parent))
                && state.children(parent).all(|child| child == row)
            {
                climbed.push(parent);
            }
        }
        climbed.truncate(max_rows);
        Ok(climbed.into_iter().map(|row| state.window_row(target, row, false)).collect())
    }

    async fn delete_batch(&self, target: &Target, request: &BatchRequest) -> Result<BatchDone, Failure> {
        let mut state = self.state();
        state.scripted()?;
        let asked = request.rows.len() as u64;
        let due: Vec<_> = request.rows.iter().copied().filter(|row| state.is_due(target, *row)).collect();
        let missing = asked - due.len() as u64;
        let (held, free): (Vec<_>, Vec<_>) = due.into_iter().partition(|row| state.held.contains(row));
        let unheld = free.len();
        let mut free: BTreeSet<_> = free.into_iter().collect();
        // A row with a child that does not go stays, and then its parent does too.
        while let Some(stays) = free.iter().copied().find(|row| {
            target.policy.parent_column.is_some() && state.children(*row).any(|child| !free.contains(&child))
        }) {
            free.remove(&stays);
        }
        if !request.contended && !held.is_empty() {
            return Err(Failure::new(FailureKind::Locked, "a row is held (55P03)"));
        }
        if !request.contended && (missing > 0 || free.len() < unheld) {
            return Err(Failure::new(FailureKind::Row, "a row is not there or still referred to (23503)"));
        }
        if free.iter().any(|row| state.refusing.contains(row)) {
            return Err(Failure::new(FailureKind::Row, "a row refuses (23503)"));
        }
        let (stayed, gone): (Vec<_>, Vec<_>) = free.into_iter().partition(|row| state.vetoed.contains(row));
        if !request.contended && !stayed.is_empty() {
            return Err(Failure::new(FailureKind::Row, "a row stays"));
        }
        if let Some(row) =
            stayed.iter().find(|row| state.parent(target, **row).is_some_and(|p| gone.contains(&p)))
        {
            return Err(Failure::new(
                FailureKind::Row,
                format!("row {} is still referred to (23503)", row.0),
            ));
        }
        for row in &gone {
            state.rows.remove(row);
        }
        state.largest_batch = state.largest_batch.max(gone.len() as u64);
        Ok(BatchDone {
            deleted: gone.len() as u64,
            held: held.len() as u64,
            missing,
            stayed,
            ..BatchDone::default()
        })
    }

    async fn backlog(&self, target: &Target, _limit: Duration) -> Result<Backlog, Failure> {
        let state = self.state();
        let mut backlog = Backlog::default();
        for (address, fate) in fates(target, &state.rows) {
            let age = state.rows.get(&address).and_then(|row| row.age);
            let older = |oldest: Option<DateTime<Utc>>| oldest.into_iter().chain(age).min();
            match fate {
                Fate::Stays => {}
                Fate::Blocked => {
                    backlog.blocked += 1;
                    backlog.oldest_blocked = older(backlog.oldest_blocked);
                }
                Fate::Goes => {
                    backlog.pending += 1;
                    backlog.oldest_pending = older(backlog.oldest_pending);
                }
            }
        }
        Ok(backlog)
    }

    async fn preview(&self, target: &Target, limit: Duration) -> Result<Preview, Failure> {
        let backlog = self.backlog(target, limit).await?;
        let state = self.state();
        let passes =
            |row: &&MemoryRow| target.policy.conditions.iter().all(|c| c.passes(row.status.as_deref()));
        let known = |row: &&MemoryRow| {
            let known = &target.policy.known_values;
            known.is_empty() || row.status.as_ref().is_some_and(|status| known.contains(status))
        };
        Ok(Preview {
            due: backlog.total(),
            deletable: backlog.pending,
            blocked: backlog.blocked,
            undated: state.rows.values().filter(|row| row.age.is_none()).filter(passes).count() as u64,
            unknown_status: state.rows.values().filter(|row| !known(row)).count() as u64,
            oldest: backlog.oldest(),
        })
    }
}
