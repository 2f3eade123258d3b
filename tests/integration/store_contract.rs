//! What every [`RetentionStore`] owes the loop, checked on the one in memory and on PostgreSQL: this is what lets the
//! fast tests of the domain be trusted.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use retention_domain::guard::{Condition, Test, Value};
use retention_domain::ports::RetentionStore;
use retention_domain::testing::{Fate, MemoryRow, fates};
use retention_domain::{Backlog, BatchDone, FailureKind, RowAddress, Sample, WindowRow};

use crate::stores::{LIMIT, Lab, target};

/// A row that was dated so many microseconds before the cutoff.
fn row(before_cutoff: i64, status: &str, parent: u64) -> MemoryRow {
    MemoryRow {
        age: Some(target().cutoff.instant() - TimeDelta::microseconds(before_cutoff)),
        status: Some(status.to_owned()),
        parent: (parent > 0).then_some(RowAddress(parent)),
    }
}

fn rows(rows: impl IntoIterator<Item = MemoryRow>) -> BTreeMap<u64, MemoryRow> {
    (1..).zip(rows).collect()
}

/// Rows whose parents are these (0 for none), all due; a child is younger than its parent.
fn forest<const N: usize>(parents: [u64; N]) -> BTreeMap<u64, MemoryRow> {
    rows((0_i64..).zip(parents).map(|(n, parent)| row(1000 - n, "Rotated", parent)))
}

/// Chains with and without a living end: 1 ← 2 ← 3; 4 ← 5 (living); 6 (living) ← 7; 8.
fn some_alive() -> BTreeMap<u64, MemoryRow> {
    rows([
        row(99, "Rotated", 0),
        row(98, "Rotated", 1),
        row(97, "Rotated", 2),
        row(96, "Rotated", 0),
        row(95, "Active", 4),
        row(94, "Active", 0),
        row(93, "Revoked", 6),
        row(92, "Expired", 0),
    ])
}

async fn only_rows_strictly_before_the_cutoff_are_due<L: Lab>() -> Result<()> {
    let undated = MemoryRow { age: None, ..row(1, "Rotated", 0) };
    let lab =
        L::with(rows([row(1, "Rotated", 0), row(0, "Rotated", 0), row(-1, "Rotated", 0), undated])).await?;
    let window = lab.store().window(&target(), None, 10, LIMIT).await?;
    assert_eq!(window.rows, [WindowRow::new(lab.address(1), None, false)]);
    assert_eq!(lab.store().count_due(&target(), LIMIT).await?.pending, 1);
    assert_eq!(lab.store().preview(&target(), LIMIT).await?.undated, 1);
    assert_eq!(lab.delete(1..=4).await?, BatchDone { deleted: 1, missing: 3, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [2, 3, 4]);
    Ok(())
}

async fn no_row_goes_that_fails_a_condition<L: Lab>() -> Result<()> {
    let lab =
        L::with(rows(["Active", "Odd", "rotated", "", "Revoked", "Expired"].map(|status| row(9, status, 0))))
            .await?;
    assert_eq!(lab.store().preview(&target(), LIMIT).await?.unknown_status, 3);
    assert_eq!(lab.delete(1..=6).await?, BatchDone { deleted: 2, missing: 4, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [1, 2, 3, 4]);
    Ok(())
}

async fn no_row_goes_that_was_not_asked_for<L: Lab>() -> Result<()> {
    let lab = L::with(forest([0, 0, 0, 3, 4])).await?;
    assert_eq!(lab.delete([1, 5]).await?.deleted, 2);
    assert_eq!(lab.left().await?, [2, 3, 4]);
    assert_eq!(lab.delete([]).await?, BatchDone::default());
    Ok(())
}

async fn an_address_where_nothing_is_any_more_is_no_failure<L: Lab>() -> Result<()> {
    let lab = L::with(forest([0, 0])).await?;
    assert_eq!(lab.delete([1]).await?.deleted, 1);
    assert_eq!(lab.delete([1]).await?, BatchDone { missing: 1, ..BatchDone::default() });
    assert_eq!(lab.delete([1, 2]).await?.deleted, 1);
    Ok(())
}

async fn a_row_goes_only_with_all_that_refer_to_it<L: Lab>() -> Result<()> {
    // 1 ← 2 ← 3, and 2 ← 4, and 1 ← 5.
    let lab = L::with(forest([0, 1, 2, 2, 1])).await?;
    for asked in [vec![1], vec![2], vec![1, 2], vec![1, 5, 2]] {
        let goes = u64::from(asked.contains(&5));
        assert_eq!(lab.delete(asked).await?, BatchDone { deleted: goes, ..BatchDone::default() });
    }
    assert_eq!(lab.delete([1, 2, 3]).await?.deleted, 1);
    assert_eq!(lab.left().await?, [1, 2, 4]);
    assert_eq!(lab.delete([4, 2, 1]).await?.deleted, 3);
    Ok(())
}

async fn a_row_above_one_that_stays_stays<L: Lab>() -> Result<()> {
    for child in [
        row(9, "Active", 2),
        row(-9, "Rotated", 2),
        row(9, "Odd", 2),
        MemoryRow { age: None, ..row(9, "Rotated", 2) },
    ] {
        let lab = L::with(rows([row(99, "Rotated", 0), row(98, "Rotated", 1), child, row(97, "Revoked", 1)]))
            .await?;
        assert_eq!(lab.delete(1..=4).await?, BatchDone { deleted: 1, missing: 1, ..BatchDone::default() });
        assert_eq!(lab.left().await?, [1, 2, 3]);
    }
    Ok(())
}

async fn a_held_row_is_passed_over_and_costs_its_own_ancestors<L: Lab>() -> Result<()> {
    let mut lab = L::with(forest([0, 1, 2, 3, 0, 5, 0])).await?;
    lab.hold(3).await?;
    lab.hold(7).await?;
    let done = tokio::time::timeout(Duration::from_secs(20), lab.delete(1..=7))
        .await
        .context("waits for a row")??;
    assert_eq!(done, BatchDone { deleted: 3, held: 2, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [1, 2, 3, 7]);
    // Scans and counts do not care who holds what.
    assert_eq!(lab.store().backlog(&target(), LIMIT).await?.pending, 4);
    assert_eq!(lab.store().window(&target(), None, 10, LIMIT).await?.rows.len(), 4);
    Ok(())
}

async fn rows_that_nobody_else_was_met_on_go_at_once<L: Lab>() -> Result<()> {
    let lab = L::with(forest([0, 1, 2, 2, 0, 5])).await?;
    assert_eq!(lab.batch(1..=4, false).await?, BatchDone { deleted: 4, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [5, 6]);
    Ok(())
}

async fn a_row_that_is_still_referred_to_stays_whether_it_is_looked_at_first_or_not<L: Lab>() -> Result<()> {
    let lab = L::with(forest([0, 1, 0])).await?;
    let failure = lab.batch([1, 3], false).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Row, "{}", failure.sentence);
    assert_eq!(lab.left().await?, [1, 2, 3]);
    assert_eq!(lab.batch([1, 3], true).await?, BatchDone { deleted: 1, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [1, 2]);
    Ok(())
}

async fn a_batch_that_meets_somebody_takes_what_is_free<L: Lab>() -> Result<()> {
    let mut lab = L::with(forest([0, 1, 2, 0, 4, 0])).await?;
    assert_eq!(lab.batch([6], false).await?.deleted, 1);
    let failure = lab.batch([5, 4, 6], false).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Row, "one is not there any more: {}", failure.sentence);
    lab.hold(2).await?;
    let failure = lab.batch([3, 2, 1, 5, 4], false).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Locked, "one is held: {}", failure.sentence);
    let done = lab.batch([3, 2, 1, 5, 4, 6], true).await?;
    assert_eq!(done, BatchDone { deleted: 3, held: 1, missing: 1, ..BatchDone::default() });
    assert_eq!(lab.left().await?, [1, 2]);
    Ok(())
}

async fn every_kind_of_condition_decides_at_the_window_and_at_the_delete<L: Lab>() -> Result<()> {
    let text = |text: &str| Value::Text(text.to_owned());
    let statuses = [Some("Sent"), Some("Failed"), Some("it's \"odd\""), Some(""), None];
    for (test, goes) in [
        (Test::In(vec![text("Sent"), text("it's \"odd\"")]), vec![1, 3]),
        (Test::In(vec![text("Lost")]), vec![]),
        (Test::NotIn(vec![text("Sent"), text("")]), vec![2, 3]),
        (Test::NotIn(vec![text("Lost")]), vec![1, 2, 3, 4]),
        (Test::IsNull, vec![5]),
        (Test::IsNotNull, vec![1, 2, 3, 4]),
    ] {
        let lab = L::with(rows(
            statuses.map(|status| MemoryRow { status: status.map(str::to_owned), ..row(9, "", 0) }),
        ))
        .await?;
        let mut target = target();
        target.policy.conditions = vec![Condition { column: "status".to_owned(), test: test.clone() }];
        let window = lab.store().window(&target, None, 10, LIMIT).await?;
        let found: Vec<_> = window.rows.iter().map(|row| row.address).collect();
        assert_eq!(found, goes.iter().map(|n| lab.address(*n)).collect::<Vec<_>>(), "{test:?}");
        let done = lab.batch_of(&target, 1..=5, true).await?;
        assert_eq!((done.deleted, done.missing), (goes.len() as u64, 5 - goes.len() as u64), "{test:?}");
        let stays: Vec<_> = (1..=5).filter(|n| !goes.contains(n)).collect();
        assert_eq!(lab.left().await?, stays, "{test:?}");
    }
    Ok(())
}

async fn a_window_pages_through_all_due_rows_in_order_also_when_all_are_of_one_age<L: Lab>() -> Result<()> {
    let spread =
        rows((0_i64..23).map(|n| row(100 - n / 5, if n % 7 == 3 { "Active" } else { "Expired" }, 0)));
    let equal = rows((0..9).map(|_| row(5, "Expired", 0)));
    for rows in [spread, equal] {
        let lab = L::with(rows.clone()).await?;
        let mut expected: Vec<_> = rows
            .iter()
            .filter(|(_, row)| row.is_due(&target()))
            .map(|(n, row)| (row.age, lab.address(*n)))
            .collect();
        expected.sort_unstable();
        for page in [1, 2, 7, 100] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let window = lab.store().window(&target(), after, page, LIMIT).await?;
                assert!(window.rows.len() <= page);
                found.extend(window.rows.iter().map(|row| row.address));
                after = window.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(
                found.iter().eq(expected.iter().map(|(_, address)| address)),
                "pages of {page}: {found:?}"
            );
        }
    }
    Ok(())
}

async fn a_window_knows_parents_and_who_is_held_back<L: Lab>() -> Result<()> {
    let lab = L::with(some_alive()).await?;
    let row = |n, parent: Option<u64>, held_back| {
        WindowRow::new(lab.address(n), parent.map(|n| lab.address(n)), held_back)
    };
    let all = [
        row(1, None, false),
        row(2, Some(1), false),
        row(3, Some(2), false),
        row(4, None, true),
        row(7, None, false),
        row(8, None, false),
    ];
    assert_eq!(lab.store().window(&target(), None, 10, LIMIT).await?.rows, all);
    // The child of the second row is on the next page.
    let first = lab.store().window(&target(), None, 2, LIMIT).await?;
    assert_eq!(first.rows, [row(1, None, false), row(2, Some(1), true)]);
    let second = lab.store().window(&target(), first.next, 2, LIMIT).await?;
    assert_eq!(second.rows, [row(3, Some(2), false), row(4, None, true)]);
    Ok(())
}

async fn leaves_are_due_rows_that_nothing_refers_to_with_their_due_parents<L: Lab>() -> Result<()> {
    let lab = L::with(some_alive()).await?;
    let row = |n, parent: Option<u64>| WindowRow::new(lab.address(n), parent.map(|n| lab.address(n)), false);
    let all = [row(3, Some(2)), row(7, None), row(8, None)];
    for page in 1..5 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let window = lab.store().leaves(&target(), after, page, LIMIT).await?;
            assert!(window.rows.len() <= page);
            found.extend(window.rows);
            after = window.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, all, "pages of {page}");
    }
    Ok(())
}

async fn a_sample_of_every_block_tells_all_leaves_and_all_ends_of_what_is_blocked<L: Lab>() -> Result<()> {
    // The fourth row gets two children more: one that is due, and one without a date.
    let mut shape = some_alive();
    shape.insert(9, row(91, "Rotated", 4));
    shape.insert(10, MemoryRow { age: None, ..row(1, "Rotated", 4) });
    let lab = L::with(shape).await?;
    assert_eq!(lab.store().sample(&target(), 1, LIMIT).await?, Sample { leaves: 4, blocked_ends: 1 });
    let empty = L::with(BTreeMap::new()).await?;
    assert_eq!(empty.store().sample(&target(), 1, LIMIT).await?, Sample::default());
    Ok(())
}

async fn a_climb_brings_what_becomes_free_children_first<L: Lab>() -> Result<()> {
    // 1 ← 2 ← 3 ← 4; 5 ← 6 and 5 ← 7.
    let lab = L::with(forest([0, 1, 2, 3, 0, 5, 5])).await?;
    let from = |numbers: &[u64]| numbers.iter().map(|n| lab.address(*n)).collect::<Vec<_>>();
    let climbed = async |numbers: &[u64], most: usize| -> Result<Vec<RowAddress>> {
        let rows = lab.store().climb(&target(), &from(numbers), most, LIMIT).await?;
        Ok(rows.into_iter().map(|row| row.address).collect())
    };
    assert_eq!(climbed(&[4], 10).await?, from(&[4, 3, 2, 1]));
    assert_eq!(climbed(&[4], 2).await?, from(&[4, 3]));
    assert_eq!(climbed(&[2], 10).await?, [], "another row refers to it");
    assert_eq!(climbed(&[6], 10).await?, from(&[6]), "its parent has another child");
    assert_eq!(climbed(&[], 10).await?, []);
    Ok(())
}

async fn counts_agree_with_each_other_and_with_the_rule<L: Lab>() -> Result<()> {
    let mut shape = forest([0, 1, 2, 2, 0, 5, 8, 9, 7, 9, 11, 0]);
    shape.get_mut(&3).unwrap().status = Some("Active".to_owned());
    shape.get_mut(&12).unwrap().age = None;
    let lab = L::with(shape.clone()).await?;
    let by_address = shape.into_iter().map(|(n, row)| (RowAddress(n), row)).collect();
    let fates = fates(&target(), &by_address);
    let of = |fate: Fate| {
        let rows = fates
            .iter()
            .filter(move |(_, of)| **of == fate)
            .map(|(address, _)| by_address[address].age.unwrap());
        (rows.clone().count() as u64, rows.min())
    };
    let ((goes, oldest_pending), (blocked, oldest_blocked)) = (of(Fate::Goes), of(Fate::Blocked));
    assert_eq!((goes, blocked), (4, 6), "the shape has both, and rows on a cycle");
    let backlog = lab.store().backlog(&target(), LIMIT).await?;
    assert_eq!(backlog, Backlog { pending: goes, blocked, oldest_pending, oldest_blocked });
    let due = lab.store().count_due(&target(), LIMIT).await?;
    assert_eq!((due.pending, due.oldest_pending), (backlog.total(), backlog.oldest()));
    let preview = lab.store().preview(&target(), LIMIT).await?;
    assert_eq!((preview.due, preview.deletable, preview.blocked), (goes + blocked, goes, blocked));
    assert_eq!((preview.undated, preview.oldest), (1, backlog.oldest()));
    Ok(())
}

/// Each obligation as a test of each store.
macro_rules! store_contract {
    ($($obligation:ident,)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $obligation() -> anyhow::Result<()> {
                super::$obligation::<crate::stores::Memory>().await
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $obligation() -> anyhow::Result<()> {
                super::$obligation::<crate::stores::Server>().await
            })*
        }
    };
}

store_contract! {
    only_rows_strictly_before_the_cutoff_are_due,
    no_row_goes_that_fails_a_condition,
    no_row_goes_that_was_not_asked_for,
    an_address_where_nothing_is_any_more_is_no_failure,
    a_row_goes_only_with_all_that_refer_to_it,
    a_row_above_one_that_stays_stays,
    a_held_row_is_passed_over_and_costs_its_own_ancestors,
    every_kind_of_condition_decides_at_the_window_and_at_the_delete,
    rows_that_nobody_else_was_met_on_go_at_once,
    a_row_that_is_still_referred_to_stays_whether_it_is_looked_at_first_or_not,
    a_batch_that_meets_somebody_takes_what_is_free,
    a_window_pages_through_all_due_rows_in_order_also_when_all_are_of_one_age,
    a_window_knows_parents_and_who_is_held_back,
    leaves_are_due_rows_that_nothing_refers_to_with_their_due_parents,
    a_sample_of_every_block_tells_all_leaves_and_all_ends_of_what_is_blocked,
    a_climb_brings_what_becomes_free_children_first,
    counts_agree_with_each_other_and_with_the_rule,
}
