//! The plan: what a run would meet. Its keys are public interface: exactly these, in this order.

use chrono::{DateTime, Utc};
use retention_domain::{Cutoff, Failure, PolicyName, Preview, TableName};
use serde::Serialize;

use super::text::{NONE, days, grouped, numbers, remarks, rows};
use super::{age_seconds, json, timestamp};

/// One policy of a plan.
#[derive(Clone, Debug)]
pub struct PlanRow {
    /// The policy.
    pub policy: PolicyName,
    /// Its table.
    pub table: TableName,
    /// Its cutoff.
    pub cutoff: Cutoff,
    /// What a run would meet, or why that could not be found out.
    pub preview: Result<Preview, Failure>,
    /// Rows per batch, at least 1.
    pub batch_size: u32,
    /// What the caller warns of; what follows from the preview is added here.
    pub warnings: Vec<String>,
    /// What the caller has to say beside that. In JSON they follow the warnings.
    pub notes: Vec<String>,
}

#[derive(Serialize)]
struct Plan<'a> {
    now: String,
    policies: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    policy: &'a str,
    table: String,
    cutoff: String,
    due: Option<u64>,
    deletable: Option<u64>,
    blocked: Option<u64>,
    undated: Option<u64>,
    unknown_status: Option<u64>,
    oldest_age_seconds: Option<u64>,
    expected_batches: Option<u64>,
    warnings: Vec<String>,
    #[serde(skip)]
    notes: usize,
}

/// The plan as one JSON object on one line. The counts of a policy that could not be examined are null.
#[must_use]
pub fn plan_json(now: DateTime<Utc>, policies: &[PlanRow]) -> String {
    json(&Plan { now: timestamp(now), policies: policies.iter().map(|row| Part::new(row, now)).collect() })
}

/// The plan for people, at most 100 columns wide.
#[must_use]
pub fn plan_text(now: DateTime<Utc>, policies: &[PlanRow]) -> String {
    let parts: Vec<_> = policies.iter().map(|row| Part::new(row, now)).collect();
    let number = |number: Option<u64>| number.map_or(NONE.to_owned(), grouped);
    let table = numbers(
        ["policy", "due", "deletable", "blocked", "undated", "unknown status", "oldest due", "batches"],
        parts.iter().map(|part| {
            [
                part.policy.to_owned(),
                number(part.due),
                number(part.deletable),
                number(part.blocked),
                number(part.undated),
                number(part.unknown_status),
                part.oldest_age_seconds.map_or(NONE.to_owned(), days),
                number(part.expected_batches),
            ]
        }),
    );
    let remarks = remarks(parts.iter().map(|part| {
        let target = format!("{}, rows older than {}", part.table, part.cutoff);
        let (warnings, notes) = part.warnings.split_at(part.warnings.len() - part.notes);
        let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
        let notes = notes.iter().map(|note| format!("note: {note}"));
        (part.policy.to_owned(), [target].into_iter().chain(warnings).chain(notes).collect())
    }));
    format!("preview at {}: nothing is deleted\n\n{table}\n\n{remarks}", timestamp(now))
}

impl<'a> Part<'a> {
    fn new(row: &'a PlanRow, now: DateTime<Utc>) -> Self {
        let preview = row.preview.as_ref().ok();
        Self {
            policy: row.policy.as_str(),
            table: row.table.to_string(),
            cutoff: timestamp(row.cutoff.instant()),
            due: preview.map(|preview| preview.due),
            deletable: preview.map(|preview| preview.deletable),
            blocked: preview.map(|preview| preview.blocked),
            undated: preview.map(|preview| preview.undated),
            unknown_status: preview.map(|preview| preview.unknown_status),
            oldest_age_seconds: preview
                .and_then(|preview| preview.oldest)
                .map(|oldest| age_seconds(now, oldest)),
            expected_batches: preview
                .map(|preview| preview.deletable.div_ceil(u64::from(row.batch_size.max(1)))),
            warnings: warnings(row),
            notes: row.notes.len(),
        }
    }
}

/// What to know about the policy: why it could not be examined, what stays that one might expect to go, and what
/// the caller has to say.
fn warnings(row: &PlanRow) -> Vec<String> {
    let mut warnings = Vec::new();
    match &row.preview {
        Err(failure) => warnings.push(failure.sentence.clone()),
        Ok(preview) => {
            if preview.undated > 0 {
                warnings.push(format!(
                    "{} without a usable date: kept whatever their age",
                    rows(preview.undated)
                ));
            }
            if preview.unknown_status > 0 {
                warnings.push(format!(
                    "{} with an unknown status: kept whatever their age",
                    rows(preview.unknown_status)
                ));
            }
        }
    }
    warnings.extend(row.warnings.iter().chain(&row.notes).cloned());
    warnings
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use retention_domain::FailureKind;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::observe::fixtures::{self, NIGHT};

    fn row(index: usize, preview: Result<Preview, Failure>) -> PlanRow {
        let policy = &fixtures::policies()[index];
        PlanRow {
            policy: policy.name.clone(),
            table: policy.table.clone(),
            cutoff: Cutoff::before(NIGHT, policy.retention).unwrap(),
            preview,
            batch_size: 5_000,
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn mixed() -> Vec<PlanRow> {
        let oldest = Some(NIGHT - TimeDelta::days(400));
        let sicr = Preview { due: 1_234_567, deletable: 1_234_567, oldest, ..Preview::default() };
        let refresh =
            Preview { due: 23, deletable: 20, blocked: 3, undated: 1, unknown_status: 2_000, oldest };
        let missing = Failure::new(FailureKind::Fatal, "table review.outbox does not exist (42P01)");
        vec![
            PlanRow { notes: vec!["index ix finds due rows by created_at".to_owned()], ..row(0, Ok(sicr)) },
            PlanRow { warnings: vec!["the index for it is missing".to_owned()], ..row(1, Ok(refresh)) },
            row(2, Err(missing)),
        ]
    }

    #[test]
    fn json_has_the_keys_of_the_contract_in_their_order() {
        insta::assert_snapshot!("plan_json", plan_json(NIGHT, &mixed()));
    }

    #[test]
    fn text_is_for_people() {
        let text = plan_text(NIGHT, &mixed());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!("plan_text", text);
    }

    #[rstest]
    #[case(0, 0)]
    #[case(1, 1)]
    #[case(5_000, 1)]
    #[case(5_001, 2)]
    fn a_last_batch_that_is_not_full_counts(#[case] deletable: u64, #[case] batches: u64) {
        let plan = plan_json(NIGHT, &[row(0, Ok(Preview { deletable, ..Preview::default() }))]);
        let plan: Value = serde_json::from_str(&plan).unwrap();
        assert_eq!(plan["policies"][0]["expected_batches"], batches);
    }
}
