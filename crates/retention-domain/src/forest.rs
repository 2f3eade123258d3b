//! The leaf rule over a window: which of its rows are free, and in which order they go.

use crate::batch::{RowAddress, WindowRow};
use crate::positions::Positions;

const NONE: u32 = u32::MAX;

/// The free rows of a window, in an order in which they can go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Children before parents, so that every prefix is closed under children: what refers to a row of the prefix
    /// and is due lies in the prefix too. Within that, oldest leaves first, each chain in one piece.
    pub rows: Vec<RowAddress>,
    /// For each of the rows, whether the row before it refers to it: a batch that begins there has to wait for the
    /// batch before it.
    pub continues: Vec<bool>,
    /// Due parents of free rows that are no part of the window: once those rows are gone, they may be free too.
    pub outside: Vec<RowAddress>,
}

/// Plans the rows of a window, which come oldest first.
///
/// A row is free when nothing outside the window refers to it (`held_back`) and all rows of the window that refer to
/// it are free. Hence an ancestor of a held-back row is never planned, and neither is a row on a cycle: on it, no
/// row can be first. This is a plan, not a permission: the deleting statement applies the rule once more.
#[must_use]
pub fn plan(window: &[WindowRow]) -> Planned {
    if window.iter().all(|row| row.parent().is_none()) {
        let rows: Vec<_> = window.iter().filter(|row| !row.is_held_back()).map(|row| row.address).collect();
        return Planned { continues: vec![false; rows.len()], rows, outside: Vec::new() };
    }
    let parents = parents(window);
    // Rows that still refer to each row; NONE once it is planned.
    let mut children = vec![0_u32; window.len()];
    for &parent in parents.iter().filter(|&&parent| parent != NONE) {
        children[parent as usize] += 1;
    }
    let mut planned = Planned::default();
    for leaf in 0..window.len() {
        let mut row = leaf;
        while children[row] == 0 && !window[row].is_held_back() {
            children[row] = NONE;
            planned.rows.push(window[row].address);
            planned.continues.push(row != leaf);
            match (parents[row], window[row].parent()) {
                (NONE, Some(outside)) => planned.outside.push(outside),
                (NONE, None) => {}
                (parent, _) => {
                    row = parent as usize;
                    children[row] -= 1;
                }
            }
        }
    }
    planned.outside.sort_unstable();
    planned.outside.dedup();
    planned
}

/// Where in the window each row's parent stands; [`NONE`] if it is not there.
fn parents(window: &[WindowRow]) -> Vec<u32> {
    let by_address = Positions::new(window.len(), |row| window[row].address.0);
    let find = |parent: RowAddress| by_address.find(parent.0).and_then(|row| u32::try_from(row).ok());
    window.iter().map(|row| row.parent().and_then(find).unwrap_or(NONE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: u64, parent: Option<u64>) -> WindowRow {
        WindowRow::new(RowAddress(address), parent.map(RowAddress), false)
    }

    fn planned(window: &[WindowRow]) -> (Vec<u64>, Vec<u64>) {
        let Planned { rows, outside, .. } = plan(window);
        (rows.into_iter().map(|row| row.0).collect(), outside.into_iter().map(|row| row.0).collect())
    }

    #[test]
    fn chains_go_leaf_first_and_in_one_piece_oldest_leaf_first() {
        let window = [row(1, None), row(2, Some(1)), row(10, None), row(11, Some(10)), row(3, Some(2))];
        assert_eq!(planned(&window), (vec![11, 10, 3, 2, 1], vec![]));
        assert_eq!(plan(&window).continues, [false, true, false, true, true]);
    }

    #[test]
    fn a_fork_waits_for_both_children() {
        let window = [row(1, None), row(2, Some(1)), row(3, Some(1))];
        assert_eq!(planned(&window).0, [2, 3, 1]);
    }

    #[test]
    fn nothing_above_a_held_back_row_is_planned() {
        let held_back = WindowRow::new(RowAddress(2), Some(RowAddress(1)), true);
        let window = [row(1, None), held_back, row(3, Some(2)), row(4, Some(1))];
        assert_eq!(planned(&window).0, [3, 4]);
    }

    #[test]
    fn cycles_are_not_planned_but_what_hangs_below_them_is() {
        let window = [row(1, Some(2)), row(2, Some(1)), row(3, Some(1)), row(4, Some(4))];
        assert_eq!(planned(&window).0, [3]);
    }

    #[test]
    fn parents_beyond_the_window_are_named_once() {
        let window = [row(1, Some(100)), row(2, Some(100)), row(3, Some(99))];
        assert_eq!(planned(&window), (vec![1, 2, 3], vec![99, 100]));
    }
}
