//! What the help teaches beyond the options: examples, exit codes, variables, and where to read on. The manual page
//! says the same. Every example is a command line that this version understands.

use std::fmt::Write as _;

/// What follows the short help.
pub(super) const SHORT: &str = "`--help` says more: examples, exit codes and variables. Settings come from the environment; DATABASE_URL is required.";

/// Where to read on.
pub(super) const FURTHER: &str = "\
docs/configuration.md has every setting, docs/logging.md every event, docs/metrics.md every series; \
`retention-worker config` shows what is in force.";

/// The variables a newcomer needs; the last one stands for all others.
pub(super) const VARIABLES: [(&str, &str); 6] = [
    ("DATABASE_URL", "the database; required"),
    ("SESSION_RETENTION_SICR_RETENTION", "how long confirmation requests are kept (30d)"),
    ("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", "how long ended sessions are kept (90d)"),
    ("SESSION_RETENTION_NIGHT_WINDOW_UTC", "when `serve` runs (02:00-05:00)"),
    ("SESSION_RETENTION_MAX_RUN_DURATION", "when a run ends and the next one goes on (30m)"),
    ("RUST_LOG, LOG_FORMAT, NO_COLOR", "what is logged and how; no colours"),
];

/// One command's part of the help.
pub(super) struct Topic {
    /// The command; empty for the worker as a whole.
    pub(super) command: &'static str,
    /// Command lines, and what each does.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// Exit codes, and what each means.
    pub(super) exits: &'static [(u8, &'static str)],
    /// What else to know; may be empty.
    pub(super) note: &'static str,
}

const USAGE: (u8, &str) = (2, "wrong usage or settings, all faults named at once; nothing was touched");
const NO_DATABASE: (u8, &str) =
    (3, "no usable database, or its clock is more than an hour off; nothing was touched");

pub(super) const TOPICS: [Topic; 9] = [
    Topic {
        command: "",
        examples: &[
            ("retention-worker check", "what stands in the way of a run, and what mends it"),
            ("retention-worker plan", "what would go, without deleting anything"),
            ("retention-worker run --format json", "one run now, for a CronJob; the report goes to stdout"),
            ("retention-worker serve", "every night in the window, with a status page and /metrics"),
        ],
        exits: &[
            (0, "done, or ended normally before everything was gone"),
            (1, "at least one policy failed, or `check` found an error"),
            USAGE,
            NO_DATABASE,
        ],
        note: "Results go to stdout, logs to stderr. SIGTERM or SIGINT ends the work between two batches; what was \
               committed stays.",
    },
    Topic {
        command: "serve",
        examples: &[
            ("retention-worker serve", "runs in the night window, and HTTP on 0.0.0.0:9464"),
            (
                "SESSION_RETENTION_NIGHT_WINDOW_UTC=always SESSION_RETENTION_INTERVAL=1h retention-worker serve",
                "every hour, day and night",
            ),
            ("curl http://localhost:9464/status.json", "whether personal data is leaving in time"),
        ],
        exits: &[
            (0, "told to stop by SIGTERM or SIGINT"),
            (2, "wrong usage or settings, or the port is taken"),
        ],
        note: "It never ends because of the database: it waits for it, and /readyz says 503 meanwhile. HTTP has the \
               status page at /, the same as data at /status.json, /metrics, /healthz and /readyz.",
    },
    Topic {
        command: "run",
        examples: &[
            ("retention-worker run", "one run now, and a report for people"),
            ("retention-worker run --format json | jq .backlog_remaining", "how many rows are still due"),
            (
                "retention-worker run --metrics-file /var/lib/node_exporter/retention.prom",
                "metrics for a textfile collector",
            ),
        ],
        exits: &[
            (0, "done, or ended normally before everything was gone: the next run takes the rest"),
            (1, "at least one policy failed, the others still ran"),
            USAGE,
            NO_DATABASE,
        ],
        note: "Ignores the night window and the interval, and opens no port.",
    },
    Topic {
        command: "plan",
        examples: &[
            ("retention-worker plan", "how many rows would go, and how many are blocked and why"),
            ("retention-worker plan --format json | jq '.policies[].deletable'", "the numbers alone"),
            (
                "retention-worker plan --rows-per-second 5000",
                "also how long it takes at the rate measured here",
            ),
        ],
        exits: &[(0, "done"), (1, "a policy could not be examined"), USAGE, NO_DATABASE],
        note: "Reads only. On large tables it takes as long as the scan of a run, and is bounded like one.",
    },
    Topic {
        command: "check",
        examples: &[
            ("retention-worker check", "findings, and the statements that mend them"),
            (
                "retention-worker check --format json | jq '.findings[] | select(.level != \"ok\")'",
                "what is not in order",
            ),
        ],
        exits: &[(0, "nothing stands in the way of a run"), (1, "something would fail"), USAGE, NO_DATABASE],
        note: "Changes nothing. Run it after an upgrade of the worker or of the schema.",
    },
    Topic {
        command: "cleanup",
        examples: &[
            (
                "retention-worker cleanup --policy-file policies.toml --table outbox --older-than 7d",
                "one declared policy now, for a CronJob",
            ),
            (
                "retention-worker cleanup --policy-file policies.toml --table review.audit_log --policy audit-log-ordinary \
                 --older-than 180d --dry-run",
                "what it would meet, of a table with several policies",
            ),
        ],
        exits: &[
            (0, "done, or ended normally before everything was gone: the next run takes the rest"),
            (1, "the policy failed"),
            (2, "wrong usage, settings or policy file, a retention below the minimum; nothing was touched"),
            NO_DATABASE,
        ],
        note: "Retentions are whole days or hours. The two built-in tables are not accepted: use `run`. docs/policies.md \
               teaches policy files.",
    },
    Topic {
        command: "config",
        examples: &[
            ("retention-worker config", "every setting, its value and where it comes from"),
            (
                "retention-worker config --format json | jq '.[] | select(.source == \"environment\")'",
                "what was set on purpose",
            ),
        ],
        exits: &[(0, "done"), USAGE],
        note: "Secrets are shown as ***.",
    },
    Topic {
        command: "completions",
        examples: &[
            (
                "retention-worker completions bash > /etc/bash_completion.d/retention-worker",
                "for everybody, in bash",
            ),
            ("source <(retention-worker completions zsh)", "for this session, in zsh"),
        ],
        exits: &[(0, "done"), (2, "a shell that is not known")],
        note: "Needs neither settings nor a database.",
    },
    Topic {
        command: "man",
        examples: &[
            ("retention-worker man | man -l -", "read it"),
            (
                "retention-worker man run > /usr/share/man/man1/retention-worker-run.1",
                "install a command's page",
            ),
        ],
        exits: &[(0, "done"), (2, "a command that is not known")],
        note: "Needs neither settings nor a database.",
    },
];

/// A command's part; the worker's for an empty name.
pub(super) fn topic(command: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.command == command)
}

/// What follows the worker's long help.
pub(super) fn of_the_worker() -> String {
    let mut text = of("");
    text.push_str("\n\nVariables:\n");
    let width = VARIABLES.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, meaning) in VARIABLES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:width$}  {meaning}");
    }
    text.push('\n');
    text.push_str(FURTHER);
    text
}

/// What follows a command's long help.
pub(super) fn of(command: &str) -> String {
    let Some(topic) = topic(command) else { return String::new() };
    let mut text = "Examples:\n".to_owned();
    for (line, what) in topic.examples {
        let _ = writeln!(text, "  {line}\n      {what}");
    }
    text.push_str("\nExit codes:\n");
    for (code, meaning) in topic.exits {
        let _ = writeln!(text, "  {code}  {meaning}");
    }
    text.push('\n');
    text.push_str(topic.note);
    text
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use rstest::rstest;

    use super::*;
    use crate::cli::Cli;
    use crate::settings::table;

    /// The part of a shell's line that calls the worker, as arguments.
    fn arguments(line: &str) -> Option<Vec<&str>> {
        let own = &line[line.find("retention-worker ")?..];
        let end = own.find([' ']).and_then(|_| own.find([')', '|', '>'])).unwrap_or(own.len());
        Some(own[..end].split_whitespace().collect())
    }

    #[test]
    fn every_example_is_understood() {
        let examples = TOPICS.iter().flat_map(|topic| topic.examples);
        let understood = examples.filter_map(|(line, _)| arguments(line)).map(|arguments| {
            assert!(Cli::try_parse_from(&arguments).is_ok(), "{arguments:?}");
        });
        assert_eq!(understood.count(), 22);
    }

    #[test]
    fn every_command_has_its_topic_and_every_topic_its_command() {
        let cli = Cli::command();
        let commands: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.command).collect();
        assert_eq!(topics[1..], commands);
    }

    #[test]
    fn every_variable_is_one_and_its_default_is_right() {
        for (names, meaning) in VARIABLES {
            for name in names.split(", ").filter(|name| *name != "NO_COLOR") {
                let setting = table::find(name).unwrap();
                if let (table::Unset::Value(default), Some(shown)) =
                    (&setting.unset, meaning.split('(').nth(1))
                {
                    assert_eq!(shown.trim_end_matches(')'), *default, "{name}");
                }
            }
        }
    }

    #[rstest]
    #[case("help_worker", &[])]
    #[case("help_serve", &["serve"])]
    #[case("help_run", &["run"])]
    #[case("help_plan", &["plan"])]
    #[case("help_check", &["check"])]
    #[case("help_cleanup", &["cleanup"])]
    #[case("help_config", &["config"])]
    #[case("help_completions", &["completions"])]
    #[case("help_man", &["man"])]
    fn the_long_help_teaches(#[case] snapshot: &str, #[case] command: &[&str]) {
        let line = ["retention-worker"].iter().chain(command).chain(&["--help"]);
        // As wide as the help is at most, whatever terminal the test runs in.
        let help = Cli::command().term_width(100).try_get_matches_from(line).unwrap_err().to_string();
        insta::assert_snapshot!(snapshot, help);
        for part in ["Usage: retention-worker", "Examples:\n", "Exit codes:\n  0  "] {
            assert!(help.contains(part), "{part}: {help}");
        }
    }
}
