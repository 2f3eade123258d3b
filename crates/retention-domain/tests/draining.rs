//! The run loop over the in-memory store, compared with an independent formulation of the rule. What this cannot
//! show: SQL, locks between sessions, time-outs of a server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use proptest::prelude::*;
use retention_domain::plan::Target;
use retention_domain::testing::{
    Fate, ManualClock, MemoryRow, MemoryStore, RecordingObserver, StopSwitch, fates,
};
use retention_domain::*;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn refresh() -> RetentionPolicy {
    RetentionPolicy::refresh(RetentionPeriod::from_days(90).unwrap())
}

fn sicr() -> RetentionPolicy {
    RetentionPolicy::sicr(RetentionPeriod::from_days(30).unwrap())
}

fn limits() -> RunLimits {
    RunLimits {
        batch_size: 5,
        batch_pause: Duration::from_millis(100),
        max_run_duration: Duration::from_secs(1800),
        window_closes_in: None,
        statement_timeout: Duration::from_secs(30),
        lock_timeout: Duration::from_secs(2),
        concurrency: 1,
        window_rows: 1000,
    }
}

struct Lab {
    store: MemoryStore,
    clock: ManualClock,
    stop: StopSwitch,
    observer: RecordingObserver,
    limits: RunLimits,
    policies: Vec<RetentionPolicy>,
}

impl Lab {
    fn new(rows: impl IntoIterator<Item = (u64, MemoryRow)>) -> Self {
        let rows = rows.into_iter().map(|(address, row)| (RowAddress(address), row)).collect();
        Self {
            store: MemoryStore::new(now(), rows),
            clock: ManualClock::at(now()),
            stop: StopSwitch::default(),
            observer: RecordingObserver::default(),
            limits: limits(),
            policies: vec![refresh()],
        }
    }

    fn try_run(&self) -> Result<RunReport, RunRefused> {
        let request =
            RunRequest { job_run_id: "run".to_owned(), policies: self.policies.clone(), limits: self.limits };
        run(&self.store, &self.clock, &self.stop, &self.observer, &request).now_or_never().unwrap()
    }

    fn run(&self) -> RunReport {
        self.try_run().unwrap()
    }

    fn left(&self) -> Vec<u64> {
        self.store.rows().into_keys().map(|address| address.0).collect()
    }
}

fn row(days: i64, status: &str, parent: Option<u64>) -> MemoryRow {
    MemoryRow {
        age: Some(now() - TimeDelta::days(days)),
        status: Some(status.to_owned()),
        parent: parent.map(RowAddress),
    }
}

/// A chain: row 1 is the root, each next row refers to the one before; all old, rotated.
fn chain(length: u64) -> Vec<(u64, MemoryRow)> {
    (1..=length).map(|n| (n, row(100, "Rotated", (n > 1).then(|| n - 1)))).collect()
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "scripted")
}

#[test]
fn an_empty_run_is_a_success() {
    let lab = Lab::new([]);
    let report = lab.run();
    assert_eq!(report.outcome(), Outcome::Completed);
    assert_eq!(report.policies[0].backlog, Some(Backlog::default()));
    assert_eq!(report.policies[0].batches, 0);
}

#[test]
fn a_chain_drains_in_one_run_and_a_second_run_deletes_nothing() {
    let lab = Lab::new(chain(23));
    let report = lab.run();
    assert_eq!((report.policies[0].deleted, report.policies[0].batches), (23, 5));
    assert_eq!(report.stop_reason(), StopReason::Drained);
    assert!(lab.store.largest_batch() <= 5);
    assert_eq!(lab.run().policies[0].deleted, 0);
}

#[test]
fn a_parent_stays_while_a_child_lives_or_is_young_and_goes_once_it_has_aged() {
    for child in [row(100, "Active", Some(1)), row(1, "Revoked", Some(1)), row(100, "Compromised", Some(1))] {
        let lab = Lab::new([(1, row(100, "Rotated", None)), (2, child)]);
        let report = lab.run();
        assert_eq!(lab.left(), [1, 2]);
        assert_eq!(report.stop_reason(), StopReason::Drained);
        assert_eq!(report.policies[0].backlog.unwrap().blocked, 1);
    }
    let lab = Lab::new([(1, row(100, "Rotated", None)), (2, row(100, "Revoked", Some(1)))]);
    lab.run();
    assert!(lab.left().is_empty());
}

#[test]
fn a_held_row_costs_its_own_ancestors_and_is_waited_for_once() {
    let mut rows = chain(20);
    rows.extend((101..=140).map(|n| (n, row(95, "Expired", None))));
    let lab = Lab::new(rows);
    lab.store.hold(RowAddress(10), true);
    let report = lab.run();
    assert_eq!(lab.left(), (1..=10).collect::<Vec<_>>());
    assert_eq!(report.stop_reason(), StopReason::RowsHeld);
    assert_eq!((report.policies[0].skipped, report.policies[0].deleted), (1, 50));
    assert_eq!(report.policies[0].backlog.unwrap().pending, 10);
    assert!(
        report.duration >= lab.limits.lock_timeout,
        "the held row got its last try after the lock timeout"
    );
    assert!(report.is_success());
    lab.store.hold(RowAddress(10), false);
    assert_eq!(lab.run().policies[0].deleted, 10);
}

#[test]
fn one_refusing_row_is_set_aside_and_the_rest_goes() {
    let mut rows = chain(20);
    rows.extend((101..=180).map(|n| (n, row(95, "Expired", None))));
    let lab = Lab::new(rows);
    lab.store.refuse(RowAddress(10));
    lab.store.refuse(RowAddress(150));
    let report = lab.run();
    let refresh = &report.policies[0];
    assert_eq!(lab.left(), (1..=10).chain([150]).collect::<Vec<_>>());
    assert_eq!((refresh.failed_rows, refresh.deleted), (2, 89));
    assert_eq!(report.outcome(), Outcome::Failed);
    assert_eq!(refresh.error.as_deref(), Some("2 rows could not be deleted: a row refuses (23503)"));
    assert_eq!(refresh.backlog.unwrap().pending, 11);
    assert_eq!(lab.observer.lines().iter().filter(|line| line.starts_with("aside")).count(), 2);
}

#[test]
fn a_vetoed_row_is_tried_once_more_then_set_aside() {
    let lab = Lab::new((1..=20).map(|n| (n, row(100, "Expired", None))));
    lab.store.veto(RowAddress(7));
    let report = lab.run();
    assert_eq!(lab.left(), [7]);
    assert_eq!((report.policies[0].failed_rows, report.stop_reason()), (1, StopReason::Error));
}

#[test]
fn a_table_that_vetoes_everything_ends_after_a_hundred_rows() {
    let lab = Lab::new((1..=1000).map(|n| (n, row(100, "Expired", None))));
    (1..=1000).for_each(|n| lab.store.veto(RowAddress(n)));
    let report = lab.run();
    assert_eq!(report.policies[0].failed_rows, 100);
    assert_eq!(lab.left().len(), 1000);
}

#[test]
fn transient_failures_are_retried_and_too_many_end_the_policy() {
    let lab = Lab::new(chain(3));
    lab.store.fail_next([failure(FailureKind::Transient), failure(FailureKind::Transient)]);
    assert_eq!(lab.run().outcome(), Outcome::Completed);
    let lab = Lab::new(chain(3));
    lab.store.fail_next((0..6).map(|_| failure(FailureKind::Transient)));
    let report = lab.run();
    assert_eq!(report.policies[0].stop_reason, StopReason::Error);
    assert_eq!(report.policies[0].error.as_deref(), Some("scripted"));
    assert_eq!(lab.left().len(), 3);
}

#[test]
fn a_fatal_failure_ends_its_policy_only() {
    let mut lab = Lab::new(chain(3));
    lab.policies = vec![sicr(), refresh()];
    lab.store.fail_next([failure(FailureKind::Fatal)]);
    let report = lab.run();
    assert_eq!(report.policies[0].stop_reason, StopReason::Error);
    assert_eq!(report.policies[0].backlog, None);
    assert_eq!((report.policies[1].deleted, report.policies[1].stop_reason), (3, StopReason::Drained));
    assert_eq!(report.outcome(), Outcome::Failed);
}

#[test]
fn timeouts_halve_the_batch_and_no_seed_is_lost() {
    let lab = Lab::new((1..=40).map(|n| (n, row(100, "Expired", None))));
    // The window comes first; then two batches run into their bound.
    lab.store.fail_next([
        failure(FailureKind::Timeout),
        failure(FailureKind::Timeout),
        failure(FailureKind::Timeout),
    ]);
    let report = lab.run();
    assert_eq!((report.policies[0].deleted, report.stop_reason()), (40, StopReason::Drained));
}

#[test]
fn policies_are_interleaved() {
    let mut lab = Lab::new((1..=200).map(|n| (n, row(100, "Expired", None))));
    lab.policies = vec![sicr(), refresh()];
    lab.run();
    let lines = lab.observer.lines();
    let batches: Vec<_> = lines.iter().filter(|line| line.starts_with("batch")).skip(3).take(10).collect();
    let refresh = batches.iter().filter(|line| line.starts_with("batch refresh")).count();
    assert_eq!(refresh, 5, "every other batch: {batches:?}");
}

#[test]
fn the_fuse_the_window_and_a_shutdown_are_normal_stops() {
    let rows = || (1..=1000).map(|n| (n, row(100, "Expired", None)));
    let mut lab = Lab::new(rows());
    lab.limits.max_run_duration = Duration::from_secs(3);
    let report = lab.run();
    assert_eq!((report.stop_reason(), report.outcome()), (StopReason::MaxRunDuration, Outcome::Stopped));
    assert_eq!(report.policies[0].backlog.unwrap().pending, 1000 - report.policies[0].deleted);
    assert_eq!(report.duration, Duration::from_secs(3), "the pause is cut to what is left");
    assert!(report.policies[0].deleted > 0 && report.is_success());

    let mut lab = Lab::new(rows());
    lab.limits.window_closes_in = Some(Duration::from_secs(2));
    assert_eq!(lab.run().stop_reason(), StopReason::WindowClosed);

    let lab = Lab::new(rows());
    lab.stop.request();
    let report = lab.run();
    assert_eq!((report.stop_reason(), report.is_success()), (StopReason::Shutdown, false));
    assert_eq!(report.policies[0].backlog, None);
}

#[test]
fn a_pause_follows_every_deleting_batch_but_the_last() {
    let mut lab = Lab::new((1..=20).map(|n| (n, row(100, "Expired", None))));
    lab.limits.batch_pause = Duration::from_secs(1);
    assert_eq!(lab.run().duration, Duration::from_secs(3), "four batches, three pauses");
}

#[test]
fn clocks_an_hour_apart_refuse_the_run() {
    for (hours, refused) in [(-2, true), (2, true), (0, false)] {
        let mut lab = Lab::new(chain(3));
        lab.clock = ManualClock::at(now() + TimeDelta::hours(hours));
        assert_eq!(matches!(lab.try_run(), Err(RunRefused::ClockSkew { .. })), refused, "{hours} h");
        assert_eq!(lab.left().len(), if refused { 3 } else { 0 });
    }
}

#[test]
fn a_cycle_is_blocked_and_what_hangs_below_it_goes() {
    let lab = Lab::new([
        (1, row(100, "Rotated", Some(2))),
        (2, row(100, "Rotated", Some(1))),
        (3, row(100, "Revoked", Some(1))),
        (4, row(100, "Revoked", Some(4))),
    ]);
    let report = lab.run();
    assert_eq!(lab.left(), [1, 2, 4]);
    assert_eq!((report.stop_reason(), report.policies[0].backlog.unwrap().blocked), (StopReason::Drained, 3));
}

prop_compose! {
    /// Any shape: chains, forks, cycles, dangling parents; any mixture of ages and statuses.
    fn any_rows()(
        rows in prop::collection::vec(
            (prop::option::weighted(0.8, 0_u64..60), prop_oneof![8 => 91_i64..100, 1 => Just(90), 1 => 0_i64..90],
             prop_oneof![8 => Just("Rotated"), 2 => Just("Revoked"), 1 => Just("Active"), 1 => Just("Odd")],
             prop::bool::weighted(0.97)),
            0..60)
    ) -> BTreeMap<RowAddress, MemoryRow> {
        rows.into_iter().enumerate().map(|(n, (parent, days, status, dated))| {
            let mut row = row(days, status, parent);
            if !dated {
                row.age = None;
            }
            (RowAddress(n as u64), row)
        }).collect()
    }
}

/// A sample decides how a run goes, never what goes.
fn any_sample() -> impl Strategy<Value = Sample> {
    (0_u64..2, 0_u64..20).prop_map(|(leaves, blocked_ends)| Sample { leaves, blocked_ends })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn exactly_the_free_rows_go_in_one_run(
        rows in any_rows(), batch_size in 1_u32..8, concurrency in 1_usize..4, window_rows in 1_usize..70,
        sample in any_sample(),
    ) {
        let target = Target { policy: refresh(), cutoff: Cutoff::before(now(), refresh().retention).unwrap() };
        let expected = fates(&target, &rows);
        let mut lab = Lab::new([]);
        lab.store = MemoryStore::new(now(), rows.clone());
        lab.store.show_in_samples(sample);
        lab.limits.batch_size = batch_size;
        lab.limits.concurrency = concurrency;
        lab.limits.window_rows = window_rows;
        let report = lab.run();
        let survivors: Vec<_> = lab.store.rows().into_keys().collect();
        let kept: Vec<_> = expected.iter().filter(|(_, fate)| **fate != Fate::Goes).map(|(row, _)| *row).collect();
        prop_assert_eq!(&survivors, &kept);
        let blocked = expected.values().filter(|fate| **fate == Fate::Blocked).count() as u64;
        let refresh = &report.policies[0];
        prop_assert_eq!(refresh.backlog.unwrap().blocked, blocked);
        prop_assert_eq!(refresh.backlog.unwrap().pending, 0);
        prop_assert_eq!(refresh.deleted, (rows.len() - kept.len()) as u64);
        prop_assert!(lab.store.largest_batch() <= u64::from(batch_size));
        prop_assert_eq!(lab.run().policies[0].deleted, 0);
    }

    #[test]
    fn faults_cost_time_but_never_a_wrong_row(
        rows in any_rows(), batch_size in 1_u32..8, concurrency in 1_usize..4, window_rows in 1_usize..70,
        sample in any_sample(), held in prop::collection::vec(0_u64..60, 0..4), refusing in prop::collection::vec(0_u64..60, 0..4),
        vetoed in prop::collection::vec(0_u64..60, 0..4),
        kinds in prop::collection::vec(prop_oneof![Just(FailureKind::Transient), Just(FailureKind::Timeout), Just(FailureKind::Locked), Just(FailureKind::Row)], 0..5),
    ) {
        let target = Target { policy: refresh(), cutoff: Cutoff::before(now(), refresh().retention).unwrap() };
        let expected = fates(&target, &rows);
        let mut lab = Lab::new([]);
        lab.store = MemoryStore::new(now(), rows.clone());
        lab.store.show_in_samples(sample);
        lab.limits.batch_size = batch_size;
        lab.limits.concurrency = concurrency;
        lab.limits.window_rows = window_rows;
        held.iter().for_each(|row| lab.store.hold(RowAddress(*row), true));
        refusing.iter().for_each(|row| lab.store.refuse(RowAddress(*row)));
        vetoed.iter().for_each(|row| lab.store.veto(RowAddress(*row)));
        lab.store.fail_next(kinds.into_iter().map(failure));
        lab.run();
        let survivors = lab.store.rows();
        for (row, _) in expected.iter().filter(|(_, fate)| **fate != Fate::Goes) {
            prop_assert!(survivors.contains_key(row), "{:?} must stay", row);
        }
        held.iter().for_each(|row| lab.store.hold(RowAddress(*row), false));
        // A scripted failure ends at most one run.
        (0..6).for_each(|_| drop(lab.run()));
        let stuck: Vec<_> = refusing.iter().chain(&vetoed).map(|row| RowAddress(*row)).collect();
        for (row, fate) in expected.iter().filter(|_| stuck.is_empty()) {
            prop_assert_eq!(lab.store.rows().contains_key(row), *fate != Fate::Goes, "{:?}", row);
        }
    }
}
