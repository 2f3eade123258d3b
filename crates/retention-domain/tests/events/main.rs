//! What a run asks of its store and tells its observer, call by call (contract, section 3).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod journal;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use retention_domain::testing::{ManualClock, MemoryRow, MemoryStore, StopSwitch};
use retention_domain::*;

use crate::journal::{Journal, NotedStore};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn days(days: u32) -> RetentionPeriod {
    RetentionPeriod::from_days(days).unwrap()
}

fn sicr() -> RetentionPolicy {
    RetentionPolicy::sicr(days(30))
}

fn refresh() -> RetentionPolicy {
    RetentionPolicy::refresh(days(90))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A run over rows that are all a hundred days old: by default five a batch, no pauses, half an hour.
struct Play<'a> {
    store: NotedStore<'a>,
    stop: StopSwitch,
    limits: RunLimits,
    policies: Vec<RetentionPolicy>,
}

impl<'a> Play<'a> {
    fn new(policies: Vec<RetentionPolicy>, rows: &[(u64, &str, Option<u64>)], stage: &'a Stage) -> Self {
        let row = |&(address, status, parent): &(u64, &str, Option<u64>)| {
            let age = Some(now() - TimeDelta::days(100));
            let row = MemoryRow { age, status: Some(status.to_owned()), parent: parent.map(RowAddress) };
            (RowAddress(address), row)
        };
        let inner = MemoryStore::new(now(), rows.iter().map(row).collect());
        let limits = RunLimits {
            batch_size: 5,
            batch_pause: Duration::ZERO,
            max_run_duration: Duration::from_secs(1800),
            window_closes_in: None,
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(2),
            concurrency: 1,
            window_rows: 1000,
        };
        let store = NotedStore::new(inner, &stage.journal, &stage.clock);
        Self { store, stop: StopSwitch::default(), limits, policies }
    }

    fn run(&self) -> RunReport {
        self.try_run().unwrap()
    }

    fn try_run(&self) -> Result<RunReport, RunRefused> {
        let request = RunRequest {
            job_run_id: "run-1".to_owned(),
            policies: self.policies.clone(),
            limits: self.limits,
        };
        let run = run(&self.store, self.store.clock, &self.stop, self.store.journal, &request);
        run.now_or_never().unwrap()
    }
}

struct Stage {
    journal: Journal,
    clock: ManualClock,
}

impl Stage {
    fn new() -> Self {
        Self::with_wall(now())
    }

    fn with_wall(wall: DateTime<Utc>) -> Self {
        Self { journal: Journal::default(), clock: ManualClock::at(wall) }
    }

    /// The lines of the journal that begin so.
    fn lines(&self, beginning: &str) -> Vec<String> {
        self.journal.lines().into_iter().filter(|line| line.starts_with(beginning)).collect()
    }
}

const LONE: [(u64, &str, Option<u64>); 3] =
    [(1, "Expired", None), (2, "Expired", None), (3, "Expired", None)];

#[test]
fn a_whole_run_is_told_in_order() {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr()], &LONE, &stage);
    play.limits.batch_size = 2;
    play.store.script("delete", millis(40), None);
    play.run();
    let cutoff = now().timestamp() - 30 * 86_400;
    assert_eq!(
        stage.journal.lines(),
        [
            "- started run-1, skew 0 ms, policies 1",
            &format!("- phase sicr before {cutoff}"),
            "prepare sicr",
            "window sicr",
            "- batch sicr on 0, at most 2",
            "delete sicr 1+2 within 30000 ms",
            "- batch sicr on 0 deleted 2, batches 1, 40 ms",
            "- batch sicr on 0, at most 1",
            "delete sicr 3 within 30000 ms",
            "- batch sicr on 0 deleted 1, batches 2, 0 ms",
            "window sicr",
            "- ended sicr",
            "- completed drained",
        ]
    );
}

#[test]
fn under_the_leaf_rule_due_rows_are_counted_first_and_what_is_left_is_blocked() {
    let stage = Stage::new();
    let rows = [(1, "Rotated", None), (2, "Active", Some(1))];
    let report = Play::new(vec![refresh()], &rows, &stage).run();
    let store = ["prepare refresh", "count refresh", "window refresh", "count refresh"];
    let calls: Vec<_> = stage.journal.lines().into_iter().filter(|line| !line.starts_with('-')).collect();
    assert_eq!(calls, store, "one plain count more tells how many are blocked");
    let backlog = report.policies[0].backlog.unwrap();
    assert_eq!((backlog.pending, backlog.blocked), (0, 1));
}

/// Ten chains that a living session holds, and one row that may go, over windows of two rows.
fn mostly_blocked(stage: &Stage) -> Play<'_> {
    let chain = |n| [(n, "Rotated", None), (n + 100, "Active", Some(n))];
    let rows: Vec<_> = (1..=10).flat_map(chain).chain([(50, "Revoked", None)]).collect();
    let mut play = Play::new(vec![refresh()], &rows, stage);
    play.limits.window_rows = 2;
    play
}

#[test]
fn where_most_is_blocked_leaves_alone_are_asked_for() {
    let stage = Stage::new();
    let report = mostly_blocked(&stage).run();
    assert_eq!(stage.lines("sample"), ["sample refresh one block in 1 within 30000 ms"]);
    assert_eq!((stage.lines("window"), stage.lines("leaves").len()), (Vec::new(), 2));
    assert_eq!((report.outcome(), report.policies[0].deleted), (Outcome::Completed, 1));
}

#[test]
fn a_sample_that_fails_is_told_and_gone_without_whatever_the_reason() {
    for kind in [FailureKind::Fatal, FailureKind::Row, FailureKind::Timeout, FailureKind::Transient] {
        let stage = Stage::new();
        let play = mostly_blocked(&stage);
        play.store.script("sample", millis(30_000), Some(kind));
        let report = play.run();
        assert_eq!(stage.lines("- attempt"), ["- attempt refresh on scan failed: scripted"], "{kind:?}");
        assert!(stage.lines("window").len() > 5, "{kind:?}: all that is due is read");
        assert_eq!((report.outcome(), report.policies[0].deleted), (Outcome::Completed, 1), "{kind:?}");
    }
}

#[test]
fn parents_beyond_the_window_are_climbed_to() {
    let stage = Stage::new();
    let rows = [(1, "Rotated", None), (2, "Rotated", Some(3)), (3, "Rotated", None)];
    let mut play = Play::new(vec![refresh()], &rows, &stage);
    play.limits.window_rows = 2;
    play.store.script("climb", Duration::ZERO, Some(FailureKind::Transient));
    let report = play.run();
    assert_eq!(stage.lines("climb"), ["climb refresh from 3", "climb refresh from 3"]);
    assert_eq!(stage.lines("- attempt"), ["- attempt refresh on scan failed: scripted"]);
    assert_eq!(report.policies[0].deleted, 3);
}

#[test]
fn a_batch_that_deletes_nothing_is_told_and_not_counted() {
    let stage = Stage::new();
    let play = Play::new(vec![sicr()], &LONE[..1], &stage);
    play.store.inner.hold(RowAddress(1), true);
    let report = play.run();
    let ended = "- batch sicr on 0 deleted 0, batches 0, 0 ms";
    assert_eq!(stage.lines("- batch sicr on 0 deleted"), [ended, ended], "the second is the last try");
    assert_eq!((report.policies[0].batches, report.policies[0].skipped), (0, 1));
    assert_eq!(stage.lines("backlog"), ["backlog sicr within 1798000 ms"], "what is held is still due");
}

#[test]
fn each_row_set_aside_is_told_once_with_its_sentence() {
    let stage = Stage::new();
    let play = Play::new(vec![sicr()], &LONE, &stage);
    play.store.inner.veto(RowAddress(1));
    play.store.inner.veto(RowAddress(3));
    play.run();
    let stays = "the row stays although its delete raised nothing (row security or a trigger)";
    assert_eq!(
        stage.lines("- aside"),
        [
            format!("- aside sicr: 1 row could not be deleted: {stays}"),
            format!("- aside sicr: 2 rows could not be deleted: {stays}")
        ]
    );
    assert!(stage.lines("- attempt").is_empty());
    assert_eq!(stage.lines("- abandoned"), ["- abandoned sicr on 0"], "the batch that reckoned with nobody");
}

#[test]
fn a_refusing_row_is_looked_for_quietly_then_halved_and_set_aside() {
    let stage = Stage::new();
    let play = Play::new(vec![sicr()], &LONE[..2], &stage);
    play.store.inner.refuse(RowAddress(2));
    play.run();
    let lines = stage.journal.lines();
    let first = lines.iter().position(|line| line.starts_with("- batch")).unwrap();
    let last = lines.iter().position(|line| line.starts_with("- aside")).unwrap();
    let refused = "- attempt sicr on 0 failed: a row refuses (23503)";
    assert_eq!(
        lines[first..=last],
        [
            "- batch sicr on 0, at most 2",
            "delete sicr 1+2 within 30000 ms",
            "- abandoned sicr on 0",
            "- batch sicr on 0, at most 2",
            "delete sicr 1+2 within 30000 ms contended",
            refused,
            "- batch sicr on 0, at most 1",
            "delete sicr 1 within 30000 ms contended",
            "- batch sicr on 0 deleted 1, batches 1, 0 ms",
            "- batch sicr on 0, at most 1",
            "delete sicr 2 within 30000 ms contended",
            refused,
            "- batch sicr on 0, at most 1",
            "delete sicr 2 within 30000 ms contended",
            "- abandoned sicr on 0",
            "- aside sicr: a row refuses (23503)",
        ]
    );
}

#[test]
fn the_attempt_that_ends_a_policy_is_told_as_its_last() {
    let stage = Stage::new();
    let play = Play::new(vec![sicr()], &LONE, &stage);
    play.store.script("prepare", Duration::ZERO, Some(FailureKind::Transient));
    play.store.script("window", Duration::ZERO, Some(FailureKind::Fatal));
    let report = play.run();
    assert_eq!(
        stage.lines("- attempt"),
        ["- attempt sicr on scan failed: scripted", "- attempt sicr on scan failed: scripted, the last"]
    );
    assert_eq!((stage.lines("- ended").len(), stage.lines("backlog").len()), (1, 0));
    assert_eq!(report.duration, millis(250), "what may be gone is waited for once");
}

#[test]
fn what_the_end_of_the_run_ends_is_no_failure() {
    for kind in [FailureKind::Timeout, FailureKind::Locked, FailureKind::Transient] {
        let stage = Stage::new();
        let play = Play::new(vec![sicr()], &LONE, &stage);
        play.store.script("delete", Duration::from_secs(1800), Some(kind));
        let report = play.run();
        assert!(stage.lines("- attempt").is_empty(), "{kind:?}");
        assert_eq!(stage.lines("- abandoned"), ["- abandoned sicr on 0"]);
        assert_eq!(stage.lines("- ended"), ["- ended sicr"]);
        assert_eq!((report.stop_reason(), report.is_success()), (StopReason::MaxRunDuration, true));
    }
    let stage = Stage::new();
    let play = Play::new(vec![sicr()], &LONE, &stage);
    play.store.script("delete", Duration::from_secs(1800), Some(FailureKind::Fatal));
    assert_eq!(play.run().outcome(), Outcome::Failed);
    assert_eq!(stage.lines("- attempt"), ["- attempt sicr on 0 failed: scripted, the last"]);
}

#[test]
fn a_batch_whose_time_is_up_during_the_pause_is_not_sent() {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr()], &LONE, &stage);
    (play.limits.batch_size, play.limits.batch_pause) = (1, Duration::from_secs(10));
    play.limits.max_run_duration = Duration::from_secs(15);
    let report = play.run();
    assert_eq!((stage.lines("- batch sicr on 0, at").len(), report.policies[0].deleted), (2, 2));
    assert_eq!(stage.lines("- ended"), ["- ended sicr"]);
    assert_eq!(report.duration, Duration::from_secs(15));
}

#[test]
fn the_window_s_end_is_named_where_it_comes_no_later_than_the_fuse() {
    let reason = |window, fuse| {
        let stage = Stage::new();
        let mut play = Play::new(vec![sicr()], &LONE, &stage);
        (play.limits.window_closes_in, play.limits.max_run_duration) = (Some(millis(window)), millis(fuse));
        play.store.script("delete", millis(5000), None);
        play.run().stop_reason()
    };
    assert_eq!(reason(4000, 5000), StopReason::WindowClosed);
    assert_eq!(reason(5000, 5000), StopReason::WindowClosed);
    assert_eq!(reason(5001, 5000), StopReason::WindowClosed, "no statement fits into what is left of it");
    assert_eq!(reason(6000, 5000), StopReason::MaxRunDuration);
    assert_eq!(reason(5001, 6000), StopReason::Drained, "one millisecond is enough for a statement");
}

#[test]
fn a_statement_is_bounded_by_a_part_of_what_is_left() {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr()], &LONE, &stage);
    play.limits.max_run_duration = Duration::from_secs(8);
    play.run();
    assert_eq!(stage.lines("delete"), ["delete sicr 1+2+3 within 2000 ms"]);
}

#[test]
fn clocks_up_to_an_hour_apart_are_told_and_more_refuse_the_run() {
    let hour = TimeDelta::hours(1);
    for (wall, skew) in [(now() - hour, 3_600_000), (now() + hour, -3_600_000)] {
        let stage = Stage::with_wall(wall);
        assert!(Play::new(vec![sicr()], &LONE, &stage).try_run().is_ok());
        assert_eq!(stage.lines("- started"), [format!("- started run-1, skew {skew} ms, policies 1")]);
    }
    let more = hour + TimeDelta::milliseconds(1);
    for wall in [now() - more, now() + more] {
        let stage = Stage::with_wall(wall);
        let refused = Play::new(vec![sicr()], &LONE, &stage).try_run().unwrap_err();
        assert!(refused.to_string().contains("3600 s apart, more than an hour"), "{refused}");
        assert_eq!(stage.journal.lines(), ["- refused run-1 after 0 ms"]);
    }
}

#[test]
fn the_counts_at_the_end_share_one_bound_and_the_last_millisecond_of_it_counts() {
    for (first_takes, counted) in [(29_999, 2), (30_000, 1)] {
        let stage = Stage::new();
        let mut play = Play::new(vec![sicr(), sicr()], &LONE, &stage);
        play.limits.max_run_duration = Duration::from_secs(1);
        play.store.script("window", Duration::from_secs(1), Some(FailureKind::Timeout));
        play.store.script("backlog", millis(first_takes), None);
        let report = play.run();
        let bounds = ["backlog sicr within 30000 ms", "backlog sicr within 1 ms"];
        assert_eq!(stage.lines("backlog"), bounds[..counted]);
        assert_eq!(report.policies.iter().filter(|policy| policy.backlog.is_some()).count(), counted);
        assert_eq!(stage.lines("- ended").len(), 2);
    }
}

#[test]
fn a_count_that_fails_is_told_unless_the_run_s_own_end_ended_it() {
    use FailureKind::{Fatal, Timeout};
    for (late, kind, told) in
        [(false, Timeout, true), (true, Timeout, false), (true, Fatal, true), (false, Fatal, true)]
    {
        let stage = Stage::new();
        let mut play = Play::new(vec![sicr()], &LONE[..1], &stage);
        play.store.inner.hold(RowAddress(1), true);
        play.limits.max_run_duration = Duration::from_secs(10);
        play.store.script("backlog", Duration::from_secs(if late { 8 } else { 7 }), Some(kind));
        let report = play.run();
        let attempt = "- attempt sicr on scan failed: scripted".to_owned();
        assert_eq!(stage.lines("- attempt"), Vec::from_iter(told.then_some(attempt)), "{late} {kind:?}");
        assert_eq!((report.policies[0].backlog, report.stop_reason()), (None, StopReason::RowsHeld));
    }
}

#[test]
fn a_policy_that_waits_leaves_its_turn_to_the_others() {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr(), refresh()], &LONE, &stage);
    play.policies[0].retention = days(101);
    play.store.script("prepare", Duration::ZERO, Some(FailureKind::Transient));
    let report = play.run();
    let ended = stage.lines("- ended");
    assert_eq!(ended, ["- ended refresh", "- ended sicr"]);
    assert_eq!((report.duration, report.policies[1].deleted), (millis(250), 3), "nobody waits with it");
}

/// Whose turn it is, step by step, in a run of three policies over the same rows.
fn turns(script: impl FnOnce(&NotedStore<'_>)) -> Vec<String> {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr(), sicr(), sicr()], &LONE, &stage);
    for (policy, name) in play.policies.iter_mut().zip(["a", "b", "c"]) {
        policy.name = PolicyName::new(name);
    }
    play.limits.batch_size = 1;
    script(&play.store);
    play.run();
    let steps = stage.journal.lines().into_iter().filter(|line| !line.starts_with('-'));
    steps.filter_map(|line| line.split(' ').nth(1).map(str::to_owned)).collect()
}

#[test]
fn policies_take_turns_step_by_step() {
    assert_eq!(turns(|_| ())[..9], ["a", "b", "c", "a", "b", "c", "a", "b", "c"]);
}

#[test]
fn the_turn_of_a_policy_that_waits_is_the_next_one_s() {
    let b_waits = |store: &NotedStore<'_>| {
        store.script("prepare", Duration::ZERO, None);
        store.script("prepare", Duration::ZERO, Some(FailureKind::Transient));
    };
    assert_eq!(turns(b_waits)[..7], ["a", "b", "c", "a", "c", "a", "c"]);
}

#[test]
fn a_policy_s_own_batch_size_and_pause_go_before_those_of_the_run() {
    let stage = Stage::new();
    let mut play = Play::new(vec![sicr()], &LONE, &stage);
    (play.policies[0].batch_size, play.policies[0].batch_pause) = (Some(2), Some(Duration::from_secs(7)));
    let report = play.run();
    assert_eq!(
        stage.lines("- batch sicr on 0, at"),
        ["- batch sicr on 0, at most 2", "- batch sicr on 0, at most 1"]
    );
    assert_eq!(report.duration, Duration::from_secs(7));
}
