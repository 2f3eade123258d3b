//! The resolved settings. Secrets are hidden by whoever makes the rows.

use serde::Serialize;

use super::json;
use super::text::words;

/// One setting, as text. Its keys are public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigRow {
    /// The variable's full name.
    pub variable: String,
    /// The resolved value.
    pub value: String,
    /// The value's unit; empty when it has none.
    pub unit: String,
    /// `default` or `environment`.
    pub source: String,
}

/// The settings as one JSON array on one line.
#[must_use]
pub fn config_json(rows: &[ConfigRow]) -> String {
    json(&rows)
}

/// The settings for people, at most 100 columns wide.
#[must_use]
pub fn config_text(rows: &[ConfigRow]) -> String {
    words(
        ["variable", "value", "unit", "source"],
        rows.iter().cloned().map(|row| [row.variable, row.value, row.unit, row.source]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<ConfigRow> {
        let row = |variable: &str, value: &str, unit: &str, source: &str| ConfigRow {
            variable: variable.to_owned(),
            value: value.to_owned(),
            unit: unit.to_owned(),
            source: source.to_owned(),
        };
        vec![
            row("DATABASE_URL", "(hidden)", "", "environment"),
            row("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", "90d", "duration", "default"),
            row(
                "SESSION_RETENTION_POLICY_FILE",
                &format!("/etc/retention/{}.toml", "long/".repeat(20)),
                "path",
                "environment",
            ),
            row("SESSION_RETENTION_AUDIT_TABLE", "a\u{1b}[2Jb", "", "environment"),
        ]
    }

    #[test]
    fn json_has_the_keys_of_the_contract_in_their_order() {
        insta::assert_snapshot!("config_json", config_json(&rows()));
    }

    #[test]
    fn text_is_for_people() {
        let text = config_text(&rows());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!("config_text", text);
    }
}
