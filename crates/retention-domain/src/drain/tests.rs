//! One policy by itself, without a store: what is offered next, and what each result means for the rest.

use chrono::{DateTime, Utc};

use super::*;
use crate::cutoff::Cutoff;
use crate::period::RetentionPeriod;
use crate::policy::RetentionPolicy;

const START: Duration = Duration::ZERO;
const WINDOW: usize = 1_000;
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

fn target(policy: fn(RetentionPeriod) -> RetentionPolicy) -> Target {
    let policy = policy(RetentionPeriod::from_days(30).unwrap());
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    Target { cutoff: Cutoff::before(now, policy.retention).unwrap(), policy }
}

fn chained() -> Target {
    target(RetentionPolicy::refresh)
}

fn flat() -> Target {
    target(RetentionPolicy::sicr)
}

/// Rows 1 to `count` without relatives.
fn lone(count: u64) -> Vec<WindowRow> {
    (1..=count).map(|row| WindowRow::new(RowAddress(row), None, false)).collect()
}

/// Row 1 is the leaf, each next row is the parent of the one before.
fn chain(count: u64) -> Vec<WindowRow> {
    let parent = |row| (row < count).then_some(RowAddress(row + 1));
    (1..=count).map(|row| WindowRow::new(RowAddress(row), parent(row), false)).collect()
}

fn window(rows: Vec<WindowRow>) -> Window {
    Window { rows, next: None }
}

/// A policy whose first and only window has these rows.
fn with_rows(target: &Target, batch_size: usize, rows: Vec<WindowRow>) -> Drain<'_> {
    let mut drain = Drain::new(target, batch_size, WINDOW, LOCK_TIMEOUT);
    assert_eq!(drain.next(START), Next::Step(Step::Prepare), "nothing before the table is checked");
    drain.prepared();
    if target.policy.parent_column.is_some() {
        assert_eq!(drain.next(START), Next::Step(Step::Count), "one plain count tells whether to scan");
        drain.counted(Backlog { pending: 1, ..Backlog::default() });
    }
    assert_eq!(drain.next(START), Next::Step(Step::Window(None)));
    drain.scanned(None, window(rows));
    drain
}

fn batch(drain: &mut Drain<'_>) -> Slice {
    batch_at(drain, START)
}

fn batch_at(drain: &mut Drain<'_>, now: Duration) -> Slice {
    match drain.next(now) {
        Next::Step(Step::Batch(slice)) => slice,
        other => panic!("a batch was expected, not {other:?}"),
    }
}

fn rows(slice: &Slice) -> Vec<u64> {
    slice.rows.iter().map(|row| row.0).collect()
}

fn done(deleted: u64) -> BatchDone {
    BatchDone { deleted, ..BatchDone::default() }
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "scripted")
}

fn oldest() -> WindowMark {
    WindowMark { age: DateTime::<Utc>::UNIX_EPOCH, address: RowAddress(1) }
}

#[test]
fn rows_without_relatives_go_side_by_side_and_a_cut_chain_waits_for_the_part_below() {
    let target = chained();
    let mut drain = with_rows(&target, 2, lone(4));
    assert_eq!((rows(&batch(&mut drain)), rows(&batch(&mut drain))), (vec![1, 2], vec![3, 4]));

    let mut drain = with_rows(&target, 2, chain(4));
    let below = batch(&mut drain);
    assert_eq!(rows(&below), [1, 2]);
    assert_eq!(drain.next(START), Next::Busy);
    drain.deleted(&below, done(2));
    assert_eq!(rows(&batch(&mut drain)), [3, 4]);
}

#[test]
fn a_pass_that_changed_something_is_followed_by_another_and_one_that_did_not_is_the_last() {
    let target = flat();
    let gone = BatchDone { missing: 1, ..BatchDone::default() };
    for (changed, batches) in [(done(1), 1), (gone, 0)] {
        let mut drain = with_rows(&target, 5, lone(1));
        let slice = batch(&mut drain);
        drain.deleted(&slice, changed);
        assert_eq!(drain.batches(), batches, "only those that deleted something");
        assert_eq!(drain.next(START), Next::Step(Step::Window(None)), "something may have become free");
        drain.scanned(None, window(Vec::new()));
        assert_eq!(drain.next(START), Next::Ended);
        let report = drain.into_report();
        assert_eq!((report.stop_reason, report.batches, report.skipped), (StopReason::Drained, batches, 0));
    }
}

/// Drains `target` in batches of three, one for each pass, each with this outcome; then what comes after the last.
fn after_passes(target: &Target, passes: &[(u64, u64)]) -> (Next, PolicyReport) {
    let mut drain = with_rows(target, 3, lone(3));
    for (pass, &(deleted, moved)) in passes.iter().enumerate() {
        if pass > 0 {
            assert_eq!(drain.next(START), Next::Step(Step::Window(None)), "pass {pass}");
            drain.scanned(None, window(lone(3)));
        }
        let slice = batch(&mut drain);
        drain.deleted(&slice, BatchDone { deleted, moved, ..BatchDone::default() });
    }
    (drain.next(START), drain.into_report())
}

#[test]
fn rows_that_move_may_be_a_race_once_and_twice_in_a_row_they_have_failed() {
    let target = flat();
    for (passes, error) in [
        (vec![(0, 1), (0, 1)], "1 row changes instead of going: a trigger updates what is to be deleted"),
        (
            vec![(1, 2), (0, 2), (0, 2)],
            "2 rows change instead of going: a trigger updates what is to be deleted",
        ),
    ] {
        let (next, report) = after_passes(&target, &passes);
        assert_eq!((next, report.stop_reason), (Next::Ended, StopReason::Error), "{passes:?}");
        assert_eq!((report.failed_rows, report.error.as_deref()), (passes[1].1, Some(error)));
    }
    for passes in [vec![(0, 1)], vec![(1, 1), (1, 1)], vec![(0, 1), (1, 0), (0, 1)]] {
        let (next, report) = after_passes(&target, &passes);
        assert_eq!((next, report.error), (Next::Step(Step::Window(None)), None), "{passes:?}");
    }
}

#[test]
fn held_rows_get_their_last_try_exactly_one_lock_timeout_later() {
    let target = flat();
    let mut drain = with_rows(&target, 5, lone(2));
    let held = BatchDone { held: 2, ..BatchDone::default() };
    let slice = batch(&mut drain);
    drain.deleted(&slice, held.clone());
    let later = Duration::from_secs(10);
    assert_eq!(drain.next(later), Next::NotBefore(later + LOCK_TIMEOUT));
    assert_eq!(drain.next(later + LOCK_TIMEOUT), Next::Step(Step::Window(None)));
    drain.scanned(None, window(lone(2)));
    let slice = batch_at(&mut drain, later + LOCK_TIMEOUT);
    drain.deleted(&slice, held);
    assert_eq!(drain.next(later + LOCK_TIMEOUT), Next::Ended);
    let report = drain.into_report();
    assert_eq!((report.stop_reason, report.skipped, report.batches), (StopReason::RowsHeld, 2, 0));
}

#[test]
fn after_a_batch_that_met_somebody_others_are_reckoned_with_until_one_meets_nobody() {
    let target = flat();
    let mut drain = with_rows(&target, 1, lone(4));
    let first = batch(&mut drain);
    assert!(!first.contended);
    assert_eq!(drain.batch_failed(first, &failure(FailureKind::Locked), START), Verdict::LookFirst);
    let again = batch(&mut drain);
    assert_eq!((rows(&again), again.contended), (vec![1], true));
    drain.deleted(&again, BatchDone { held: 1, ..BatchDone::default() });
    let second = batch(&mut drain);
    assert!(second.contended, "somebody is at work here, and there is too little elsewhere");
    drain.deleted(&second, done(1));
    assert!(!batch(&mut drain).contended);
}

#[test]
fn who_meets_another_worker_goes_on_with_younger_rows_and_comes_back() {
    let target = flat();
    let mut drain = with_rows(&target, 2, lone(20));
    let first = batch(&mut drain);
    assert_eq!(drain.batch_failed(first, &failure(FailureKind::Locked), START), Verdict::LookFirst);
    let again = batch(&mut drain);
    drain.deleted(&again, BatchDone { held: 1, missing: 1, ..BatchDone::default() });
    let batches: Vec<_> = std::iter::repeat_with(|| batch(&mut drain)).take(9).collect();
    assert!(batches.iter().all(|slice| !slice.contended));
    let expected = [(12..=20).collect::<Vec<_>>(), (3..=11).collect()].concat();
    let sent: Vec<_> = batches.iter().flat_map(rows).collect();
    assert_eq!(sent, expected[..sent.len()]);
}

#[test]
fn also_a_batch_that_reckoned_with_nobody_finds_out_who_is_there_unless_it_went_whole() {
    let target = flat();
    let mut drain = with_rows(&target, 2, lone(20));
    let first = batch(&mut drain);
    assert!(!first.contended);
    drain.deleted(&first, BatchDone { held: 2, ..BatchDone::default() });
    assert_eq!(rows(&batch(&mut drain)), [12, 13], "somebody works on the older ones");

    let mut drain = with_rows(&target, 2, lone(6));
    let (first, second) = (batch(&mut drain), batch(&mut drain));
    assert_eq!(drain.batch_failed(first, &failure(FailureKind::Locked), START), Verdict::LookFirst);
    drain.deleted(&second, done(2));
    assert_eq!(rows(&batch(&mut drain)), [1, 2]);
    assert!(batch(&mut drain).contended, "who was met before may still be there");
}

#[test]
fn a_batch_that_was_lost_is_sent_again_and_reckons_with_others() {
    let target = flat();
    let mut drain = with_rows(&target, 2, lone(2));
    let slice = batch(&mut drain);
    assert_eq!(drain.batch_failed(slice, &failure(FailureKind::Transient), START), Verdict::Retry);
    let again = batch_at(&mut drain, Duration::from_millis(250));
    assert_eq!(
        (rows(&again), again.contended),
        (vec![1, 2], true),
        "its commit may have been answered to nobody"
    );
}

#[test]
fn after_passes_that_only_missed_rows_there_is_a_wait() {
    let target = flat();
    let mut drain = with_rows(&target, 5, lone(1));
    let now = Duration::from_secs(10);
    for pass in 0..3 {
        if pass > 0 {
            assert_eq!(drain.next(now), Next::Step(Step::Window(None)), "pass {pass}");
            drain.scanned(None, window(lone(1)));
        }
        let slice = batch_at(&mut drain, now);
        drain.deleted(&slice, BatchDone { missing: 1, ..BatchDone::default() });
    }
    assert_eq!(drain.next(now), Next::NotBefore(now + Duration::from_millis(50)));
}

#[test]
fn an_uncontended_refusal_is_sent_again_contended_and_only_then_halved() {
    let target = flat();
    for kind in [FailureKind::Row, FailureKind::Locked, FailureKind::Timeout] {
        let mut drain = with_rows(&target, 4, lone(4));
        let slice = batch(&mut drain);
        assert_eq!(drain.batch_failed(slice, &failure(kind), START), Verdict::LookFirst);
        let again = batch(&mut drain);
        assert_eq!((rows(&again), again.contended), (vec![1, 2, 3, 4], true));
        assert_eq!(drain.batch_failed(again, &failure(kind), START), Verdict::Retry);
        assert_eq!(rows(&batch(&mut drain)), [1, 2], "{kind:?}, and at once");
    }
}

#[test]
fn a_locked_table_is_waited_for_and_no_row_is_to_blame() {
    let target = flat();
    let mut drain = with_rows(&target, 4, lone(4));
    let locked = failure(FailureKind::TableLocked);
    let slice = batch(&mut drain);
    assert_eq!(drain.batch_failed(slice, &locked, START), Verdict::LookFirst);
    let mut now = START;
    for _ in 1..6 {
        let slice = batch_at(&mut drain, now);
        assert_eq!((rows(&slice), slice.contended), (vec![1, 2, 3, 4], true));
        assert_eq!(drain.batch_failed(slice, &locked, now), Verdict::Retry);
        now += Duration::from_secs(60);
    }
    let slice = batch_at(&mut drain, now);
    assert_eq!(drain.batch_failed(slice, &locked, now), Verdict::GiveUp);
    assert_eq!((drain.aside(), drain.error()), (0, Some("scripted")));
}

#[test]
fn a_slow_batch_halves_itself_and_those_after_it_at_once() {
    let target = flat();
    let mut drain = with_rows(&target, 4, lone(8));
    let slice = Slice { contended: true, ..batch(&mut drain) };
    assert_eq!(drain.batch_failed(slice, &failure(FailureKind::Timeout), START), Verdict::Retry);
    let next: Vec<_> = std::iter::repeat_with(|| rows(&batch(&mut drain))).take(4).collect();
    assert_eq!(next, [[1, 2], [3, 4], [5, 6], [7, 8]]);
}

#[test]
fn a_pair_of_slow_rows_is_halved_and_a_single_one_waits_then_is_set_aside() {
    let target = flat();
    for kind in [FailureKind::Timeout, FailureKind::Locked] {
        let mut drain = with_rows(&target, 2, lone(2));
        let pair = Slice { contended: true, ..batch(&mut drain) };
        assert_eq!(drain.batch_failed(pair, &failure(kind), START), Verdict::Retry);
        let one = batch(&mut drain);
        assert_eq!(rows(&one), [1]);
        assert_eq!(drain.batch_failed(one, &failure(kind), START), Verdict::Retry);
        let back_off = Duration::from_millis(250);
        assert_eq!(drain.next(START), Next::NotBefore(back_off), "{kind:?}");
        let one = batch_at(&mut drain, back_off);
        assert_eq!((rows(&one), one.last_try), (vec![1], true));
        assert_eq!(drain.batch_failed(one, &failure(kind), back_off), Verdict::SetAside);
        assert_eq!((drain.aside(), drain.error()), (1, Some("1 row could not be deleted: scripted")));
        assert_eq!(rows(&batch_at(&mut drain, back_off)), [2], "its neighbour does not wait with it");
    }
}

#[test]
fn rows_set_aside_are_not_sent_again_and_the_hundredth_ends_the_policy() {
    let target = flat();
    let mut drain = with_rows(&target, 200, lone(150));
    let slice = batch(&mut drain);
    let stayed = (1..=100).map(RowAddress).collect();
    drain.deleted(&slice, BatchDone { deleted: 50, stayed, ..BatchDone::default() });
    for (aside, row) in (1..=99).enumerate() {
        let alone = batch(&mut drain);
        assert_eq!((rows(&alone), alone.last_try, drain.aside()), (vec![row], true, aside));
        drain.deleted(&alone, BatchDone { stayed: alone.rows.clone(), ..BatchDone::default() });
    }
    assert!(
        drain.error().is_some_and(|error| error.starts_with("99 rows could not be deleted: the row stays"))
    );
    let last = batch(&mut drain);
    drain.deleted(&last, BatchDone { stayed: last.rows.clone(), ..BatchDone::default() });
    assert_eq!((drain.aside(), drain.next(START)), (100, Next::Ended));
    assert!(
        drain.error().is_some_and(|error| error.starts_with("100 rows could not be deleted, no more are"))
    );

    let mut drain = with_rows(&target, 2, lone(2));
    let slice = batch(&mut drain);
    drain.deleted(&slice, BatchDone { deleted: 1, stayed: vec![RowAddress(2)], ..BatchDone::default() });
    let alone = batch(&mut drain);
    drain.deleted(&alone, BatchDone { stayed: vec![RowAddress(2)], ..BatchDone::default() });
    assert_eq!(drain.next(START), Next::Step(Step::Window(None)));
    drain.scanned(None, window(lone(2).split_off(1)));
    assert_eq!(drain.next(START), Next::Ended, "the next pass leaves it alone");
}

#[test]
fn a_policy_has_ended_once_and_only_when_nothing_of_it_is_in_flight() {
    let target = flat();
    let mut drain = with_rows(&target, 1, lone(2));
    let (first, _second) = (batch(&mut drain), batch(&mut drain));
    assert!(!drain.take_ended());
    drain.stop(StopReason::Shutdown);
    assert_eq!((drain.next(START), drain.take_ended()), (Next::Busy, false));
    drain.deleted(&first, done(1));
    assert_eq!((drain.next(START), drain.take_ended()), (Next::Busy, false));
    drain.not_sent();
    assert_eq!((drain.next(START), drain.take_ended(), drain.take_ended()), (Next::Ended, true, false));
    drain.stop(StopReason::MaxRunDuration);
    let report = drain.into_report();
    assert_eq!((report.stop_reason, report.deleted), (StopReason::Shutdown, 1), "the first reason stays");
}

#[test]
fn an_empty_first_window_is_the_whole_answer_only_where_every_due_row_is_free() {
    let (flat, chained) = (flat(), chained());
    let known = |target, after, rows| {
        let mut drain = with_rows(target, 1, lone(1));
        let slice = batch(&mut drain);
        drain.deleted(&slice, done(1));
        assert!(matches!(drain.next(START), Next::Step(Step::Window(None) | Step::Leaves(None))));
        drain.scanned(after, window(rows));
        !drain.wants_backlog()
    };
    assert!(known(&flat, None, Vec::new()));
    assert!(!known(&flat, Some(oldest()), Vec::new()), "rows before the window may be left");
    assert!(!known(&flat, None, lone(1)), "these may stay");
    assert!(!known(&chained, None, Vec::new()), "rows may be blocked");
}

#[test]
fn only_the_first_pass_over_chains_looks_at_all_rows_and_the_others_climb_from_leaves() {
    let target = chained();
    let mut drain = with_rows(&target, 5, lone(1));
    let slice = batch(&mut drain);
    drain.deleted(&slice, done(1));
    assert_eq!(drain.next(START), Next::Step(Step::Leaves(None)), "something may have become free");
    let row = WindowRow::new(RowAddress(3), Some(RowAddress(4)), false);
    drain.scanned(None, Window { rows: vec![row], next: Some(oldest()) });
    let slice = batch(&mut drain);
    drain.deleted(&slice, done(1));
    assert_eq!(drain.next(START), Next::Step(Step::Climb(vec![RowAddress(4)])));
    drain.climbed(&[]);
    assert_eq!(drain.next(START), Next::Step(Step::Leaves(Some(oldest()))));
    drain.scanned(Some(oldest()), Window::default());
    assert_eq!(drain.next(START), Next::Step(Step::Leaves(None)));
    drain.scanned(None, Window::default());
    assert_eq!((drain.next(START), drain.leaves_only_blocked()), (Next::Ended, true));
}

/// A policy under the leaf rule with so many due rows, about to take its sample or its first window.
fn counted(target: &Target, due: u64) -> Drain<'_> {
    let mut drain = Drain::new(target, 5, WINDOW, LOCK_TIMEOUT);
    assert_eq!(drain.next(START), Next::Step(Step::Prepare));
    drain.prepared();
    assert_eq!(drain.next(START), Next::Step(Step::Count));
    drain.counted(Backlog { pending: due, ..Backlog::default() });
    drain
}

#[test]
fn where_blocked_chains_are_more_than_twice_as_many_as_free_ones_the_first_pass_looks_at_leaves_too() {
    let target = chained();
    for (leaves, blocked_ends, first) in [
        (0, 0, Step::Window(None)),
        (0, 9, Step::Window(None)),
        (0, 10, Step::Leaves(None)),
        (5, 10, Step::Window(None)),
        (5, 11, Step::Leaves(None)),
    ] {
        let mut drain = counted(&target, WINDOW as u64 + 1);
        assert_eq!(drain.next(START), Next::Step(Step::Sample(1)));
        drain.sampled(Sample { leaves, blocked_ends });
        assert_eq!(drain.next(START), Next::Step(first), "{leaves} leaves, {blocked_ends} blocked");
    }
}

#[test]
fn a_sample_has_ten_thousand_rows_and_what_fits_one_window_is_read_without() {
    let target = chained();
    for (due, step) in [
        (WINDOW as u64, Step::Window(None)),
        (19_999, Step::Sample(1)),
        (20_000, Step::Sample(2)),
        (1_000_000_000, Step::Sample(100_000)),
    ] {
        assert_eq!(counted(&target, due).next(START), Next::Step(step), "{due} due");
    }
}

#[test]
fn a_sample_that_fails_is_gone_without() {
    let target = chained();
    let mut drain = counted(&target, WINDOW as u64 + 1);
    assert_eq!(drain.next(START), Next::Step(Step::Sample(1)));
    assert_eq!((drain.sample_failed(), drain.error()), (Verdict::Retry, None));
    assert_eq!(drain.next(START), Next::Step(Step::Window(None)));
}

#[test]
fn after_a_wait_for_held_rows_all_of_them_are_looked_at_because_they_are_told() {
    let target = chained();
    let mut drain = with_rows(&target, 5, chain(3));
    let held = |rows| BatchDone { held: rows, ..BatchDone::default() };
    let slice = batch(&mut drain);
    drain.deleted(&slice, held(3));
    assert_eq!(drain.next(START), Next::NotBefore(LOCK_TIMEOUT));
    assert_eq!(drain.next(LOCK_TIMEOUT), Next::Step(Step::Window(None)));
    drain.scanned(None, window(chain(3)));
    let slice = batch_at(&mut drain, LOCK_TIMEOUT);
    drain.deleted(&slice, held(3));
    assert_eq!(drain.next(LOCK_TIMEOUT), Next::Ended);
    let report = drain.into_report();
    assert_eq!((report.stop_reason, report.skipped), (StopReason::RowsHeld, 3));
}

#[test]
fn one_climb_starts_from_so_many_rows_and_the_rest_is_not_forgotten() {
    let target = chained();
    let above = |row| RowAddress(1_000_000 + row);
    let all = 2 * CLIMB_FROM as u64 + 1;
    let rows = (1..=all).map(|row| WindowRow::new(RowAddress(row), Some(above(row)), false)).collect();
    let mut drain = with_rows(&target, 1_000_000, rows);
    let slice = batch(&mut drain);
    drain.deleted(&slice, done(all));
    let mut climbed = Vec::new();
    for failures in [1, 0, 0] {
        let Next::Step(Step::Climb(from)) = drain.next(Duration::from_hours(1)) else { panic!("a climb") };
        assert!(from.len() <= CLIMB_FROM);
        if failures > 0 {
            drain.climb_failed(from.clone(), &failure(FailureKind::Transient), START);
            assert_eq!(drain.next(Duration::from_hours(1)), Next::Step(Step::Climb(from.clone())));
        }
        climbed.extend(from);
        drain.climbed(&[]);
    }
    assert_eq!(climbed, (1..=all).map(above).collect::<Vec<_>>());
}

#[test]
fn without_due_rows_nothing_is_scanned_under_the_leaf_rule() {
    let target = chained();
    let mut drain = counted(&target, 0);
    assert_eq!((drain.next(START), drain.wants_backlog()), (Next::Ended, false));
}

#[test]
fn parents_beyond_the_window_are_looked_up_before_the_next_window_and_again_after_a_failure() {
    let target = chained();
    let row = WindowRow::new(RowAddress(1), Some(RowAddress(9)), false);
    let mut drain = with_rows(&target, 5, vec![row]);
    let slice = batch(&mut drain);
    assert_eq!(drain.next(START), Next::Busy, "what is in flight decides what is free above");
    drain.deleted(&slice, done(1));
    let above = vec![RowAddress(9)];
    assert_eq!(drain.next(START), Next::Step(Step::Climb(above.clone())));
    let lost = failure(FailureKind::Transient);
    assert_eq!(drain.climb_failed(above.clone(), &lost, START), Verdict::Retry);
    let back_off = Duration::from_millis(250);
    assert_eq!(drain.next(START), Next::NotBefore(back_off));
    assert_eq!(drain.next(back_off), Next::Step(Step::Climb(above)));
    drain.climbed(&[WindowRow::new(RowAddress(9), None, false)]);
    assert_eq!(rows(&batch_at(&mut drain, back_off)), [9]);
}

#[test]
fn a_window_that_failed_is_asked_for_again_from_the_same_place() {
    let target = flat();
    let mut drain = Drain::new(&target, 5, WINDOW, LOCK_TIMEOUT);
    assert_eq!(drain.next(START), Next::Step(Step::Prepare));
    drain.prepared();
    assert_eq!(drain.next(START), Next::Step(Step::Window(None)));
    drain.scanned(None, Window { rows: lone(1), next: Some(oldest()) });
    let slice = batch(&mut drain);
    drain.deleted(&slice, done(1));
    assert_eq!(drain.next(START), Next::Step(Step::Window(Some(oldest()))));
    let late = Duration::from_secs(3);
    assert_eq!(drain.window_failed(Some(oldest()), &failure(FailureKind::Timeout), late), Verdict::Retry);
    let again = late + Duration::from_millis(250);
    assert_eq!(drain.next(late), Next::NotBefore(again));
    assert_eq!(drain.next(again), Next::Step(Step::Window(Some(oldest()))));
}

#[test]
fn a_fatal_failure_gives_up_at_once_and_asks_nothing_more_of_the_table() {
    let target = flat();
    let mut drain = Drain::new(&target, 5, WINDOW, LOCK_TIMEOUT);
    assert_eq!(drain.next(START), Next::Step(Step::Prepare));
    assert_eq!(drain.scan_failed(&failure(FailureKind::Fatal), START), Verdict::GiveUp);
    assert_eq!((drain.next(START), drain.wants_backlog()), (Next::Ended, false));
    assert_eq!(drain.into_report().error.as_deref(), Some("scripted"));
}
