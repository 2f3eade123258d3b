//! The one table of settings: what each is called, what it means, what it may be and what holds when it is not set.
//! Reading, faults, the `config` command, the documentation and `.env.example` all follow from it.

use std::ops::RangeInclusive;
use std::time::Duration;

use retention_domain::period::{MAX_PERIOD, format_duration};

/// What the names of the worker's own settings begin with.
pub const PREFIX: &str = "SESSION_RETENTION_";

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The variable's full name.
    pub variable: &'static str,
    /// What the value counts or is.
    pub unit: &'static str,
    /// What holds without the variable.
    pub unset: Unset,
    /// What the value may be.
    pub range: Range,
    /// What it does, in a sentence without a full stop at the end.
    pub meaning: &'static str,
    /// Whether the value must never be shown.
    pub secret: bool,
}

/// What holds when a variable is not set.
#[derive(Debug)]
pub enum Unset {
    /// Nothing does: the variable is required.
    Refused {
        /// A value for `.env.example`.
        example: &'static str,
    },
    /// The same as if it were set to this value.
    Value(&'static str),
    /// Something no value stands for.
    Means {
        /// What.
        what: &'static str,
        /// A value for `.env.example`; empty if there is none to recommend.
        example: &'static str,
    },
}

/// What a value may be.
#[derive(Debug)]
pub enum Range {
    /// A duration within bounds.
    Duration(RangeInclusive<Duration>),
    /// A whole number within bounds.
    Integer(RangeInclusive<u32>),
    /// What the text says.
    Text(&'static str),
}

impl Setting {
    /// The value as it may be shown: not if it is a secret, nor if it looks like a URL with credentials that was put
    /// into the wrong variable.
    #[must_use]
    pub fn shown<'a>(&self, value: &'a str) -> Option<&'a str> {
        (!self.secret && !value.contains('@')).then_some(value)
    }

    /// What is allowed, for documentation and faults.
    #[must_use]
    pub fn allowed(&self) -> String {
        match &self.range {
            Range::Duration(range) => {
                format!("{} to {}", format_duration(*range.start()), format_duration(*range.end()))
            }
            Range::Integer(range) => format!("{} to {}", range.start(), range.end()),
            Range::Text(text) => (*text).to_owned(),
        }
    }
}

/// The setting of exactly this name.
#[must_use]
pub fn find(variable: &str) -> Option<&'static Setting> {
    TABLE.iter().copied().find(|setting| setting.variable == variable)
}

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Every setting, in the order in which they are documented and shown.
pub static TABLE: [&Setting; 25] = [
    &DATABASE_URL,
    &SICR_RETENTION,
    &REFRESH_TERMINAL_RETENTION,
    &INTERVAL,
    &NIGHT_WINDOW_UTC,
    &BATCH_SIZE,
    &BATCH_PAUSE,
    &MAX_RUN_DURATION,
    &STATEMENT_TIMEOUT,
    &LOCK_TIMEOUT,
    &CONCURRENCY,
    &HTTP_ADDR,
    &SHUTDOWN_GRACE,
    &POLICY_FILE,
    &AUDIT_TABLE,
    &OTEL_EXPORTER_OTLP_ENDPOINT,
    &OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    &OTEL_EXPORTER_OTLP_PROTOCOL,
    &OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
    &OTEL_TRACES_EXPORTER,
    &OTEL_SDK_DISABLED,
    &OTEL_SERVICE_NAME,
    &OTEL_RESOURCE_ATTRIBUTES,
    &RUST_LOG,
    &LOG_FORMAT,
];

/// A setting that may be shown.
const fn setting(
    variable: &'static str,
    unit: &'static str,
    unset: Unset,
    range: Range,
    meaning: &'static str,
) -> Setting {
    Setting { variable, unit, unset, range, meaning, secret: false }
}

const fn duration(
    variable: &'static str,
    default: &'static str,
    range: RangeInclusive<Duration>,
    meaning: &'static str,
) -> Setting {
    setting(variable, "duration", Unset::Value(default), Range::Duration(range), meaning)
}

pub(super) static DATABASE_URL: Setting = Setting {
    secret: true,
    ..setting(
        "DATABASE_URL",
        "URL",
        Unset::Refused { example: "postgres://session_retention@localhost:5432/identity" },
        Range::Text("postgres://USER:PASSWORD@HOST:PORT/DATABASE, or the same with postgresql://"),
        "The database, PostgreSQL 15 to 18",
    )
};
pub(super) static SICR_RETENTION: Setting = duration(
    "SESSION_RETENTION_SICR_RETENTION",
    "30d",
    SECOND..=MAX_PERIOD,
    "How long a sign-in confirmation request is kept after it was created",
);
pub(super) static REFRESH_TERMINAL_RETENTION: Setting = duration(
    "SESSION_RETENTION_REFRESH_TERMINAL_RETENTION",
    "90d",
    SECOND..=MAX_PERIOD,
    "How long a refresh session is kept after it was rotated or revoked or has expired",
);
pub(super) static INTERVAL: Setting = duration(
    "SESSION_RETENTION_INTERVAL",
    "24h",
    SECOND..=MAX_PERIOD,
    "Time from one run of `serve` to the next, counted from the opening of the night window; above 24h it must be a \
     multiple of 24h unless the window is `always`",
);
pub(super) static NIGHT_WINDOW_UTC: Setting = setting(
    "SESSION_RETENTION_NIGHT_WINDOW_UTC",
    "time of day, UTC",
    Unset::Value("02:00-05:00"),
    Range::Text("HH:MM-HH:MM with two different times, the end up to 24:00; or always"),
    "When runs of `serve` start and outside of which they end; the start is inside, the end is not, midnight may be \
     crossed; `always` is no window",
);
pub(super) static BATCH_SIZE: Setting = setting(
    "SESSION_RETENTION_BATCH_SIZE",
    "rows",
    Unset::Value("5000"),
    Range::Integer(1..=10_000),
    "Rows per batch; each batch is a transaction",
);
pub(super) static BATCH_PAUSE: Setting = duration(
    "SESSION_RETENTION_BATCH_PAUSE",
    "100ms",
    Duration::ZERO..=HOUR,
    "Pause after each batch that deleted something, per connection, never after the last",
);
pub(super) static MAX_RUN_DURATION: Setting = duration(
    "SESSION_RETENTION_MAX_RUN_DURATION",
    "30m",
    SECOND..=DAY,
    "Fuse for one run: when it is over the run ends normally and the next one goes on",
);
pub(super) static STATEMENT_TIMEOUT: Setting = duration(
    "SESSION_RETENTION_STATEMENT_TIMEOUT",
    "30s",
    MILLISECOND..=DAY,
    "Bound for a statement that locks or deletes, cut to what is left of the run; read-only scans are bounded by what \
     is left of the run only",
);
pub(super) static LOCK_TIMEOUT: Setting = duration(
    "SESSION_RETENTION_LOCK_TIMEOUT",
    "2s",
    MILLISECOND..=DAY,
    "Bound for waiting on a lock, and the wait before rows that somebody else holds are tried once more",
);
pub(super) static CONCURRENCY: Setting = setting(
    "SESSION_RETENTION_CONCURRENCY",
    "connections",
    Unset::Value("1"),
    Range::Integer(1..=8),
    "Connections of this process that delete at the same time; the pool has one more",
);
pub(super) static HTTP_ADDR: Setting = setting(
    "SESSION_RETENTION_HTTP_ADDR",
    "address",
    Unset::Value("0.0.0.0:9464"),
    Range::Text("an IP address and a port, such as 0.0.0.0:9464 or [::]:9464"),
    "Where `serve` offers its status page at `/`, `/status.json`, `/metrics`, `/healthz` and `/readyz`; other commands \
     open no port",
);
pub(super) static SHUTDOWN_GRACE: Setting = duration(
    "SESSION_RETENTION_SHUTDOWN_GRACE",
    "25s",
    Duration::ZERO..=HOUR,
    "Time after SIGTERM before the batch in flight is cancelled",
);
pub(super) static POLICY_FILE: Setting = setting(
    "SESSION_RETENTION_POLICY_FILE",
    "file",
    Unset::Means { what: "none", example: "deploy/policies/handbook.toml" },
    Range::Text("the path of a TOML file that can be read"),
    "Declared policies, see docs/policies.md; the option `--policy-file` wins over it",
);
pub(super) static AUDIT_TABLE: Setting = setting(
    "SESSION_RETENTION_AUDIT_TABLE",
    "table",
    Unset::Means {
        what: "none: the two built-in policies touch no other table",
        example: "retention.ledger",
    },
    Range::Text("SCHEMA.TABLE, as the catalogue spells it"),
    "Ledger of the two built-in policies: a row for each batch, in the transaction of the delete; \
     `deploy/postgres/ledger.sql` makes it. Declared policies name theirs in the policy file",
);
pub(super) static OTEL_EXPORTER_OTLP_ENDPOINT: Setting = setting(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "URL",
    Unset::Means { what: "none: no traces are exported", example: "http://localhost:4318" },
    Range::Text("http://HOST:PORT or https://HOST:PORT, without credentials"),
    "Where traces are exported to; with `http/protobuf` to `/v1/traces` below it",
);
pub(super) static OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: Setting = setting(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "URL",
    Unset::Means { what: "as OTEL_EXPORTER_OTLP_ENDPOINT says", example: "http://localhost:4318/v1/traces" },
    Range::Text("http://HOST:PORT/PATH or https://HOST:PORT/PATH, without credentials"),
    "The same for traces alone, and taken as it is: no path is added",
);
const PROTOCOLS: Range = Range::Text("http/protobuf or grpc");
pub(super) static OTEL_EXPORTER_OTLP_PROTOCOL: Setting = setting(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "protocol",
    Unset::Value("http/protobuf"),
    PROTOCOLS,
    "How traces are exported; a collector usually listens on port 4318 for `http/protobuf` and on 4317 for `grpc`",
);
pub(super) static OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: Setting = setting(
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "protocol",
    Unset::Means { what: "as OTEL_EXPORTER_OTLP_PROTOCOL says", example: "grpc" },
    PROTOCOLS,
    "The same for traces alone",
);
pub(super) static OTEL_TRACES_EXPORTER: Setting = setting(
    "OTEL_TRACES_EXPORTER",
    "exporter",
    Unset::Value("otlp"),
    Range::Text("otlp or none"),
    "With `none` no traces are exported, whatever the endpoint",
);
pub(super) static OTEL_SDK_DISABLED: Setting = setting(
    "OTEL_SDK_DISABLED",
    "truth value",
    Unset::Value("false"),
    Range::Text("true or false"),
    "With `true` no traces are exported, whatever the endpoint",
);
pub(super) static OTEL_SERVICE_NAME: Setting = setting(
    "OTEL_SERVICE_NAME",
    "name",
    Unset::Value("retention-worker"),
    Range::Text("any text"),
    "The service's name in traces; unless it is set, a `service.name` of OTEL_RESOURCE_ATTRIBUTES counts",
);
pub(super) static OTEL_RESOURCE_ATTRIBUTES: Setting = setting(
    "OTEL_RESOURCE_ATTRIBUTES",
    "attributes",
    Unset::Means { what: "none", example: "deployment.environment.name=production" },
    Range::Text("KEY=VALUE pairs, separated by commas, odd characters as %XX"),
    "What else traces say about this process; `service.version` and `service.instance.id` have values unless given here",
);
pub(super) static RUST_LOG: Setting = setting(
    "RUST_LOG",
    "log filter",
    Unset::Value("info"),
    Range::Text("levels and targets, such as info or info,retention_worker=debug"),
    "Which log lines are written",
);
pub(super) static LOG_FORMAT: Setting = setting(
    "LOG_FORMAT",
    "format",
    Unset::Means { what: "json, or text when stderr is a terminal", example: "json" },
    Range::Text("json or text"),
    "How log lines are written",
);
