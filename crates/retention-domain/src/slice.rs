//! The seeds of one batch, and how a refused batch is narrowed down to the row that refuses.

use crate::batch::RowAddress;

/// The seeds of one batch.
///
/// # Invariant
/// `seeds.len() <= max_rows`: a batch has room for all its seeds, so none is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) seeds: Vec<RowAddress>,
    pub(crate) max_rows: u32,
    /// Part of a bisection: its frontier stays apart, so that one bad row does not spoil full batches again.
    pub(crate) narrowed: bool,
    /// These rows refused once already: the next refusal sets them aside.
    pub(crate) last_try: bool,
}

/// What is left of a refused slice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Narrowed {
    /// Smaller slices, to be worked from the last to the first.
    Parts(Vec<Slice>),
    /// One row that has refused twice.
    Row(RowAddress),
}

impl Slice {
    /// An ordinary batch.
    pub(crate) fn full(seeds: Vec<RowAddress>, max_rows: u32) -> Self {
        Self { seeds, max_rows, narrowed: false, last_try: false }
    }

    /// One row at a time, each for the last time.
    pub(crate) fn last_tries(rows: &[RowAddress]) -> Vec<Self> {
        Self::parts(rows, 1, true, true)
    }

    /// Slices of at most `max_rows` seeds, the first one last: slices are worked from the end.
    pub(crate) fn parts(seeds: &[RowAddress], max_rows: u32, narrowed: bool, last_try: bool) -> Vec<Self> {
        let slice = |part: &[RowAddress]| Self { seeds: part.to_vec(), max_rows, narrowed, last_try };
        seeds.chunks(max_rows as usize).rev().map(slice).collect()
    }

    /// Fewer seeds, then fewer ancestors, then one more try of the one row left with a fresh snapshot (the refusal
    /// may have been a race), then that row.
    pub(crate) fn narrow(mut self) -> Narrowed {
        self.narrowed = true;
        match *self.seeds.as_slice() {
            [row] if self.max_rows == 1 && self.last_try => Narrowed::Row(row),
            [row] if self.max_rows == 1 => Narrowed::Parts(Self::last_tries(&[row])),
            [_] => Narrowed::Parts(vec![Self { max_rows: self.max_rows / 2, ..self }]),
            _ => {
                let upper = self.seeds.split_off(self.seeds.len() / 2);
                Narrowed::Parts(vec![Self { seeds: upper, ..self.clone() }, self])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Vec<RowAddress> {
        (0..count).map(RowAddress).collect()
    }

    #[test]
    fn one_bad_row_in_a_full_batch_is_found_in_a_bounded_number_of_tries() {
        let bad = RowAddress(3777);
        let (mut slices, mut tries) = (vec![Slice::full(rows(5000), 5000)], 0);
        let found = loop {
            let Some(slice) = slices.pop() else { break None };
            assert!(slice.seeds.len() <= slice.max_rows as usize);
            if !slice.seeds.contains(&bad) {
                continue;
            }
            tries += 1;
            match slice.narrow() {
                Narrowed::Parts(parts) => slices.extend(parts),
                Narrowed::Row(row) => break Some(row),
            }
        };
        assert_eq!(found, Some(bad));
        assert!(tries <= 13 + 13 + 2, "{tries}");
    }

    #[test]
    fn parts_are_worked_in_the_order_of_the_rows() {
        let mut parts = Slice::parts(&rows(5), 2, true, false);
        let order: Vec<_> = std::iter::from_fn(|| parts.pop()).flat_map(|slice| slice.seeds).collect();
        assert_eq!(order, rows(5));
    }
}
