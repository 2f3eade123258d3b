//! The rule once more, formulated independently of every store: by walking each row's ancestors, not by
//! peeling leaves. Quadratic and simple on purpose: tests compare the stores with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::RowAddress;
use crate::plan::Target;
use crate::testing::memory::MemoryRow;

/// What the rule says about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Not due: young, undated, or not passing the conditions.
    Stays,
    /// Due, but a descendant stays, or it lies on a cycle.
    Blocked,
    /// Due, and so are all its descendants: one run removes it.
    Goes,
}

/// The fate of every row.
#[must_use]
pub fn fates(target: &Target, rows: &BTreeMap<RowAddress, MemoryRow>) -> BTreeMap<RowAddress, Fate> {
    let mut blocked = BTreeSet::new();
    let parent = |row: RowAddress| rows.get(&row).and_then(|row| row.parent);
    let follows_parents = target.policy.parent_column.is_some();
    for (&address, row) in rows.iter().filter(|_| follows_parents) {
        let stays = !row.is_due(target);
        // Above a row that stays everything is blocked; a row met again above itself is on a cycle.
        let mut seen = BTreeSet::new();
        let mut above = parent(address);
        while let Some(ancestor) = above.filter(|ancestor| seen.insert(*ancestor)) {
            if stays || ancestor == address {
                blocked.insert(ancestor);
            }
            above = parent(ancestor);
        }
    }
    rows.iter()
        .map(|(address, row)| {
            let fate = match (row.is_due(target), blocked.contains(address)) {
                (false, _) => Fate::Stays,
                (true, true) => Fate::Blocked,
                (true, false) => Fate::Goes,
            };
            (*address, fate)
        })
        .collect()
}
