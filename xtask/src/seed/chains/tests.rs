//! Properties that hold for chains of every shape; no server, so nothing here sees what it would refuse.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::seed::shape::{Depths, MARGIN};

const NOW: Micros = 26 * 365 * DAY;

prop_compose! {
    fn any_shape()(
        due in 0..400_u32,
        fresh in 1..200_u32,
        depths in prop::sample::select(vec!["1:1", "10:1", "1:0.5,10:0.4,100:0.1", "2:0.2,300:0.8"]),
        forks in prop::sample::select(vec![0.0, 0.1, 0.5, 1.0]),
        active_share in prop::sample::select(vec![0.0, 0.2, 0.9]),
        age_span in prop::sample::select(vec![1, 24 * 30, 24 * 365, 24 * 36_500]),
        random in any::<bool>(),
        seed in any::<u64>(),
    ) -> Shape {
        Shape {
            refresh_due: due,
            refresh_fresh: fresh,
            depths: depths.parse::<Depths>().unwrap(),
            forks,
            active_share: if due == 0 { 0.0 } else { active_share },
            age_span: Duration::from_hours(age_span),
            users: 7,
            order: if random { Order::Random } else { Order::Age },
            seed,
            ..Shape::default()
        }
    }
}

proptest! {
    #[test]
    fn counts_add_up_to_what_was_asked_for(shape in any_shape()) {
        let moments = Moments::at(NOW, shape.age_span);
        let forest = Forest::grow(&shape, &moments).unwrap();
        let is_due = |row: &&Row| row.status != Status::Active && row.updated_at < moments.refresh_cutoff;

        prop_assert_eq!(forest.counts.rows, forest.rows.len() as u64);
        prop_assert_eq!(forest.counts.deletable, u64::from(shape.refresh_due));
        prop_assert_eq!(forest.counts.due(), forest.rows.iter().filter(is_due).count() as u64);
        let roots = forest.rows.iter().filter(|row| row.parent.is_none()).count();
        prop_assert_eq!(forest.chains, roots as u64);
        if shape.active_share == 0.0 {
            prop_assert_eq!(forest.counts.rows, u64::from(shape.refresh_due + shape.refresh_fresh));
            prop_assert_eq!(forest.counts.blocked, 0);
        }
    }

    #[test]
    fn a_rotation_is_one_instant_and_time_goes_down_the_chain(shape in any_shape()) {
        let moments = Moments::at(NOW, shape.age_span);
        let forest = Forest::grow(&shape, &moments).unwrap();
        for row in &forest.rows {
            prop_assert!(row.created_at < row.updated_at && row.updated_at <= NOW);
            prop_assert!(row.expires_at(NOW) >= row.updated_at);
            if let Some(parent) = row.parent {
                let parent = &forest.rows[parent as usize];
                prop_assert_eq!(parent.updated_at, row.created_at);
                prop_assert_eq!(parent.status, Status::Rotated);
                prop_assert_eq!(parent.user, row.user);
            }
        }
    }

    #[test]
    fn ages_keep_within_the_span_and_off_the_margin(shape in any_shape()) {
        let moments = Moments::at(NOW, shape.age_span);
        let cutoff = moments.refresh_cutoff;
        for row in Forest::grow(&shape, &moments).unwrap().rows {
            prop_assert!(row.updated_at >= cutoff - moments.age_span);
            prop_assert!(row.updated_at < cutoff || row.updated_at >= cutoff + MARGIN);
        }
    }

    #[test]
    fn every_row_is_inserted_once_and_by_age_if_asked(shape in any_shape()) {
        let forest = Forest::grow(&shape, &Moments::at(NOW, shape.age_span)).unwrap();
        let order = forest.insertion_order(&shape);
        let distinct: HashSet<u32> = order.iter().copied().collect();
        prop_assert_eq!((order.len(), distinct.len()), (forest.rows.len(), forest.rows.len()));
        if shape.order == Order::Age {
            prop_assert!(order.is_sorted_by_key(|&place| forest.rows[place as usize].created_at));
        }
    }
}

#[test]
fn old_rows_above_a_living_leaf_are_blocked() {
    let rows = [(None, Status::Rotated, 1), (Some(0), Status::Rotated, 2), (Some(1), Status::Active, 3)];
    let mut forest = Forest { counts: TableCounts::default(), chains: 1, rows: rows.map(row).into() };
    forest.count_from(0, 10);
    assert_eq!(forest.counts, TableCounts { rows: 3, deletable: 0, blocked: 2 });
}

#[test]
fn a_due_branch_beside_a_young_one_is_deletable() {
    let rows = [(None, Status::Rotated, 1), (Some(0), Status::Revoked, 2), (Some(0), Status::Expired, 10)];
    let mut forest = Forest { counts: TableCounts::default(), chains: 1, rows: rows.map(row).into() };
    forest.count_from(0, 10);
    assert_eq!(forest.counts, TableCounts { rows: 3, deletable: 1, blocked: 1 });
}

fn row((parent, status, updated_at): (Option<u32>, Status, Micros)) -> Row {
    Row { id: Uuid::nil(), parent, user: 0, status, created_at: 0, updated_at }
}
