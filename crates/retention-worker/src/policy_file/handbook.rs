//! The delivered file of the handbook's policies, against the handbook's table as written down here once more.

use std::collections::{BTreeMap, BTreeSet};

use retention_domain::guard::{Condition, Test, Value};
use retention_domain::period::format_duration;
use retention_domain::policy::Disposition;

use super::*;

fn handbook() -> Vec<Declared> {
    parse("handbook.toml", include_str!("../../../../deploy/policies/handbook.toml")).unwrap()
}

fn condition(policy: &RetentionPolicy) -> &Condition {
    let [condition] = &policy.conditions[..] else { panic!("{policy:?}") };
    condition
}

#[test]
fn every_period_of_the_handbook_is_in_the_file() {
    let declared = handbook();
    let found: BTreeMap<_, _> = declared
        .iter()
        .map(|Declared { policy, minimum, .. }| {
            let periods = [policy.retention, *minimum].map(|period| format_duration(period.get()));
            let of = (policy.table.to_string(), policy.age_column.as_str(), periods);
            (policy.name.as_str(), of)
        })
        .collect();
    let of = |table: &str, age, retention: &str, minimum: &str| {
        (format!("review.{table}"), age, [retention.to_owned(), minimum.to_owned()])
    };
    let expected = BTreeMap::from([
        ("outbox-acked", of("outbox", "created_at", "7d", "3d")),
        ("sessions", of("sessions", "created_at", "30d", "30d")),
        ("rate-limit-violations", of("rate_limit_violations", "created_at", "90d", "90d")),
        ("audit-log-ordinary", of("audit_log", "created_at", "180d", "180d")),
        ("audit-log-security", of("audit_log", "created_at", "365d", "365d")),
        ("idempotency-keys", of("idempotency_keys", "created_at", "1d", "1d")),
        ("failed-logins", of("failed_logins", "created_at", "30d", "30d")),
        ("upload-sessions-unfinished", of("upload_sessions", "created_at", "1d", "1d")),
        ("webhook-deliveries", of("webhook_deliveries", "created_at", "30d", "30d")),
        ("reviews-purge", of("reviews", "deleted_at", "90d", "90d")),
        ("moderation-decisions-archive", of("moderation_decisions", "created_at", "730d", "730d")),
    ]);
    assert_eq!(found, expected);
}

#[test]
fn the_conditions_are_those_of_the_handbook() {
    let declared = handbook();
    let find = |name: &str| {
        declared.iter().map(|declared| &declared.policy).find(|policy| policy.name.as_str() == name).unwrap()
    };
    for (name, column, test) in [
        ("outbox-acked", "offset_acked", Test::IsNotNull),
        ("upload-sessions-unfinished", "completed_at", Test::IsNull),
        ("reviews-purge", "deleted_at", Test::IsNotNull),
    ] {
        assert_eq!(condition(find(name)), &Condition { column: column.to_owned(), test });
    }
    let archives = |policy: &&RetentionPolicy| policy.disposition != Disposition::Delete;
    let archiving: Vec<_> = declared.iter().map(|declared| &declared.policy).filter(archives).collect();
    assert_eq!(archiving, [find("moderation-decisions-archive")]);
    let unconditional = declared.iter().filter(|declared| declared.policy.conditions.is_empty()).count();
    assert_eq!(unconditional, 6);
}

/// The examples of the page are files as they are, and say what the handbook's file says.
#[test]
fn the_examples_of_the_page_are_the_handbook_s() {
    let page = include_str!("../../../../docs/policies.md");
    let examples: Vec<_> = page
        .split("```toml\n")
        .skip(1)
        .flat_map(|rest| parse("docs/policies.md", rest.split("```").next().unwrap()).unwrap())
        .collect();
    assert_eq!(examples.len(), 5);
    let declared = handbook();
    for name in ["outbox-acked", "audit-log-ordinary", "audit-log-security"] {
        let of = |declared: &[Declared]| {
            let found = declared.iter().find(|declared| declared.policy.name.as_str() == name).unwrap();
            (found.policy.clone(), found.minimum)
        };
        assert_eq!(of(&examples), of(&declared));
    }
}

/// Whatever the action: it passes exactly one of the two policies, but for the one that passes neither. The lists are
/// the file's own; that an action which is in no list passes the first alone, holds for every other text alike.
#[test]
fn the_two_audit_policies_cover_everything_but_requests_for_deletion() {
    let declared = handbook();
    let of_audit: Vec<_> = declared
        .iter()
        .filter(|declared| declared.policy.table.name == "audit_log")
        .map(|declared| condition(&declared.policy))
        .collect();
    let [ordinary, security] = of_audit[..] else { panic!("{of_audit:?}") };
    let (Test::NotIn(not_ordinary), Test::In(secure)) = (&ordinary.test, &security.test) else {
        panic!("{of_audit:?}")
    };
    let set = |values: &[Value]| values.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let (mut not_ordinary, secure) = (set(not_ordinary), set(secure));
    let expected = ["ban", "login_failed", "login_success", "password_change", "role_change", "unban"];
    assert_eq!(secure, expected.map(str::to_owned).into());
    // The complement: what the first leaves out is what the second takes, and one more.
    assert!(not_ordinary.remove("delete_requested"));
    assert_eq!(not_ordinary, secure);
    assert_eq!((ordinary.column.as_str(), security.column.as_str()), ("action", "action"));

    let passed = |action: Option<&str>| [ordinary, security].map(|condition| condition.passes(action));
    for action in &secure {
        assert_eq!(passed(Some(action)), [false, true], "{action}");
    }
    for action in ["review_created", "", "LOGIN_FAILED", "ban ", "anything"] {
        assert_eq!(passed(Some(action)), [true, false], "{action:?}");
    }
    assert_eq!(passed(Some("delete_requested")), [false, false]);
    assert_eq!(passed(None), [false, false]);
}
