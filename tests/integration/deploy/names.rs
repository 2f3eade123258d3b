//! Rules and dashboard ask only for what is exported or recorded: names, labels, and the values of labels.

use std::collections::{BTreeMap, BTreeSet};

use retention_worker::observe::metric_table::{self, ERROR_KINDS, Kind, RUN_PHASE, STATES};
use rstest::rstest;

use super::{dashboard_queries, rules};

/// What Prometheus adds to a series of a target.
const OF_THE_TARGET: [&str; 4] = ["cluster", "namespace", "job", "instance"];
/// Words that are followed by a list of labels.
const BEFORE_LABELS: [&str; 5] = ["by", "without", "on", "ignoring", "group_left"];
/// What Prometheus itself makes.
const OF_PROMETHEUS: (&str, [&str; 2]) = ("ALERTS", ["alertname", "alertstate"]);

/// Every series that can be asked for, with its labels.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let with_target =
        |labels: &[&str]| labels.iter().chain(&OF_THE_TARGET).map(ToString::to_string).collect();
    let mut known = BTreeMap::new();
    for metric in metric_table::ALL {
        let mut labels: BTreeSet<String> = with_target(metric.labels);
        if matches!(metric.kind, Kind::Histogram(_)) {
            for suffix in ["_sum", "_count"] {
                known.insert(format!("{}{suffix}", metric.name), labels.clone());
            }
            labels.insert("le".to_owned());
            known.insert(format!("{}_bucket", metric.name), labels);
        } else {
            known.insert(metric.name.to_owned(), labels);
        }
    }
    for rule in rules() {
        if let Some(record) = rule["record"].as_str() {
            // What a record keeps stands in its own lists of labels, or is what the records it reads keep.
            let words: Vec<&str> = words(rule["expr"].as_str().unwrap()).collect();
            let inherited =
                words.iter().filter(|word| word.contains(':')).filter_map(|word| known.get(*word));
            let own = words.iter().filter(|word| !word.contains(':')).map(ToString::to_string);
            let labels: BTreeSet<String> = inherited.flatten().cloned().chain(own).collect();
            known.insert(record.to_owned(), labels);
        }
    }
    known.insert(OF_PROMETHEUS.0.to_owned(), with_target(&OF_PROMETHEUS.1));
    known
}

/// The identifiers of an expression.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    expression.split(move |c| !is_part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The label values that may stand behind `label=` as they are.
fn values(label: &str) -> Option<Vec<&'static str>> {
    match label {
        "state" => Some(STATES.to_vec()),
        "kind" => Some(ERROR_KINDS.to_vec()),
        "phase" => Some(vec![RUN_PHASE, "sicr", "refresh"]),
        "alertstate" => Some(vec!["firing", "pending"]),
        _ => None,
    }
}

/// What an expression asks for in vain.
fn faults(expression: &str) -> Vec<String> {
    let known = known();
    let mut faults = Vec::new();
    let all: BTreeSet<&String> = known.values().flatten().collect();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        rest = &rest[start..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        let follows = after.trim_start();
        if BEFORE_LABELS.contains(&word) {
            let (list, after) = follows.strip_prefix('(').unwrap_or_default().split_once(')').unwrap();
            faults.extend(words(list).filter(|label| !all.contains(&(*label).to_owned())).map(str::to_owned));
            rest = after;
        } else if word.starts_with("identity_") || word.contains(':') || word == OF_PROMETHEUS.0 {
            let Some(labels) = known.get(word) else {
                faults.push(word.to_owned());
                continue;
            };
            let Some((matchers, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}'))
            else {
                continue;
            };
            rest = after;
            for matcher in matchers.split(", ") {
                let (label, value) = matcher.split_once(['=', '!']).unwrap();
                let exact = value.trim_start_matches('=').trim_matches('"');
                let is_right = labels.contains(label)
                    && (value.starts_with('~') || values(label).is_none_or(|values| values.contains(&exact)));
                if !is_right {
                    faults.push(format!("{word}{{{matcher}}}"));
                }
            }
        }
    }
    faults
}

#[test]
fn every_rule_asks_for_what_there_is() {
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        assert_eq!(faults(expression), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn every_panel_asks_for_what_there_is() {
    let queries = dashboard_queries();
    assert!(queries.len() > 15, "{}", queries.len());
    for (query, legend) in queries {
        assert_eq!(faults(&query), Vec::<String>::new(), "{query}");
        // A label that the query has not kept would be shown empty.
        for label in legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
            let known = known();
            let series = words(&query).find_map(|word| known.get(word)).unwrap();
            assert!(series.contains(label), "{legend} of {query}");
        }
    }
}

#[rstest]
#[case("identity_session_retention_backlogs > 0", "identity_session_retention_backlogs")]
#[case(
    r#"identity_session_retention_backlog{status="pending"}"#,
    r#"identity_session_retention_backlog{status="pending"}"#
)]
#[case(
    r#"identity_session_retention_backlog{job="a", state="open"}"#,
    r#"identity_session_retention_backlog{state="open"}"#
)]
#[case("sum by (polcy) (identity_session_retention_deleted_total)", "polcy")]
#[case("session_retention:unheard_of + 1", "session_retention:unheard_of")]
#[case(
    "increase(identity_session_retention_run_duration_ms[1d])",
    "identity_session_retention_run_duration_ms"
)]
fn what_is_not_exported_is_found(#[case] expression: &str, #[case] fault: &str) {
    assert_eq!(faults(expression), [fault]);
}

#[test]
fn every_metric_of_the_worker_is_looked_at() {
    let asked: String = rules()
        .iter()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned())
        .chain(dashboard_queries().into_iter().map(|(query, _)| query))
        .collect();
    let ignored: Vec<&str> =
        metric_table::ALL.iter().map(|metric| metric.name).filter(|name| !asked.contains(name)).collect();
    assert_eq!(ignored, Vec::<&str>::new());
}
