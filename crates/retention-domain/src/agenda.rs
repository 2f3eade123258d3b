//! The rows of a window that are still to be sent, and where in them to go on when somebody else is at work.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::batch::{BatchDone, RowAddress};
use crate::forest::Planned;
use crate::slice::Slice;

/// How often somebody may be met in a window before its batches look first, every one: each meeting costs a batch that
/// is undone.
const MAX_MEETINGS: u32 = 16;
/// A stretch of fewer batches is not worth dividing.
const MIN_BATCHES: usize = 4;

/// Planned rows, children before parents, in stretches: oldest first, until somebody else is met who works on the same
/// rows. From there on it is the younger half of what is left, and the older half comes after it. So several workers that
/// start together, and know nothing of each other, soon work on different rows.
///
/// The younger half begins where a chain does. Rows above those of an older stretch may be tried before them; they are not
/// free then, and a later pass finds them.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    planned: Planned,
    stretches: VecDeque<Range<usize>>,
    contended: bool,
    meetings: u32,
}

impl Agenda {
    pub(crate) fn new(planned: Planned) -> Self {
        let all = 0..planned.rows.len();
        Self { planned, stretches: [all].into(), contended: false, meetings: 0 }
    }

    /// The next batch of at most `max_rows`, without those that are set aside; `None` when nothing is left, or nothing
    /// that may go while others are in flight.
    pub(crate) fn next(
        &mut self,
        max_rows: usize,
        in_flight: bool,
        aside: &HashSet<RowAddress>,
    ) -> Option<Slice> {
        loop {
            // The rest of a chain that was cut waits for the part below it: before that is gone, nothing of it is free.
            if in_flight && self.begins_above_the_last() {
                return None;
            }
            let stretch = self.stretches.front_mut()?;
            let left = self.planned.rows.get(stretch.clone()).unwrap_or_default();
            let mut looked_at = 0;
            let fresh = left.iter().inspect(|_| looked_at += 1).filter(|row| !aside.contains(row));
            let rows: Vec<_> = fresh.take(max_rows).copied().collect();
            stretch.start += looked_at;
            if stretch.start >= stretch.end {
                self.stretches.pop_front();
            }
            if !rows.is_empty() {
                return Some(Slice { rows, contended: self.contended, last_try: false });
            }
        }
    }

    /// Something was in the way of a batch: from here on, others are reckoned with.
    pub(crate) fn met_somebody(&mut self) {
        self.contended = true;
        self.meetings += 1;
    }

    /// A batch of so many rows, which reckoned with others, has found out about each of them. When most of them are held by
    /// somebody or gone, somebody works here, and the next batch comes from elsewhere. When one stays and the next batch
    /// begins with its ancestors, those cannot go either.
    pub(crate) fn found_out(&mut self, rows: usize, done: &BatchDone, max_rows: usize) {
        if self.meetings > MAX_MEETINGS {
            return;
        }
        let rows = rows as u64;
        self.contended = if done.held + done.missing > rows / 2 {
            !self.go_elsewhere(max_rows)
        } else {
            done.deleted < rows && self.begins_above_the_last()
        };
    }

    /// Whether the next row is the parent of the last one that was sent.
    fn begins_above_the_last(&self) -> bool {
        self.stretches.front().is_some_and(|stretch| self.planned.continues.get(stretch.start) == Some(&true))
    }

    /// Leaves the older half of the stretch for later; false when there is too little ahead.
    fn go_elsewhere(&mut self, max_rows: usize) -> bool {
        let Some(stretch) = self.stretches.front_mut() else { return true };
        if stretch.len() < max_rows.saturating_mul(MIN_BATCHES) {
            return false;
        }
        let middle = stretch.start + stretch.len() / 2;
        let begins = (middle..stretch.end).find(|row| self.planned.continues.get(*row) == Some(&false));
        let Some(begins) = begins else { return false };
        let older = stretch.start..begins;
        stretch.start = begins;
        self.stretches.push_back(older);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: usize = 2;

    /// Rows 0 to `count`, in chains of this length.
    fn agenda(count: u64, chain: u64) -> Agenda {
        let rows: Vec<_> = (0..count).map(RowAddress).collect();
        let continues = (0..count).map(|row| row % chain > 0).collect();
        Agenda::new(Planned { rows, continues, outside: Vec::new() })
    }

    fn next(agenda: &mut Agenda) -> Option<(Vec<u64>, bool)> {
        let slice = agenda.next(BATCH, false, &HashSet::new())?;
        Some((slice.rows.iter().map(|row| row.0).collect(), slice.contended))
    }

    fn held(held: u64) -> BatchDone {
        BatchDone { deleted: 2 - held, held, ..BatchDone::default() }
    }

    fn rest(agenda: &mut Agenda) -> Vec<u64> {
        std::iter::from_fn(|| next(agenda)).flat_map(|(rows, _)| rows).collect()
    }

    #[test]
    fn rows_come_in_order_without_those_set_aside() {
        let mut agenda = agenda(6, 1);
        let aside = HashSet::from([0, 1, 2, 4].map(RowAddress));
        let slice = agenda.next(BATCH, true, &aside).unwrap();
        assert_eq!(slice.rows, [RowAddress(3), RowAddress(5)]);
        assert_eq!(agenda.next(BATCH, true, &aside), None);
    }

    #[test]
    fn the_rest_of_a_cut_chain_waits_for_what_is_in_flight() {
        let mut agenda = agenda(3, 3);
        let aside = HashSet::new();
        assert!(agenda.next(BATCH, true, &aside).is_some());
        assert_eq!(agenda.next(BATCH, true, &aside), None);
        assert_eq!(agenda.next(BATCH, false, &aside).unwrap().rows, [RowAddress(2)]);
    }

    #[test]
    fn who_meets_a_worker_goes_on_in_the_younger_half_where_a_chain_begins_and_comes_back() {
        for (chain, begins) in [(1, 11), (7, 14)] {
            let mut agenda = agenda(20, chain);
            assert_eq!(next(&mut agenda), Some((vec![0, 1], false)));
            agenda.met_somebody();
            agenda.found_out(2, &held(2), BATCH);
            assert_eq!(next(&mut agenda), Some((vec![begins, begins + 1], false)));
            let others = (begins + 2..20).chain(2..begins);
            assert_eq!(rest(&mut agenda), others.collect::<Vec<_>>(), "chains of {chain}");
        }
    }

    #[test]
    fn who_meets_a_single_client_stays_and_reckons_with_nobody_again() {
        let mut agenda = agenda(20, 1);
        agenda.met_somebody();
        assert_eq!(next(&mut agenda), Some((vec![0, 1], true)));
        agenda.found_out(2, &held(1), BATCH);
        assert_eq!(next(&mut agenda), Some((vec![2, 3], false)));
    }

    #[test]
    fn ancestors_of_a_row_that_stays_are_looked_at_before_they_are_tried() {
        let mut agenda = agenda(12, 6);
        for contended in [false, true, true] {
            assert_eq!(next(&mut agenda).unwrap().1, contended);
            agenda.met_somebody();
            agenda.found_out(2, &held(1), BATCH);
        }
        assert_eq!(next(&mut agenda), Some((vec![6, 7], false)), "another chain");
    }

    #[test]
    fn a_batch_that_goes_whole_has_met_nobody_wherever_it_ends() {
        let mut agenda = agenda(12, 6);
        agenda.met_somebody();
        assert_eq!(next(&mut agenda), Some((vec![0, 1], true)));
        agenda.found_out(2, &held(0), BATCH);
        assert_eq!(next(&mut agenda), Some((vec![2, 3], false)), "the rest of the chain");
    }

    #[test]
    fn near_the_end_of_a_stretch_and_after_many_meetings_others_are_reckoned_with() {
        for (count, goes_on) in [(7, (vec![0, 1], true)), (8, (vec![4, 5], false))] {
            let mut short = agenda(count, 1);
            short.met_somebody();
            short.found_out(2, &held(2), BATCH);
            assert_eq!(next(&mut short), Some(goes_on), "{count} rows");
        }

        let mut busy = agenda(1000, 1);
        for _ in 0..MAX_MEETINGS {
            busy.met_somebody();
            busy.found_out(2, &held(1), BATCH);
        }
        assert_eq!(next(&mut busy), Some((vec![0, 1], false)));
        busy.met_somebody();
        busy.found_out(2, &held(1), BATCH);
        assert_eq!(next(&mut busy), Some((vec![2, 3], true)));
        busy.found_out(2, &held(0), BATCH);
        assert_eq!(next(&mut busy), Some((vec![4, 5], true)));
        assert_eq!(rest(&mut busy).len(), 994);
    }
}
