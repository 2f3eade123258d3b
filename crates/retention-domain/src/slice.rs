//! The rows of one batch, and how a refused batch is narrowed down to the row that refuses.

use crate::batch::RowAddress;

/// The rows of one batch, children before parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) rows: Vec<RowAddress>,
    /// Sent as [`crate::BatchRequest::contended`].
    pub(crate) contended: bool,
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
    /// Slices of at most `max_rows` rows, the first one last: slices are worked from the end. Contended, because what is
    /// cut up has met with something.
    pub(crate) fn parts(rows: &[RowAddress], max_rows: usize, last_try: bool) -> Vec<Self> {
        let part = |part: &[RowAddress]| Self { rows: part.to_vec(), contended: true, last_try };
        rows.chunks(max_rows.max(1)).rev().map(part).collect()
    }

    /// Two halves, children before parents; of a single row, one more try with a fresh snapshot (the refusal may
    /// have been a race); then that row.
    pub(crate) fn narrow(self) -> Narrowed {
        match *self.rows.as_slice() {
            [row] if self.last_try => Narrowed::Row(row),
            [_] => Narrowed::Parts(vec![Self { contended: true, last_try: true, ..self }]),
            _ => Narrowed::Parts(Self::parts(&self.rows, self.rows.len().div_ceil(2), self.last_try)),
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
        let (mut slices, mut tries) = (Slice::parts(&rows(5000), 5000, false), 0);
        let found = loop {
            let Some(slice) = slices.pop() else { break None };
            if !slice.rows.contains(&bad) {
                continue;
            }
            tries += 1;
            match slice.narrow() {
                Narrowed::Parts(parts) => slices.extend(parts),
                Narrowed::Row(row) => break Some(row),
            }
        };
        assert_eq!(found, Some(bad));
        assert!(tries <= 13 + 2, "{tries}");
    }

    #[test]
    fn parts_are_worked_in_the_order_of_the_rows() {
        let mut parts = Slice::parts(&rows(5), 2, false);
        let order: Vec<_> = std::iter::from_fn(|| parts.pop()).flat_map(|slice| slice.rows).collect();
        assert_eq!(order, rows(5));
    }
}
