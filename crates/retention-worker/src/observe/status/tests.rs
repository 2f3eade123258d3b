//! The verdict, the figures and the page, from before the first run to years of backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::TimeDelta;
use retention_domain::{Failure, FailureKind, PolicyReport};
use rstest::rstest;

use super::view::Verdict;
use super::*;
use crate::observe::Readiness;
use crate::observe::fixtures::{self, NIGHT, RUN_ID};

/// A status and the clock it looks at, in minutes after [`NIGHT`].
struct Bench {
    status: Status,
    minutes: Arc<AtomicI64>,
}

impl Bench {
    fn new() -> Self {
        let minutes = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&minutes);
        let wall = move || NIGHT + TimeDelta::minutes(shown.load(Ordering::SeqCst));
        Self { status: Status::new(&fixtures::policies()[..2], fixtures::schedule(), wall), minutes }
    }

    fn at(&self, minutes: i64) -> &Self {
        self.minutes.store(minutes, Ordering::SeqCst);
        self
    }

    fn view(&self) -> View {
        self.status.view(Readiness::Ready)
    }

    fn page(&self) -> String {
        page(&self.view(), "nonce")
    }
}

/// A run that left so many rows of `sicr`, of which the oldest has this age in hours.
fn left(deleted: u64, pending: u64, hours: i64, stop_reason: StopReason) -> RunReport {
    let mut report = fixtures::report();
    report.policies.truncate(2);
    let oldest_pending = (pending > 0).then(|| NIGHT - TimeDelta::hours(hours));
    report.policies[0] = PolicyReport {
        deleted,
        stop_reason,
        backlog: Some(Backlog { pending, oldest_pending, ..Backlog::default() }),
        ..report.policies[0].clone()
    };
    report
}

const HOURS: i64 = 60;

#[test]
fn before_the_first_run_nothing_is_known_and_said_so() {
    let bench = Bench::new();
    bench.status.next_run_at(NIGHT + TimeDelta::days(1));
    let view = bench.view();
    assert_eq!(view.verdict, Verdict::NotKnownYet);
    assert_eq!(
        view.reasons,
        ["This process has made no run yet; the first is due at 2026-12-01 02:00:00 UTC."]
    );
    assert!(view.levels.iter().all(|level| level.holds.is_none() && level.as_of.is_none()));
    let page = bench.page();
    // Four levels of two policies, and of all; six numbers a policy, with two that depend on others.
    assert_eq!(page.matches("not measured yet").count(), 17, "{page}");
    assert!(page.contains("None has ended yet") && !page.contains(">0 rows"), "{page}");
}

#[test]
fn a_process_without_a_success_has_two_intervals_of_grace() {
    let bench = Bench::new();
    assert_eq!(bench.at(48 * HOURS).view().verdict, Verdict::NotKnownYet);
    let view = bench.at(48 * HOURS + 1).view();
    assert_eq!(view.verdict, Verdict::No);
    assert!(
        view.reasons[0].starts_with("no run has succeeded since this process started"),
        "{:?}",
        view.reasons
    );
}

#[test]
fn everything_drained_is_a_yes_until_two_intervals_have_passed() {
    let bench = Bench::new();
    bench.status.run_ended(&left(5, 0, 0, StopReason::Drained));
    assert_eq!((bench.view().verdict, bench.at(48 * HOURS).view().verdict), (Verdict::Yes, Verdict::Yes));
    assert_eq!(bench.at(48 * HOURS + 1).view().verdict, Verdict::No);
}

#[rstest]
#[case::none_due(0, 0, Verdict::Yes)]
#[case::on_the_line(990, 10, Verdict::Yes)]
#[case::below_it(989, 11, Verdict::No)]
#[case::nothing_went(0, 1, Verdict::No)]
fn ninety_nine_of_a_hundred_rows_must_leave_with_the_next_run(
    #[case] deleted: u64,
    #[case] pending: u64,
    #[case] verdict: Verdict,
) {
    let bench = Bench::new();
    bench.status.run_ended(&left(deleted, pending, 31 * 24, StopReason::MaxRunDuration));
    assert_eq!(bench.view().verdict, verdict, "{:#?}", bench.view().levels);
}

#[rstest]
#[case::at_the_limit(32 * 24, 0, Verdict::Yes)]
#[case::an_hour_above(32 * 24 + 1, 0, Verdict::No)]
#[case::that_aged_since_it_was_counted(32 * 24 - 1, 61, Verdict::No)]
fn a_row_older_than_its_retention_and_two_intervals_is_a_straggler(
    #[case] hours: i64,
    #[case] minutes_later: i64,
    #[case] verdict: Verdict,
) {
    let bench = Bench::new();
    bench.status.run_ended(&left(100_000, 1, hours, StopReason::RowsHeld));
    let view = bench.at(minutes_later).view();
    assert_eq!(view.verdict, verdict, "{view:#?}");
    assert_eq!(view.policies[0].limit_seconds, 32 * 24 * 3600);
}

/// Blocked rows are held by a session that stays: no level is broken by them.
#[test]
fn blocked_rows_may_be_of_any_age() {
    let bench = Bench::new();
    let mut report = left(5, 0, 0, StopReason::Drained);
    let oldest_blocked = Some(NIGHT - TimeDelta::days(4000));
    report.policies[1].backlog = Some(Backlog { blocked: 7, oldest_blocked, ..Backlog::default() });
    bench.status.run_ended(&report);
    assert_eq!(bench.view().verdict, Verdict::Yes);
    assert!(bench.page().contains("4,000.0 d"));
}

#[rstest]
#[case(1000, 2500, Some(3))]
#[case(1000, 2000, Some(2))]
#[case(1000, 0, Some(0))]
#[case(0, 10, None)]
fn nights_to_drain_follow_the_last_run(
    #[case] deleted: u64,
    #[case] pending: u64,
    #[case] nights: Option<u64>,
) {
    let bench = Bench::new();
    bench.status.run_ended(&left(deleted, pending, 400 * 24, StopReason::WindowClosed));
    assert_eq!(bench.view().policies[0].nights_to_drain, nights);
}

#[rstest]
#[case::three_slots_a_night("02:00-05:00", 3600, 2)]
#[case::every_second_night("02:00-05:00", 2 * 86_400, 8)]
#[case::the_whole_day("always", 3600, 1)]
fn nights_are_nights_whatever_the_interval(#[case] window: &str, #[case] interval: u64, #[case] nights: u64) {
    let schedule = Schedule::new(window.parse().unwrap(), Duration::from_secs(interval)).unwrap();
    let status = Status::new(&fixtures::policies()[..2], schedule, || NIGHT);
    status.run_ended(&left(1000, 4000, 400 * 24, StopReason::WindowClosed));
    assert_eq!(status.view(Readiness::Ready).policies[0].nights_to_drain, Some(nights));
}

#[test]
fn what_could_not_be_counted_keeps_its_older_count_and_time() {
    let bench = Bench::new();
    bench.status.run_ended(&left(10, 3, 40 * 24, StopReason::MaxRunDuration));
    let mut later = left(0, 0, 0, StopReason::MaxRunDuration);
    later.started_at += TimeDelta::days(1);
    later.policies[0].backlog = None;
    bench.status.run_ended(&later);
    let view = bench.at(25 * HOURS).view();
    assert_eq!((view.policies[0].pending, view.policies[1].pending), (Some(3), Some(0)));
    let counted = view.policies.iter().map(|policy| policy.counted_at.unwrap().0 - NIGHT).collect::<Vec<_>>();
    assert_eq!([counted[0].num_days(), counted[1].num_days()], [0, 1]);
    assert_eq!(view.runs[0].backlog_remaining, None);
    assert!(bench.page().contains("not counted"));
}

#[test]
fn a_refused_run_is_told_in_fixed_words() {
    let bench = Bench::new();
    let failure =
        Failure::new(FailureKind::Fatal, "password authentication failed for role somebody at db.example");
    bench.status.run_started(RUN_ID);
    bench.status.run_refused(RUN_ID, &RunRefused::NoStore(failure), Duration::from_secs(3));
    let view = bench.status.view(Readiness::NoDatabase);
    assert_eq!((view.runs[0].outcome, view.runs[0].stop_reason), ("failed", "error"));
    assert_eq!(view.running.is_none(), view.runs.len() == 1);
    assert_eq!(
        view.reasons[1..],
        [
            "The last run failed: no usable database.",
            "Now: the database did not answer last time it was asked."
        ]
    );
    let told = format!("{}{}", page(&view, "nonce"), crate::render::json(&view));
    assert!(!told.contains("somebody") && !told.contains("db.example"), "{told}");
}

/// A policy's error quotes the server, and the page is open to whoever reaches the port.
#[test]
fn an_error_s_own_words_stay_in_the_log() {
    let bench = Bench::new();
    let mut report = left(0, 0, 0, StopReason::Error);
    report.policies[0].error = Some("permission denied for somebody (42501)".to_owned());
    bench.status.run_ended(&report);
    let told = format!("{}{}", bench.page(), crate::render::json(&bench.view()));
    assert!(!told.contains("somebody") && told.contains("phase failed"), "{told}");
}

#[test]
fn a_run_in_flight_is_shown_with_what_it_has_deleted() {
    let bench = Bench::new();
    bench.status.next_run_at(NIGHT);
    bench.status.run_started(RUN_ID);
    bench.status.rows_deleted(1200);
    bench.status.rows_deleted(34);
    let view = bench.at(1).view();
    assert_eq!((view.running.unwrap().deleted, view.next_run_at), (1234, None));
    assert!(bench.page().contains("1,234 rows deleted so far"), "{}", bench.page());
}

#[test]
fn the_last_fifty_runs_are_remembered_newest_first() {
    let bench = Bench::new();
    for night in 0..60 {
        let mut report = left(night, 0, 0, StopReason::Drained);
        report.job_run_id = format!("run-{night}");
        bench.status.run_ended(&report);
    }
    let view = bench.view();
    assert_eq!((view.runs_total, view.runs.len()), (60, RUNS_KEPT));
    assert_eq!((view.runs[0].deleted, view.runs[49].deleted), (59, 10));
    assert!(bench.page().contains("10 earlier ones are not shown"));
}

#[test]
fn the_data_of_a_night() {
    let bench = Bench::new();
    bench.status.next_run_at(NIGHT + TimeDelta::days(1));
    bench.status.run_ended(&left(1000, 2500, 40 * 24, StopReason::MaxRunDuration));
    let value: serde_json::Value = serde_json::from_str(&crate::render::json(&bench.at(30).view())).unwrap();
    insta::assert_snapshot!("data_of_a_night", format!("{value:#}"));
}
