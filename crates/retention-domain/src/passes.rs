//! What became of the rows of a pass, and whether another pass is worth it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use crate::batch::{BatchDone, WindowRow};

/// Passes in a row that found the same rows and deleted none, after which a policy gives up.
const MAX_FRUITLESS: u32 = 10;
/// So many that deleted none may follow each other at once. Before each further one there is a wait, which doubles up to
/// [`LONGEST_WAIT`]: workers that were faster have done with those rows by then.
const FRUITLESS_AT_ONCE: u32 = 2;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(3200);

/// What follows a pass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Another, at once: a row may have become free behind this one.
    Another,
    /// Another, once held rows were waited for.
    AnotherAfterWaiting,
    /// Another, but not at once.
    AnotherLater(Duration),
    /// Nothing: this one deleted nothing and met nobody.
    Drained,
    /// Nothing: so many rows are held, and were when they were waited for.
    Held(u64),
    /// Nothing: another would be as fruitless as this one and those before it. So many rows moved whenever they were to go.
    Circles { moved: u64, sentence: String },
}

/// The passes of one policy.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// Of this pass.
    deleted: u64,
    held: u64,
    missing: u64,
    moved: u64,
    /// Tells the rows that this pass has found from others.
    found: u64,
    /// Passes in a row in which none of the rows that were found went.
    fruitless: u32,
    /// Those of them that found the same rows as the one before, with the first one.
    alike: u32,
    found_before: u64,
    waited_for_held: bool,
    /// Whether passes look at leaves, unless they come after a wait.
    at_leaves: bool,
}

impl Passes {
    /// Already the first pass looks at leaves: most of what is due is blocked.
    pub(crate) fn start_at_leaves(&mut self) {
        self.at_leaves = true;
    }

    /// Whether this pass looks at every row that is due: the first one, if most of them may go, and one that comes after
    /// a wait for held rows, for what is held then is told in the report.
    pub(crate) fn looks_at_all(&self) -> bool {
        !self.at_leaves || self.waited_for_held
    }

    /// This pass has found these rows, among others.
    pub(crate) fn found(&mut self, rows: &[WindowRow]) {
        let hash = |row: &WindowRow| BuildHasherDefault::<DefaultHasher>::default().hash_one(row.address);
        self.found = rows.iter().map(hash).fold(self.found, u64::wrapping_add);
    }

    /// A batch of this pass came to an end.
    pub(crate) fn count(&mut self, done: &BatchDone) {
        self.deleted += done.deleted;
        self.held += done.held;
        self.missing += done.missing;
        self.moved += done.moved;
    }

    /// The pass has come to its end.
    pub(crate) fn end(&mut self) -> Follows {
        let before = std::mem::take(self);
        let Self { deleted, held, missing, moved, fruitless, waited_for_held, .. } = before;
        self.at_leaves = true;
        // Also what somebody else took or changed may have freed rows that this pass has gone by.
        let changed = deleted + missing + moved;
        if changed == 0 && held == 0 {
            return Follows::Drained;
        }
        if changed == 0 && waited_for_held {
            return Follows::Held(held);
        }
        if changed == 0 {
            self.waited_for_held = true;
            return Follows::AnotherAfterWaiting;
        }
        if deleted > 0 {
            return Follows::Another;
        }
        self.fruitless = fruitless + 1;
        self.alike = if before.found == before.found_before { before.alike + 1 } else { 1 };
        self.found_before = before.found;
        // Once, rows that change when they are to go may be a race with somebody who updates them; a trigger that updates
        // instead of letting them go would keep us busy for ever. Rows that are not where they were found are a race with
        // workers that are faster, as long as they are others each time; the same ones ten times over are not.
        if moved > 0 && self.fruitless > 1 {
            let plural = if moved == 1 { "row changes" } else { "rows change" };
            let sentence =
                format!("{moved} {plural} instead of going: a trigger updates what is to be deleted");
            Follows::Circles { moved, sentence }
        } else if self.alike >= MAX_FRUITLESS {
            let sentence =
                format!("rows are found and are not there when they are to go: {changed} in the last pass");
            Follows::Circles { moved: 0, sentence }
        } else if let Some(waits) = self.fruitless.checked_sub(FRUITLESS_AT_ONCE + 1) {
            Follows::AnotherLater(FIRST_WAIT.saturating_mul(2_u32.saturating_pow(waits)).min(LONGEST_WAIT))
        } else {
            Follows::Another
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::RowAddress;

    fn end(passes: &mut Passes, done: BatchDone) -> Follows {
        passes.count(&done);
        passes.end()
    }

    #[test]
    fn held_rows_are_waited_for_once_until_something_goes() {
        let held = || BatchDone { held: 2, ..BatchDone::default() };
        let mut passes = Passes::default();
        assert_eq!(end(&mut passes, held()), Follows::AnotherAfterWaiting);
        assert_eq!(end(&mut passes, BatchDone { deleted: 1, ..held() }), Follows::Another);
        assert_eq!(end(&mut passes, held()), Follows::AnotherAfterWaiting);
        assert_eq!(end(&mut passes, held()), Follows::Held(2));
        assert_eq!(Passes::default().end(), Follows::Drained);
    }

    #[test]
    fn passes_that_miss_other_rows_each_time_are_a_race_and_go_on() {
        let missing = || BatchDone { missing: 1, ..BatchDone::default() };
        let row = |row| WindowRow::new(RowAddress(row), None, false);
        let mut passes = Passes::default();
        for n in 0..100 {
            passes.found(&[row(n)]);
            passes.found(&[row(n + 1000)]);
            let follows = end(&mut passes, missing());
            assert!(matches!(follows, Follows::Another | Follows::AnotherLater(_)), "{n}: {follows:?}");
        }
        for n in 0..9 {
            // The same ones, whatever their order.
            passes.found(&[row(7 - n % 2)]);
            passes.found(&[row(6 + n % 2)]);
            assert_eq!(end(&mut passes, missing()), Follows::AnotherLater(LONGEST_WAIT), "{n}");
        }
        passes.found(&[row(6), row(7)]);
        assert!(matches!(end(&mut passes, missing()), Follows::Circles { moved: 0, .. }));
    }

    #[test]
    fn ten_passes_that_only_miss_rows_are_enough_and_one_that_deletes_starts_afresh() {
        let missing = || BatchDone { missing: 3, ..BatchDone::default() };
        let mut passes = Passes::default();
        for _ in 0..2 {
            assert_eq!(end(&mut passes, BatchDone { deleted: 1, ..missing() }), Follows::Another);
            assert_eq!(end(&mut passes, missing()), Follows::Another);
            assert_eq!(end(&mut passes, missing()), Follows::Another);
            for wait in [50, 100, 200, 400, 800, 1600, 3200] {
                let later = Follows::AnotherLater(Duration::from_millis(wait));
                assert_eq!(end(&mut passes, missing()), later);
            }
        }
        assert!(matches!(end(&mut passes, missing()), Follows::Circles { moved: 0, .. }));
    }
}
