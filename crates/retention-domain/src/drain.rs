//! Draining one policy, as a state machine without IO: which step comes next, and what a step's result means.
//!
//! A *pass* walks all windows of due rows, oldest first. Under the leaf rule, only the first pass looks at all of them
//! (and not even that if a sample shows that most are blocked), and those after it at the leaves, from which they
//! climb. The free rows of a window are planned children first ([`crate::forest`]) and sent in batches; parents beyond
//! the window that become free with them (the *frontier*) are looked up by climbing, and go before the next window. A
//! pass that deleted something, or missed rows that somebody else took, is followed by another, because a row may have
//! become free behind it; a policy is drained when a pass deletes nothing. Memory: one window.

use std::collections::HashSet;
use std::time::Duration;

use crate::agenda::Agenda;
use crate::batch::{BatchDone, RowAddress, Sample, Window, WindowMark, WindowRow};
use crate::failure::{Failure, FailureKind};
use crate::forest;
use crate::pace::Pace;
use crate::passes::{Follows, Passes};
use crate::plan::Target;
use crate::report::{Backlog, PolicyReport, StopReason};
use crate::slice::{Narrowed, Slice};

/// Rows of a window: twenty-four megabytes as they come, and half as much again while they are put in order. Each window
/// reads and sorts the table once where no index helps, so smaller windows dominate the run at ten million rows; larger ones
/// cost memory.
pub const WINDOW_ROWS: usize = 1_000_000;
/// Rows looked up by one climb: enough for many batches, few enough for one scan by index.
pub(crate) const CLIMB_ROWS: usize = 100_000;
/// Rows one climb starts from, so few that whole chains above them come with it.
const CLIMB_FROM: usize = 10_000;
/// Due rows of a sample, about: enough to meet some ends even of chains that are hundreds deep.
const SAMPLE_ROWS: u64 = 10_000;
/// Rows set aside after which a policy gives up (contract, section 3).
const MAX_FAILED_ROWS: usize = 100;

/// What to do next for this policy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Check the table.
    Prepare,
    /// Count the due rows: without any there is nothing to scan for.
    Count,
    /// Look at the due rows in one block of so many: is it worth reading all of them?
    Sample(u64),
    /// Fetch the next window of all that is due.
    Window(Option<WindowMark>),
    /// Fetch the next window of leaves.
    Leaves(Option<WindowMark>),
    /// Look up what is free above the window.
    Climb(Vec<RowAddress>),
    /// Send a batch.
    Batch(Slice),
}

/// What the policy wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This.
    Step(Step),
    /// Nothing before this monotonic instant.
    NotBefore(Duration),
    /// Nothing until a step in flight comes back.
    Busy,
    /// Nothing more.
    Ended,
}

/// What the caller has to tell about a failed step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It will be tried again, or gone without.
    Retry,
    /// It will be tried again, and is no failure yet: only then is it known whether a row refuses.
    LookFirst,
    /// A row was set aside.
    SetAside,
    /// The policy gives up.
    GiveUp,
}

/// What is to be known before the first window, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unprepared,
    Uncounted,
    Unsampled(u64),
    Draining,
}

#[derive(Debug, PartialEq, Eq)]
enum Scan {
    From(Option<WindowMark>),
    Running,
    Exhausted,
}

/// One policy's progress.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    target: &'a Target,
    window_rows: usize,
    lock_timeout: Duration,
    pace: Pace,
    stage: Stage,
    scan: Scan,
    in_flight: usize,
    not_before: Duration,
    /// Free rows of the window that are still to be sent.
    agenda: Agenda,
    /// Parents beyond the window that may be free once the planned rows are gone.
    frontier: Vec<RowAddress>,
    /// What is to be sent before that: parts of batches that failed.
    slices: Vec<Slice>,
    aside: HashSet<RowAddress>,
    passes: Passes,
    /// Rows that moved whenever they were to go.
    moved: u64,
    deleted: u64,
    batches: u64,
    skipped: u64,
    error: Option<String>,
    fatal: bool,
    ended: Option<StopReason>,
    announced: bool,
    backlog: Option<Backlog>,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(
        target: &'a Target,
        batch_size: usize,
        window_rows: usize,
        lock_timeout: Duration,
    ) -> Self {
        Self {
            target,
            window_rows,
            lock_timeout,
            pace: Pace::new(batch_size),
            stage: Stage::Unprepared,
            scan: Scan::From(None),
            in_flight: 0,
            not_before: Duration::ZERO,
            agenda: Agenda::default(),
            frontier: Vec::new(),
            slices: Vec::new(),
            aside: HashSet::new(),
            passes: Passes::default(),
            moved: 0,
            deleted: 0,
            batches: 0,
            skipped: 0,
            error: None,
            fatal: false,
            ended: None,
            announced: false,
            backlog: None,
        }
    }

    pub(crate) fn target(&self) -> &'a Target {
        self.target
    }

    /// Rows set aside so far.
    pub(crate) fn aside(&self) -> usize {
        self.aside.len()
    }

    /// What has failed so far.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Batches that deleted something so far.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Whether the backlog is still to be counted, and can be.
    pub(crate) fn wants_backlog(&self) -> bool {
        self.backlog.is_none() && !self.fatal
    }

    /// Whether all that is due is blocked: nothing deletable can be left, and there is something that blocks.
    pub(crate) fn leaves_only_blocked(&self) -> bool {
        self.stop_reason() == StopReason::Drained && self.target.policy.parent_column.is_some()
    }

    pub(crate) fn set_backlog(&mut self, backlog: Backlog) {
        self.backlog = Some(backlog);
    }

    /// Ends the policy normally, if it has not ended already. Steps in flight still report.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.ended.get_or_insert(reason);
    }

    /// True once: when the policy has ended and nothing of it is in flight any more.
    pub(crate) fn take_ended(&mut self) -> bool {
        let ended = self.ended.is_some() && self.in_flight == 0 && !self.announced;
        self.announced |= ended;
        ended
    }

    /// The next step, to be started at once by the caller.
    pub(crate) fn next(&mut self, now: Duration) -> Next {
        loop {
            if self.ended.is_some() {
                return if self.in_flight == 0 { Next::Ended } else { Next::Busy };
            }
            if now < self.not_before {
                return Next::NotBefore(self.not_before);
            }
            if let Some(slice) = self.next_slice() {
                self.in_flight += 1;
                return Next::Step(Step::Batch(slice));
            }
            // Scans run alone: what is in flight may still add to the frontier.
            if self.in_flight > 0 {
                return Next::Busy;
            }
            if let Some(step) = self.next_scan() {
                self.in_flight += 1;
                return Next::Step(step);
            }
            self.end_pass(now);
        }
    }

    fn next_slice(&mut self) -> Option<Slice> {
        let failed = self.slices.pop();
        failed.or_else(|| self.agenda.next(self.pace.rows(), self.in_flight > 0, &self.aside))
    }

    fn next_scan(&mut self) -> Option<Step> {
        match self.stage {
            Stage::Unprepared => return Some(Step::Prepare),
            Stage::Uncounted => return Some(Step::Count),
            Stage::Unsampled(one_in) => return Some(Step::Sample(one_in)),
            Stage::Draining => {}
        }
        if !self.frontier.is_empty() {
            let rest = self.frontier.split_off(self.frontier.len().min(CLIMB_FROM));
            return Some(Step::Climb(std::mem::replace(&mut self.frontier, rest)));
        }
        match self.scan {
            Scan::From(after) => {
                self.scan = Scan::Running;
                // What was done with need not be kept in memory beside what comes.
                self.agenda = Agenda::default();
                // What a first pass leaves behind is blocked, but for what others freed or held: then a look at what is at
                // the foot of chains is cheap, and shows whether anything may go.
                let all = self.passes.looks_at_all() || self.target.policy.parent_column.is_none();
                Some(if all { Step::Window(after) } else { Step::Leaves(after) })
            }
            Scan::Running | Scan::Exhausted => None,
        }
    }

    fn end_pass(&mut self, now: Duration) {
        match self.passes.end() {
            Follows::Another => {}
            Follows::AnotherAfterWaiting => self.not_before = now + self.lock_timeout,
            Follows::AnotherLater(wait) => self.not_before = now + wait,
            Follows::Drained => return self.stop(StopReason::Drained),
            Follows::Held(rows) => {
                self.skipped = rows;
                return self.stop(StopReason::RowsHeld);
            }
            Follows::Circles { moved, sentence } => {
                self.moved = moved;
                self.give_up(&sentence);
                return;
            }
        }
        self.scan = Scan::From(None);
    }

    pub(crate) fn prepared(&mut self) {
        self.in_flight -= 1;
        // Where every due row is free, the window itself shows whether there is one. Under the leaf rule
        // an empty window may still leave blocked rows, and one plain count is the cheapest look.
        let follows_parents = self.target.policy.parent_column.is_some();
        self.stage = if follows_parents { Stage::Uncounted } else { Stage::Draining };
    }

    pub(crate) fn counted(&mut self, due: Backlog) {
        self.in_flight -= 1;
        // One window is read sooner than leaves are looked for and climbed from.
        let fits = due.pending <= self.window_rows as u64;
        let one_in = (due.pending / SAMPLE_ROWS).max(1);
        self.stage = if fits { Stage::Draining } else { Stage::Unsampled(one_in) };
        if due.pending == 0 {
            self.backlog = Some(due);
            self.stop(StopReason::Drained);
        }
    }

    pub(crate) fn sampled(&mut self, sample: Sample) {
        self.in_flight -= 1;
        self.stage = Stage::Draining;
        if sample.is_mostly_blocked() {
            self.passes.start_at_leaves();
        }
    }

    pub(crate) fn scanned(&mut self, after: Option<WindowMark>, window: Window) {
        self.in_flight -= 1;
        // Every due row is a leaf where there is no leaf rule: an empty table is known without another scan.
        let nothing_due =
            window.rows.is_empty() && after.is_none() && self.target.policy.parent_column.is_none();
        self.backlog = nothing_due.then(Backlog::default);
        self.scan = window.next.map_or(Scan::Exhausted, |mark| Scan::From(Some(mark)));
        self.passes.found(&window.rows);
        self.plan(&window.rows);
    }

    /// What was found above the window.
    pub(crate) fn climbed(&mut self, rows: &[WindowRow]) {
        self.in_flight -= 1;
        self.plan(rows);
    }

    fn plan(&mut self, rows: &[WindowRow]) {
        let mut planned = forest::plan(rows);
        self.frontier.append(&mut planned.outside);
        self.agenda = Agenda::new(planned);
    }

    pub(crate) fn deleted(&mut self, slice: &Slice, done: BatchDone) {
        self.in_flight -= 1;
        self.deleted += done.deleted;
        self.batches += u64::from(done.deleted > 0);
        self.passes.count(&done);
        self.pace.succeeded();
        if slice.contended || done.held + done.missing > 0 {
            self.agenda.found_out(slice.rows.len(), &done, self.pace.rows());
        }
        let (again, fresh): (Vec<_>, Vec<_>) = done.stayed.into_iter().partition(|_| slice.last_try);
        for row in again {
            self.set_aside(
                row,
                "the row stays although its delete raised nothing (row security or a trigger)",
            );
        }
        // One row at a time from here on, so that the one that refuses is known.
        self.slices.extend(Slice::parts(&fresh, 1, true));
    }

    /// A step was not sent, or was ended by the run's own bounds: the policy stops anyway.
    pub(crate) fn not_sent(&mut self) {
        self.in_flight -= 1;
    }

    /// A batch failed: decides what becomes of its rows.
    pub(crate) fn batch_failed(&mut self, slice: Slice, failure: &Failure, now: Duration) -> Verdict {
        self.in_flight -= 1;
        self.agenda.met_somebody();
        match failure.kind {
            // A row that refuses, or only one that became somebody's parent since the window was read; a slow row, or only
            // one that somebody held for a moment.
            FailureKind::Row | FailureKind::Locked | FailureKind::TableLocked | FailureKind::Timeout
                if !slice.contended =>
            {
                self.slices.push(Slice { contended: true, ..slice });
                return Verdict::LookFirst;
            }
            FailureKind::Row => return self.bisect(slice, failure),
            // Some row of it is slow, or waits for somebody: its neighbours must not wait with it.
            FailureKind::Timeout | FailureKind::Locked if slice.rows.len() > 1 => {
                self.pace.halve();
                return self.bisect(slice, failure);
            }
            FailureKind::Timeout | FailureKind::Locked => {
                let verdict = self.bisect(slice, failure);
                return if verdict == Verdict::Retry { self.scan_verdict(failure, now) } else { verdict };
            }
            FailureKind::Transient | FailureKind::TableLocked => {
                self.slices.push(Slice { contended: true, ..slice });
            }
            FailureKind::Fatal => {}
        }
        self.scan_verdict(failure, now)
    }

    /// A window could not be fetched.
    pub(crate) fn window_failed(
        &mut self,
        after: Option<WindowMark>,
        failure: &Failure,
        now: Duration,
    ) -> Verdict {
        self.scan = Scan::From(after);
        self.scan_failed(failure, now)
    }

    /// A climb failed.
    pub(crate) fn climb_failed(
        &mut self,
        from: Vec<RowAddress>,
        failure: &Failure,
        now: Duration,
    ) -> Verdict {
        self.frontier.splice(..0, from);
        self.scan_failed(failure, now)
    }

    /// The sample failed, whatever the reason. It only makes a run faster: the windows go without, and find out what is wrong
    /// if it concerns them too.
    pub(crate) fn sample_failed(&mut self) -> Verdict {
        self.sampled(Sample::default());
        Verdict::Retry
    }

    /// A scan (or the preparation) failed.
    pub(crate) fn scan_failed(&mut self, failure: &Failure, now: Duration) -> Verdict {
        self.in_flight -= 1;
        self.scan_verdict(failure, now)
    }

    fn scan_verdict(&mut self, failure: &Failure, now: Duration) -> Verdict {
        let wait = match failure.kind {
            FailureKind::Transient
            | FailureKind::Timeout
            | FailureKind::Locked
            | FailureKind::TableLocked => self.pace.failed(),
            FailureKind::Row | FailureKind::Fatal => None,
        };
        self.wait_or_give_up(wait, failure, now)
    }

    fn wait_or_give_up(&mut self, wait: Option<Duration>, failure: &Failure, now: Duration) -> Verdict {
        self.fatal = failure.kind == FailureKind::Fatal;
        if let Some(wait) = wait {
            self.not_before = now + wait;
            return Verdict::Retry;
        }
        self.give_up(&failure.sentence)
    }

    fn give_up(&mut self, sentence: &str) -> Verdict {
        self.error = Some(sentence.to_owned());
        self.ended = Some(StopReason::Error);
        Verdict::GiveUp
    }

    fn bisect(&mut self, slice: Slice, failure: &Failure) -> Verdict {
        match slice.narrow() {
            Narrowed::Parts(parts) => self.slices.extend(parts),
            Narrowed::Row(row) => return self.set_aside(row, &failure.sentence),
        }
        Verdict::Retry
    }

    fn set_aside(&mut self, row: RowAddress, sentence: &str) -> Verdict {
        self.aside.insert(row);
        let rows = self.aside.len();
        if rows >= MAX_FAILED_ROWS {
            return self.give_up(&format!("{rows} rows could not be deleted, no more are tried: {sentence}"));
        }
        let plural = if rows == 1 { "row" } else { "rows" };
        self.error = Some(format!("{rows} {plural} could not be deleted: {sentence}"));
        Verdict::SetAside
    }

    fn stop_reason(&self) -> StopReason {
        if self.error.is_some() { StopReason::Error } else { self.ended.unwrap_or(StopReason::Drained) }
    }

    pub(crate) fn into_report(self) -> PolicyReport {
        PolicyReport {
            policy: self.target.policy.name.clone(),
            table: self.target.policy.table.clone(),
            cutoff: self.target.cutoff,
            deleted: self.deleted,
            batches: self.batches,
            skipped: self.skipped,
            failed_rows: self.aside.len() as u64 + self.moved,
            stop_reason: self.stop_reason(),
            error: self.error,
            backlog: self.backlog,
        }
    }
}

#[cfg(test)]
mod tests;
