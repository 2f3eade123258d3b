//! The run report. Its keys are public interface: exactly these, in this order.

use chrono::{DateTime, Utc};
use retention_domain::period::format_duration;
use retention_domain::{Backlog, Outcome, PolicyName, PolicyReport, RunReport, StopReason};
use serde::Serialize;

use super::text::{NONE, days, grouped, numbers, remarks, rows};
use super::{age_seconds, json, millis, timestamp};

#[derive(Serialize)]
struct Report<'a> {
    job_run_id: &'a str,
    started_at: String,
    duration_ms: u64,
    outcome: &'static str,
    stop_reason: &'static str,
    sicr_deleted: u64,
    refresh_deleted: u64,
    backlog_remaining: Option<u64>,
    policies: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    policy: &'a str,
    table: String,
    cutoff: String,
    deleted: u64,
    batches: u64,
    skipped: u64,
    failed_rows: u64,
    stop_reason: &'static str,
    error: Option<&'a str>,
    backlog: Left,
}

#[derive(Serialize)]
struct Left {
    pending: Option<u64>,
    blocked: Option<u64>,
    oldest_age_seconds: Option<u64>,
}

/// The report as one JSON object on one line.
#[must_use]
pub fn report_json(report: &RunReport) -> String {
    json(&Report {
        job_run_id: &report.job_run_id,
        started_at: timestamp(report.started_at),
        duration_ms: millis(report.duration),
        outcome: report.outcome().as_str(),
        stop_reason: report.stop_reason().as_str(),
        sicr_deleted: report.deleted(PolicyName::SICR),
        refresh_deleted: report.deleted(PolicyName::REFRESH),
        backlog_remaining: report.backlog_remaining(),
        policies: report.policies.iter().map(|policy| Part::new(policy, report.started_at)).collect(),
    })
}

/// The report for people, at most 100 columns wide.
#[must_use]
pub fn report_text(report: &RunReport) -> String {
    let deleted = report.policies.iter().map(|policy| policy.deleted).sum();
    let left = report.backlog_remaining().map_or("unknown".to_owned(), rows);
    let table = numbers(
        ["policy", "deleted", "batches", "skipped", "failed", "pending", "blocked", "oldest left"],
        report.policies.iter().map(|policy| {
            let left = Left::new(policy.backlog.as_ref(), report.started_at);
            let number = |number: Option<u64>| number.map_or(NONE.to_owned(), grouped);
            [
                policy.policy.to_string(),
                grouped(policy.deleted),
                grouped(policy.batches),
                grouped(policy.skipped),
                grouped(policy.failed_rows),
                number(left.pending),
                number(left.blocked),
                left.oldest_age_seconds.map_or(NONE.to_owned(), days),
            ]
        }),
    );
    let remarks = remarks(report.policies.iter().map(|policy| {
        let target = format!("{}, rows older than {}", policy.table, timestamp(policy.cutoff.instant()));
        let ending = format!("{}: {}", policy.stop_reason.as_str(), explained(policy));
        (policy.policy.to_string(), vec![target, ending])
    }));
    let next = match report.outcome() {
        Outcome::Failed => {
            "\n\nwhat to do: `retention-worker check` says what stands in the way, and what mends it"
        }
        _ => "",
    };
    format!(
        "run {} {}: {}\nstarted {}, took {}\ndeleted: {}, still due: {left}\n\n{table}\n\n{remarks}{next}",
        report.job_run_id,
        report.outcome().as_str(),
        report.stop_reason().as_str(),
        timestamp(report.started_at),
        format_duration(report.duration),
        rows(deleted),
    )
}

impl<'a> Part<'a> {
    fn new(report: &'a PolicyReport, now: DateTime<Utc>) -> Self {
        Self {
            policy: report.policy.as_str(),
            table: report.table.to_string(),
            cutoff: timestamp(report.cutoff.instant()),
            deleted: report.deleted,
            batches: report.batches,
            skipped: report.skipped,
            failed_rows: report.failed_rows,
            stop_reason: report.stop_reason.as_str(),
            error: report.error.as_deref(),
            backlog: Left::new(report.backlog.as_ref(), now),
        }
    }
}

impl Left {
    fn new(backlog: Option<&Backlog>, now: DateTime<Utc>) -> Self {
        Self {
            pending: backlog.map(|backlog| backlog.pending),
            blocked: backlog.map(|backlog| backlog.blocked),
            oldest_age_seconds: backlog.and_then(Backlog::oldest).map(|oldest| age_seconds(now, oldest)),
        }
    }
}

/// Why the policy stopped, in a sentence.
fn explained(report: &PolicyReport) -> String {
    let blocked = report.backlog.map_or(0, |backlog| backlog.blocked);
    match report.stop_reason {
        StopReason::Error => report.error.clone().unwrap_or_else(|| "no cause was given".to_owned()),
        StopReason::Shutdown => "the process was asked to stop; the next run takes the rest".to_owned(),
        StopReason::WindowClosed => "the night window closed; the next night takes the rest".to_owned(),
        StopReason::MaxRunDuration => "the run's time was up; the next run takes the rest".to_owned(),
        StopReason::RowsHeld => {
            format!(
                "all went but {} locked by other sessions; the next run takes the rest",
                rows(report.skipped)
            )
        }
        StopReason::Drained if blocked > 0 => {
            format!("nothing deletable is left (blocked by a descendant that stays: {})", rows(blocked))
        }
        StopReason::Drained => "nothing deletable is left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::TimeDelta;
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::fixtures::{self, NIGHT};

    /// One policy for each way to stop; numbers large enough to need their commas.
    fn mixed() -> RunReport {
        let [sicr, refresh, outbox] = fixtures::policies().try_into().unwrap();
        let named = |policy: &retention_domain::RetentionPolicy, name| PolicyReport {
            policy: PolicyName::new(name),
            ..fixtures::part(policy)
        };
        let reports = vec![
            PolicyReport { deleted: 1_234_567, batches: 247, ..fixtures::part(&sicr) },
            PolicyReport {
                deleted: 20,
                batches: 1,
                backlog: Some(Backlog {
                    blocked: 3,
                    oldest_blocked: Some(NIGHT - TimeDelta::days(100)),
                    ..Backlog::default()
                }),
                ..fixtures::part(&refresh)
            },
            PolicyReport {
                skipped: 1,
                stop_reason: StopReason::RowsHeld,
                backlog: Some(Backlog {
                    pending: 1,
                    blocked: 1,
                    oldest_pending: Some(NIGHT - TimeDelta::milliseconds(8 * 86_400_000 + 900)),
                    oldest_blocked: Some(NIGHT - TimeDelta::days(7)),
                }),
                ..named(&outbox, "held")
            },
            PolicyReport { stop_reason: StopReason::MaxRunDuration, backlog: None, ..named(&outbox, "slow") },
            PolicyReport { stop_reason: StopReason::WindowClosed, ..named(&outbox, "late") },
            PolicyReport { stop_reason: StopReason::Shutdown, ..named(&outbox, "stopped") },
            PolicyReport {
                stop_reason: StopReason::Error,
                failed_rows: 100,
                error: Some(
                    "deleting a batch of review.outbox: update or delete violates foreign key \
                             constraint \"fk\u{1b}[2J\" on table \"review.attachments\" (23503)"
                        .to_owned(),
                ),
                ..named(&outbox, "failed")
            },
        ];
        RunReport { policies: reports, duration: Duration::from_millis(1_799_123), ..fixtures::report() }
    }

    #[test]
    fn json_has_the_keys_of_the_contract_in_their_order() {
        insta::assert_snapshot!("report_json", report_json(&mixed()));
    }

    #[test]
    fn text_is_for_people() {
        let text = report_text(&mixed());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!("report_text", text);
    }

    /// The example of the contract, value by value.
    #[test]
    fn the_contract_s_example_is_what_comes_out() {
        let [sicr, refresh, _] = fixtures::policies().try_into().unwrap();
        let blocked = Backlog {
            blocked: 3,
            oldest_blocked: Some(NIGHT - TimeDelta::seconds(8_640_000)),
            ..Backlog::default()
        };
        let report = RunReport {
            duration: Duration::from_micros(1_234_999),
            policies: vec![
                PolicyReport { deleted: 10, batches: 1, ..fixtures::part(&sicr) },
                PolicyReport { deleted: 20, batches: 1, backlog: Some(blocked), ..fixtures::part(&refresh) },
            ],
            ..fixtures::report()
        };
        let expected = json!({
            "job_run_id": fixtures::RUN_ID, "started_at": "2026-11-30T02:00:00Z", "duration_ms": 1234,
            "outcome": "completed", "stop_reason": "drained",
            "sicr_deleted": 10, "refresh_deleted": 20, "backlog_remaining": 3,
            "policies": [
                { "policy": "sicr", "table": "identity.sign_in_confirmation_requests", "cutoff": "2026-10-31T02:00:00Z",
                  "deleted": 10, "batches": 1, "skipped": 0, "failed_rows": 0, "stop_reason": "drained", "error": null,
                  "backlog": { "pending": 0, "blocked": 0, "oldest_age_seconds": null } },
                { "policy": "refresh", "table": "identity.refresh_sessions", "cutoff": "2026-09-01T02:00:00Z",
                  "deleted": 20, "batches": 1, "skipped": 0, "failed_rows": 0, "stop_reason": "drained", "error": null,
                  "backlog": { "pending": 0, "blocked": 3, "oldest_age_seconds": 8_640_000 } },
            ],
        });
        assert_eq!(serde_json::from_str::<Value>(&report_json(&report)).unwrap(), expected);
    }
}
