//! The resolved settings. Secrets are hidden by whoever makes the rows.

use super::json;
use super::text::words;
use crate::settings::Resolved;

/// The settings as one JSON array on one line; null where there is no value.
#[must_use]
pub fn config_json(settings: &[Resolved]) -> String {
    json(&settings)
}

/// The settings for people, at most 100 columns wide.
#[must_use]
pub fn config_text(settings: &[Resolved]) -> String {
    words(
        ["variable", "value", "unit", "source"],
        settings.iter().map(|setting| {
            let value = setting.value.clone().unwrap_or_else(|| "none".to_owned());
            [setting.variable.to_owned(), value, setting.unit.to_owned(), setting.source.to_owned()]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Resolved> {
        let row = |variable, value: Option<&str>, unit, source| Resolved {
            variable,
            value: value.map(str::to_owned),
            unit,
            source,
        };
        let long = format!("/etc/retention/{}.toml", "long/".repeat(20));
        vec![
            row("DATABASE_URL", Some("***"), "URL", "environment"),
            row("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", Some("90d"), "duration", "default"),
            row("SESSION_RETENTION_POLICY_FILE", Some(&long), "path", "environment"),
            row("SESSION_RETENTION_AUDIT_TABLE", Some("a\u{1b}[2Jb"), "table", "environment"),
            row("LOG_FORMAT", None, "format", "default"),
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
