//! What tells one policy's wording from another in the audit trail: a hash of everything that decides which rows go and
//! where to. The page docs/logging.md defines the text that is hashed: others check it.

use std::fmt::Write as _;

use retention_domain::RetentionPolicy;
use retention_domain::guard::{Condition, Test, Value};
use retention_domain::policy::Disposition;
use sha2::{Digest as _, Sha256};

/// SHA-256 of [`canonical`], in lower-case hexadecimal digits.
#[must_use]
pub fn policy_hash(policy: &RetentionPolicy) -> String {
    Sha256::digest(canonical(policy)).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The policy as a text: a line a property, each ended by a line feed. Names and values are JSON strings, so that no value
/// can look like another line; what has no order is sorted. How a run proceeds (rows per batch, pause) and where it is
/// recorded is no part of it.
fn canonical(policy: &RetentionPolicy) -> String {
    let mut lines = vec![
        "policy 1".to_owned(),
        format!("name {}", quoted(policy.name.as_str())),
        format!("table {} {}", quoted(&policy.table.schema), quoted(&policy.table.name)),
        format!("age {}", quoted(&policy.age_column)),
        format!("retention_ms {}", policy.retention.get().as_millis()),
    ];
    let mut conditions: Vec<_> = policy.conditions.iter().map(condition).collect();
    conditions.sort();
    lines.extend(conditions);
    if let Some(parent) = &policy.parent_column {
        let key = policy.key.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(" ");
        lines.push(format!("parent {} {key}", quoted(parent)));
    }
    if let Disposition::Archive(archive) = &policy.disposition {
        lines.push(format!("archive {} {}", quoted(&archive.schema), quoted(&archive.name)));
    }
    lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

fn condition(condition: &Condition) -> String {
    let operator = match &condition.test {
        Test::In(_) => "in",
        Test::NotIn(_) => "not_in",
        Test::IsNull => "is_null",
        Test::IsNotNull => "is_not_null",
    };
    let mut values: Vec<_> = condition.test.values().iter().map(value).collect();
    values.sort();
    values.dedup();
    values
        .into_iter()
        .fold(format!("where {} {operator}", quoted(&condition.column)), |text, value| text + " " + &value)
}

fn value(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use retention_domain::{RetentionPeriod, TableName};

    use super::*;

    fn refresh() -> RetentionPolicy {
        RetentionPolicy::refresh(RetentionPeriod::from_days(90).unwrap())
    }

    #[test]
    fn the_text_is_the_documented_one() {
        insta::assert_snapshot!(canonical(&refresh()), @r#"
        policy 1
        name "refresh"
        table "identity" "refresh_sessions"
        age "updated_at"
        retention_ms 7776000000
        where "status" in "Expired" "Revoked" "Rotated"
        parent "parent_session_id" "id"
        "#);
        let page = include_str!("../../../../docs/logging.md");
        let text = canonical(&refresh());
        assert!(page.contains(text.trim_end()), "docs/logging.md shows another text");
        assert!(
            page.contains(&policy_hash(&refresh())),
            "docs/logging.md shows another hash: {}",
            policy_hash(&refresh())
        );
    }

    #[test]
    fn whatever_decides_what_goes_changes_it_and_nothing_else_does() {
        let hash = policy_hash(&refresh());
        assert_eq!(hash.len(), 64);
        let text = |text: &str| Value::Text(text.to_owned());
        let with = |test: Test| vec![Condition { column: "status".to_owned(), test }];
        let other = [
            RetentionPolicy { retention: RetentionPeriod::from_days(91).unwrap(), ..refresh() },
            RetentionPolicy { table: TableName::new("identity", "other"), ..refresh() },
            RetentionPolicy { age_column: "created_at".to_owned(), ..refresh() },
            RetentionPolicy { conditions: Vec::new(), ..refresh() },
            RetentionPolicy { conditions: with(Test::In(vec![text("Expired")])), ..refresh() },
            RetentionPolicy {
                conditions: with(Test::NotIn(vec![text("Expired"), text("Revoked"), text("Rotated")])),
                ..refresh()
            },
            RetentionPolicy {
                conditions: with(Test::In(vec![text("Expired\" \"Revoked\" \"Rotated")])),
                ..refresh()
            },
            RetentionPolicy { conditions: with(Test::In(vec![text("1")])), ..refresh() },
            RetentionPolicy { conditions: with(Test::In(vec![Value::Integer(1)])), ..refresh() },
            RetentionPolicy { parent_column: None, ..refresh() },
            RetentionPolicy {
                disposition: Disposition::Archive(TableName::new("identity", "a")),
                ..refresh()
            },
        ];
        let hashes: std::collections::BTreeSet<_> =
            other.iter().map(policy_hash).chain([hash.clone()]).collect();
        assert_eq!(hashes.len(), other.len() + 1);

        let same = RetentionPolicy {
            conditions: with(Test::In(vec![
                text("Revoked"),
                text("Rotated"),
                text("Expired"),
                text("Revoked"),
            ])),
            batch_size: Some(1),
            batch_pause: Some(Duration::ZERO),
            audit_table: Some(TableName::new("retention", "ledger")),
            known_values: Vec::new(),
            ..refresh()
        };
        assert_eq!(policy_hash(&same), hash);
    }
}
