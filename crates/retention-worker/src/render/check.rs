//! The preflight's findings. The keys are public interface: exactly these, in this order.

use retention_postgres::{Finding, Level};
use serde::Serialize;

use super::json;
use super::text::{remarks, words};

#[derive(Serialize)]
struct Findings<'a> {
    findings: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    id: &'a str,
    policy: &'a str,
    level: &'a str,
    message: &'a str,
    advice: Option<&'a str>,
}

/// The findings as one JSON object on one line. `advice` is null where nothing needs mending.
#[must_use]
pub fn check_json(findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| Part {
        id: finding.id,
        policy: &finding.policy,
        level: finding.level.as_str(),
        message: &finding.message,
        advice: finding.advice.as_deref(),
    });
    json(&Findings { findings: findings.collect() })
}

/// The findings for people, at most 100 columns wide: all of them, then what to do, then how many.
#[must_use]
pub fn check_text(findings: &[Finding]) -> String {
    let table = words(
        ["level", "finding", "policy", "check"],
        findings.iter().map(|finding| {
            let Finding { id, policy, level, message, .. } = finding;
            [level.as_str().to_owned(), message.clone(), policy.clone(), (*id).to_owned()]
        }),
    );
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let plural = |count| if count == 1 { "" } else { "s" };
    let sum = format!("{errors} error{}, {warnings} warning{}", plural(errors), plural(warnings));
    let advice: Vec<_> = findings
        .iter()
        .filter_map(|finding| {
            let advice = finding.advice.clone()?;
            Some((format!("{} ({})", finding.id, finding.policy), vec![advice]))
        })
        .collect();
    if advice.is_empty() {
        format!("{table}\n\n{sum}")
    } else {
        format!("{table}\n\nadvice\n{}\n\n{sum}", remarks(advice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("read-only", Finding::RUN, "the server takes writes"),
            Finding::ok("table-exists", "sicr", "identity.sign_in_confirmation_requests exists"),
            Finding::bad(
                "parent-index",
                "refresh",
                Level::Warning,
                "no index finds rows by parent_session_id: every deleted row costs a scan of the table, 1 to 10 ms for \
                 each 100,000 rows in it",
                "CREATE INDEX CONCURRENTLY ON \"identity\".\"refresh_sessions\" (\"parent_session_id\");",
            ),
            Finding::bad("rights", "refresh", Level::Error, "role a\u{1b}[2Jb lacks DELETE", "GRANT DELETE"),
        ]
    }

    #[test]
    fn json_has_the_keys_of_the_contract_in_their_order() {
        insta::assert_snapshot!("check_json", check_json(&findings()));
    }

    #[test]
    fn text_is_for_people() {
        let text = check_text(&findings());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!("check_text", text);
    }

    #[test]
    fn without_advice_there_is_no_place_for_it() {
        let text = check_text(&findings()[..2]);
        assert!(!text.contains("advice") && text.ends_with("0 errors, 0 warnings"), "{text}");
    }
}
