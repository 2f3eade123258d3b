//! How many chains of which form a shape asks for: pure arithmetic, no rows yet.

use anyhow::ensure;

use super::shape::{Depths, MAX_ROWS, Shape};

/// Parents in the small tree, by position: node 1 and node 2 fork, nodes 4, 5 and 6 are the leaves.
const TREE: [Option<u32>; 7] = [None, Some(0), Some(1), Some(1), Some(2), Some(2), Some(3)];

/// Rows of a small tree.
const TREE_ROWS: u32 = 7;

/// Chains that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// What becomes of them.
    pub family: Family,
    /// How their rows refer to each other.
    pub form: Form,
    /// How many there are.
    pub chains: u32,
}

/// What becomes of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every row is terminal and older than the cutoff.
    Due,
    /// Old rotated rows, perhaps young ones, and a living leaf.
    Active,
    /// Every row is younger than the cutoff.
    Fresh,
}

/// How the rows of a chain refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each row has one child but the last; this many rows.
    Line(u32),
    /// Seven rows with two forks and three leaves.
    Tree,
}

impl Form {
    /// Number of rows.
    pub fn rows(self) -> u32 {
        match self {
            Self::Line(rows) => rows,
            Self::Tree => TREE_ROWS,
        }
    }

    /// Position of the parent of the row at `position`; always smaller than `position`, `None` for the root.
    pub fn parent(self, position: u32) -> Option<u32> {
        match self {
            Self::Line(_) => position.checked_sub(1),
            Self::Tree => TREE[position as usize],
        }
    }

    /// Whether no row refers to the one at `position`.
    pub fn is_leaf(self, position: u32) -> bool {
        match self {
            Self::Line(rows) => position + 1 == rows,
            Self::Tree => position >= 4,
        }
    }
}

/// Divides the rows of a shape into chains.
///
/// # Errors
///
/// When the chains with a living leaf would take the table above [`MAX_ROWS`].
pub fn groups(shape: &Shape) -> anyhow::Result<Vec<Group>> {
    let due = divide(shape.refresh_due, shape.forks, &shape.depths);
    let fresh = divide(shape.refresh_fresh, shape.forks, &shape.depths);
    let due_chains: u32 = due.iter().map(|(_, chains)| chains).sum();
    let active = f64::from(due_chains) * shape.active_share / (1.0 - shape.active_share);
    let active_rows = active / chains_per_row(&shape.depths);
    let rows = active_rows + f64::from(shape.refresh_due) + f64::from(shape.refresh_fresh);
    ensure!(
        rows <= f64::from(MAX_ROWS),
        "active-share {}: adds {active_rows:.0} refresh sessions, which makes more than {MAX_ROWS} in all",
        shape.active_share
    );
    let weights: Vec<f64> =
        shape.depths.shares().iter().map(|&(depth, share)| share / f64::from(depth)).collect();
    let depths = shape.depths.shares().iter().map(|&(depth, _)| Form::Line(depth));
    let active = depths.zip(apportion(whole(active), &weights));

    let due = due.into_iter().map(|(form, chains)| Group { family: Family::Due, form, chains });
    let active = active.map(|(form, chains)| Group { family: Family::Active, form, chains });
    let fresh = fresh.into_iter().map(|(form, chains)| Group { family: Family::Fresh, form, chains });
    Ok(due.chain(active).chain(fresh).filter(|group| group.chains > 0).collect())
}

/// Forms whose rows add up to exactly `rows`: a share of trees, else lines; what does not fill a line of its
/// depth makes a shorter one.
fn divide(rows: u32, forks: f64, depths: &Depths) -> Vec<(Form, u32)> {
    // forks = trees / (trees + lines) and lines = (rows - 7 trees) × chains per row, solved for the trees.
    let lines = forks * chains_per_row(depths);
    let trees =
        whole(f64::from(rows) * lines / (1.0 - forks + f64::from(TREE_ROWS) * lines)).min(rows / TREE_ROWS);
    let shares: Vec<f64> = depths.shares().iter().map(|&(_, share)| share).collect();
    let in_lines = apportion(rows - trees * TREE_ROWS, &shares);
    let mut result = vec![(Form::Tree, trees)];
    for (&(depth, _), rows) in depths.shares().iter().zip(in_lines) {
        result.push((Form::Line(depth), rows / depth));
        result.push((Form::Line(rows % depth), u32::from(!rows.is_multiple_of(depth))));
    }
    result
}

fn chains_per_row(depths: &Depths) -> f64 {
    depths.shares().iter().map(|&(depth, share)| share / f64::from(depth)).sum()
}

/// Parts in proportion to the weights that add up to exactly `total`: each running sum is rounded, not each part.
fn apportion(total: u32, weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let (mut weight, mut given) = (0.0, 0);
    let part = |w: &f64| {
        weight += w;
        let up_to_here = whole(f64::from(total) * weight / sum);
        up_to_here - std::mem::replace(&mut given, up_to_here)
    };
    weights.iter().map(part).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "all numbers here are parts of at most MAX_ROWS and never negative"
)]
fn whole(number: f64) -> u32 {
    number.round() as u32
}

#[cfg(test)]
mod tests {

    use super::*;

    fn divided(rows: u32, forks: f64, depths: &str) -> Vec<(Form, u32)> {
        divide(rows, forks, &depths.parse().unwrap()).into_iter().filter(|&(_, chains)| chains > 0).collect()
    }

    #[test]
    fn a_rest_makes_one_shorter_line() {
        assert_eq!(divided(25, 0.0, "10:1"), [(Form::Line(10), 2), (Form::Line(5), 1)]);
    }

    #[test]
    fn depths_get_their_share_of_the_rows() {
        let expected = [(Form::Line(1), 5000), (Form::Line(10), 400), (Form::Line(1000), 1)];
        assert_eq!(divided(10_000, 0.0, "1:0.5,10:0.4,1000:0.1"), expected);
    }

    #[test]
    fn forks_are_a_share_of_the_chains() {
        assert_eq!(divided(17 * 50, 0.5, "10:1"), [(Form::Tree, 50), (Form::Line(10), 50)]);
        assert_eq!(divided(15, 1.0, "10:1"), [(Form::Tree, 2), (Form::Line(1), 1)]);
    }

    #[test]
    fn the_tree_has_two_forks_and_three_leaves() {
        let children =
            |position| (0..TREE_ROWS).filter(|&row| Form::Tree.parent(row) == Some(position)).count();
        let counts: Vec<usize> = (0..TREE_ROWS).map(children).collect();
        assert_eq!(counts, [1, 2, 2, 1, 0, 0, 0]);
        for position in 0..TREE_ROWS {
            assert_eq!(Form::Tree.is_leaf(position), children(position) == 0);
            assert!(Form::Tree.parent(position).is_none_or(|parent| parent < position));
        }
    }
}
