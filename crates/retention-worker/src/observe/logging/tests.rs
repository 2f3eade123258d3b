//! What gets through, and how it looks.

use rstest::rstest;
use serde_json::{Value, json};
use tracing::{debug, error, info, info_span, warn};

use super::*;
use crate::observe::fixtures::{Captured, Still};

fn captured(rust_log: Option<&str>, format: &str, log: impl FnOnce()) -> String {
    let written = Captured::default();
    let logging = Logging::from_values(rust_log, Some(format), false).unwrap();
    tracing::subscriber::with_default(logging.subscriber_at(written.clone(), Still), log);
    written.text()
}

fn json_lines(rust_log: Option<&str>, log: impl FnOnce()) -> Vec<Value> {
    captured(rust_log, "json", log).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_json_line_is_one_flat_object_with_typed_fields() {
    let lines = captured(None, "json", || {
        info!(count = 3_u64, skew = -2, ratio = 0.5, ok = true, text = "a \"b\"\nc", debug = ?[1], "it happened");
    });
    assert_eq!(
        lines,
        "{\"timestamp\":\"2026-11-30T02:00:00.000000Z\",\"level\":\"INFO\",\
         \"target\":\"retention_worker::observe::logging::tests\",\"message\":\"it happened\",\
         \"count\":3,\"skew\":-2,\"ratio\":0.5,\"ok\":true,\"text\":\"a \\\"b\\\"\\nc\",\"debug\":\"[1]\"}\n"
    );
}

#[test]
fn a_text_line_stays_one_line_and_shows_where_values_end() {
    let lines = captured(None, "text", || {
        info!(
            count = 3,
            word = "sicr",
            text = "a b\u{1b}[0m\nc\u{85}d",
            cutoffs = "{\"a\":1}",
            none = "",
            "two\nlines"
        );
    });
    assert_eq!(
        lines,
        "2026-11-30T02:00:00.000000Z  INFO retention_worker::observe::logging::tests: two\\nlines \
         count=3 word=sicr text=\"a b\\u001b[0m\\nc\\u{85}d\" cutoffs={\"a\":1} none=\"\"\n"
    );
}

#[test]
fn an_object_is_nested_and_anything_else_in_its_place_stays_text() {
    let lines = json_lines(None, || {
        info!(backlogRemaining = r#"{"identity.a":null}"#, other = "{}", "one");
        info!(backlogRemaining = "not JSON", "two");
    });
    assert_eq!(lines[0]["backlogRemaining"], json!({ "identity.a": null }));
    assert_eq!(lines[0]["other"], json!("{}"));
    assert_eq!(lines[1]["backlogRemaining"], json!("not JSON"));
}

#[test]
fn fields_of_spans_are_on_the_line_and_the_inner_wins() {
    let lines = json_lines(None, || {
        let run = info_span!("run", jobRunId = "r", phase = "outer", late = tracing::field::Empty);
        run.record("late", 5);
        let phase = info_span!(parent: &run, "phase", phase = "inner");
        info!(parent: &phase, "explicit parent");
        run.in_scope(|| info!(phase = "own", "current span"));
    });
    assert_eq!(
        (&lines[0]["jobRunId"], &lines[0]["phase"], &lines[0]["late"]),
        (&json!("r"), &json!("inner"), &json!(5))
    );
    assert_eq!((&lines[1]["jobRunId"], &lines[1]["phase"]), (&json!("r"), &json!("own")));
}

#[test]
fn no_field_takes_the_place_of_a_line_s_own_keys() {
    let line = json_lines(None, || {
        info!(level = "fake", timestamp = 1, target = "t", "real");
    })
    .remove(0);
    assert_eq!((&line["level"], &line["message"]), (&json!("INFO"), &json!("real")));
    assert_eq!((&line["field.level"], &line["field.timestamp"]), (&json!("fake"), &json!(1)));
}

/// Targets and levels of what gets through.
fn passed(rust_log: Option<&str>) -> Vec<String> {
    let lines = json_lines(rust_log, || {
        debug!(target: "retention_worker", "");
        info!(target: "retention_worker", "");
        info!(target: "sqlx::query", "");
        warn!(target: "sqlx::query", "");
        error!(target: "sqlx::postgres::notice", "");
        debug!(target: "sea_orm::query", "");
        warn!(target: "sea_orm::query", "");
    });
    let name =
        |line: &Value| format!("{} {}", line["target"].as_str().unwrap(), line["level"].as_str().unwrap());
    lines.iter().map(name).collect()
}

#[rstest]
#[case(None, &["retention_worker INFO", "sqlx::query WARN", "sea_orm::query WARN"])]
#[case(Some(""), &["retention_worker INFO", "sqlx::query WARN", "sea_orm::query WARN"])]
#[case(Some("debug"), &["retention_worker DEBUG", "retention_worker INFO", "sqlx::query WARN", "sea_orm::query WARN"])]
#[case(Some("error"), &["sqlx::query WARN", "sea_orm::query WARN"])]
#[case(Some("off,sqlx=info,sea_orm=off"), &["sqlx::query INFO", "sqlx::query WARN"])]
#[case(Some("retention_worker=debug"), &["retention_worker DEBUG", "retention_worker INFO", "sqlx::query WARN", "sea_orm::query WARN"])]
fn rust_log_refines_what_is_limited_by_default(#[case] rust_log: Option<&str>, #[case] expected: &[&str]) {
    assert_eq!(passed(rust_log), expected);
}

#[rstest]
#[case("retention_worker=loud")]
#[case("a=b=c")]
#[case("[")]
#[case(" info")]
#[case("info, debug")]
fn a_malformed_filter_is_an_error_that_names_it(#[case] value: &str) {
    let error = Logging::from_values(Some(value), None, false).unwrap_err();
    assert!(error.to_string().contains(&format!("RUST_LOG={value:?}")), "{error}");
}

#[rstest]
#[case("JSON")]
#[case("")]
#[case("yaml")]
fn an_unknown_format_is_an_error_that_names_it(#[case] value: &str) {
    let error = Logging::from_values(None, Some(value), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("LOG_FORMAT={value:?} is not a log format: allowed are json and text")
    );
}

#[rstest]
#[case(None, true, LineFormat::Text)]
#[case(None, false, LineFormat::Json)]
#[case(Some("json"), true, LineFormat::Json)]
#[case(Some("text"), false, LineFormat::Text)]
fn the_format_follows_the_setting_then_the_terminal(
    #[case] format: Option<&str>,
    #[case] terminal: bool,
    #[case] expected: LineFormat,
) {
    assert_eq!(Logging::from_values(None, format, terminal).unwrap().format, expected);
}
