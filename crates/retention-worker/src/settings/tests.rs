//! The settings as a whole, from the environment to typed values and faults.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;
use proptest::prelude::*;
use retention_domain::period::format_duration;
use retention_domain::{Cutoff, TableName};
use rstest::rstest;

use super::table::{Range, TABLE, Unset};
use super::{Faults, Settings, TraceProtocol};

const URL: &str = "postgres://somerole:hunter2@db.example:6543/prod?sslmode=require";

fn vars<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(OsString, OsString)> {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Loads these, and a database URL if there is none among them.
fn load<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Settings, Faults> {
    Settings::load(vars(pairs.into_iter().chain([("DATABASE_URL", URL)])))
}

/// The text of the one fault there must be.
fn fault(variable: &str, value: &str) -> String {
    let faults = load([(variable, value)]).expect_err(&format!("{variable}={value:?} must be refused"));
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let [text] = texts.as_slice() else { panic!("{texts:?}") };
    text.clone()
}

fn resolved(settings: &Settings, variable: &str) -> (Option<String>, &'static str) {
    let row = settings.resolved().into_iter().find(|row| row.variable == variable).unwrap();
    (row.value, row.source)
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let settings = load([]).unwrap();
    assert_eq!(settings.sicr_retention.get(), Duration::from_hours(30 * 24));
    assert_eq!(settings.refresh_retention.get(), Duration::from_hours(90 * 24));
    assert_eq!(settings.schedule.interval(), Duration::from_hours(24));
    assert_eq!(settings.schedule.window().to_string(), "02:00-05:00");
    assert_eq!(settings.limits.batch_size, 5_000);
    assert_eq!(settings.limits.batch_pause, Duration::from_millis(100));
    assert_eq!(settings.limits.max_run_duration, Duration::from_mins(30));
    assert_eq!(settings.limits.statement_timeout, Duration::from_secs(30));
    assert_eq!(settings.limits.lock_timeout, Duration::from_secs(2));
    assert_eq!(settings.limits.concurrency, 1);
    assert_eq!(settings.limits.window_closes_in, None);
    assert_eq!(settings.http_addr, "0.0.0.0:9464".parse().unwrap());
    assert_eq!(settings.shutdown_grace, Duration::from_secs(25));
    assert_eq!(settings.traces, None);
    assert_eq!(settings.log_filter, "info");
    assert_eq!(settings.log_format, None);
}

#[test]
fn every_setting_reaches_its_own_field() {
    let settings = load([
        ("SESSION_RETENTION_SICR_RETENTION", "1d"),
        ("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", "2d"),
        ("SESSION_RETENTION_INTERVAL", "3h"),
        ("SESSION_RETENTION_NIGHT_WINDOW_UTC", "22:00-04:00"),
        ("SESSION_RETENTION_BATCH_SIZE", "4"),
        ("SESSION_RETENTION_BATCH_PAUSE", "5ms"),
        ("SESSION_RETENTION_MAX_RUN_DURATION", "6s"),
        ("SESSION_RETENTION_STATEMENT_TIMEOUT", "7s"),
        ("SESSION_RETENTION_LOCK_TIMEOUT", "8ms"),
        ("SESSION_RETENTION_CONCURRENCY", "3"),
        ("SESSION_RETENTION_HTTP_ADDR", "[::1]:9"),
        ("SESSION_RETENTION_SHUTDOWN_GRACE", "10s"),
        ("SESSION_RETENTION_POLICY_FILE", "policies.toml"),
        ("SESSION_RETENTION_AUDIT_TABLE", "retention.ledger"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector:4317/there"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_SDK_DISABLED", "false"),
        ("OTEL_SERVICE_NAME", "my worker"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=one"),
        ("RUST_LOG", "warn,retention_worker=debug"),
        ("LOG_FORMAT", "text"),
    ])
    .unwrap();
    assert_eq!(settings.sicr_retention.to_string(), "1d");
    assert_eq!(settings.refresh_retention.to_string(), "2d");
    assert_eq!(settings.schedule.interval(), Duration::from_hours(3));
    assert_eq!(settings.schedule.window().to_string(), "22:00-04:00");
    assert_eq!(settings.limits.batch_size, 4);
    assert_eq!(settings.limits.batch_pause, Duration::from_millis(5));
    assert_eq!(settings.limits.max_run_duration, Duration::from_secs(6));
    assert_eq!(settings.limits.statement_timeout, Duration::from_secs(7));
    assert_eq!(settings.limits.lock_timeout, Duration::from_millis(8));
    assert_eq!(settings.limits.concurrency, 3);
    assert_eq!(settings.http_addr, "[::1]:9".parse().unwrap());
    assert_eq!(settings.shutdown_grace, Duration::from_secs(10));
    assert_eq!(settings.policy_file.as_deref(), Some(Path::new("policies.toml")));
    assert_eq!(settings.audit_table, Some(TableName::new("retention", "ledger")));
    let traces = settings.traces.unwrap();
    assert_eq!(traces.endpoint, "https://collector:4317/there");
    assert_eq!(traces.protocol, TraceProtocol::Grpc);
    let attributes: Vec<_> = traces.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(attributes.first(), Some(&("service.name", "my worker")));
    assert_eq!(attributes[1], ("service.instance.id", "one"));
    assert_eq!(settings.log_filter, "warn,retention_worker=debug");
    assert_eq!(settings.log_format.as_deref(), Some("text"));
    assert_eq!(settings.database_url.expose(), URL);
    assert_eq!(settings.database_url.connect_options().get_host(), "db.example");
}

#[rstest]
#[case("SESSION_RETENTION_SICR_RETENTION", "P30D")]
#[case("SESSION_RETENTION_SICR_RETENTION", "168h")]
#[case("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", "1d 12h")]
#[case("SESSION_RETENTION_INTERVAL", "PT24H")]
#[case("SESSION_RETENTION_INTERVAL", "90m")]
#[case("SESSION_RETENTION_INTERVAL", "7d")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "00:00-24:00")]
#[case("SESSION_RETENTION_BATCH_SIZE", "0100")]
#[case("SESSION_RETENTION_BATCH_PAUSE", "0s")]
#[case("SESSION_RETENTION_POLICY_FILE", "/etc/retention/policies.toml")]
#[case("SESSION_RETENTION_AUDIT_TABLE", "retention.ledger")]
#[case("SESSION_RETENTION_HTTP_ADDR", "127.0.0.1:0")]
#[case("DATABASE_URL", "postgresql:///identity?host=/run/postgresql")]
#[case("RUST_LOG", "off")]
#[case("LOG_FORMAT", "json")]
fn good_values_are_shown_as_they_were_written(#[case] variable: &str, #[case] value: &str) {
    let settings = load([(variable, value)]).unwrap();
    let shown = if variable == "DATABASE_URL" { "***" } else { value };
    assert_eq!(resolved(&settings, variable), (Some(shown.to_owned()), "environment"));
}

/// Refused for whatever counts or measures something.
const NO_NUMBERS: [&str; 27] = [
    "",
    " ",
    "-1",
    "-7d",
    "-0",
    "+5",
    "+5d",
    "1e3",
    "1_000",
    "0x10",
    " 100 ",
    "100 ",
    "1.5",
    "1,000",
    "ninety",
    "٣",
    "1w",
    "7days",
    "7 days",
    "7 d",
    "90D",
    "24H",
    "1y",
    "5us",
    "1ns",
    "18446744073709551616",
    "99999999999999999999d",
];

#[test]
fn no_duration_and_no_number_takes_what_only_looks_like_one() {
    for setting in TABLE {
        let others: &[&str] = match setting.range {
            Range::Duration(_) => &["0", "30", "5000", "P1M", "P1W", "PT1.5S", "1d 1d"],
            Range::Integer(_) => &["0", "1s", "5000.0"],
            Range::Text(_) => continue,
        };
        for value in NO_NUMBERS.iter().chain(others) {
            let text = fault(setting.variable, value);
            assert!(text.starts_with(&format!("{}={value:?}: ", setting.variable)), "{text}");
            assert!(text.ends_with(&format!("; allowed is {}", setting.allowed())), "{text}");
        }
    }
}

#[test]
fn bounds_are_inclusive_and_nothing_lies_beyond() {
    let millisecond = Duration::from_millis(1);
    for setting in TABLE {
        let (inside, outside) = match &setting.range {
            Range::Duration(range) => (
                [*range.start(), *range.end()].map(format_duration).to_vec(),
                [range.start().checked_sub(millisecond), range.end().checked_add(millisecond)]
                    .map(|d| d.map(format_duration)),
            ),
            Range::Integer(range) => (
                vec![range.start().to_string(), range.end().to_string()],
                [range.start().checked_sub(1), range.end().checked_add(1)].map(|n| n.map(|n| n.to_string())),
            ),
            Range::Text(_) => continue,
        };
        for value in inside {
            assert!(load([(setting.variable, value.as_str())]).is_ok(), "{}={value}", setting.variable);
        }
        for value in outside.into_iter().flatten() {
            assert!(fault(setting.variable, &value).contains("out of range"), "{}={value}", setting.variable);
        }
    }
}

#[rstest]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "2:00-5:00")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "02:00-02:00")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", " 02:00-05:00")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "never")]
#[case("SESSION_RETENTION_NIGHT_WINDOW_UTC", "")]
#[case("SESSION_RETENTION_HTTP_ADDR", "9464")]
#[case("SESSION_RETENTION_HTTP_ADDR", ":9464")]
#[case("SESSION_RETENTION_HTTP_ADDR", "localhost:9464")]
#[case("SESSION_RETENTION_HTTP_ADDR", "0.0.0.0:65536")]
#[case("SESSION_RETENTION_HTTP_ADDR", "0.0.0.0:9464\n")]
#[case("SESSION_RETENTION_POLICY_FILE", "")]
#[case("SESSION_RETENTION_AUDIT_TABLE", "ledger")]
#[case("SESSION_RETENTION_AUDIT_TABLE", "retention.")]
#[case("SESSION_RETENTION_AUDIT_TABLE", "a.b.c")]
#[case("SESSION_RETENTION_AUDIT_TABLE", "a.\"b\"")]
#[case("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]
#[case("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector")]
#[case("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")]
#[case("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
#[case("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "thrift")]
#[case("OTEL_TRACES_EXPORTER", "console")]
#[case("OTEL_SDK_DISABLED", "1")]
#[case("OTEL_RESOURCE_ATTRIBUTES", "no pairs")]
#[case("RUST_LOG", "retention_worker=loud")]
#[case("LOG_FORMAT", "xml")]
#[case("LOG_FORMAT", "JSON")]
#[case("LOG_FORMAT", "")]
fn bad_values_are_named_and_told_what_is_allowed(#[case] variable: &str, #[case] value: &str) {
    let text = fault(variable, value);
    assert!(text.starts_with(&format!("{variable}={value:?}: ")), "{text}");
    let allowed = super::table::find(variable).unwrap().allowed();
    assert!(text.ends_with(&format!("; allowed is {allowed}")), "{text}");
}

#[rstest]
#[case("OTEL_EXPORTER_OTLP_ENDPOINT", None)]
#[case("OTEL_EXPORTER_OTLP_PROTOCOL", Some("http/protobuf"))]
#[case("OTEL_SDK_DISABLED", Some("false"))]
#[case("OTEL_SERVICE_NAME", Some("retention-worker"))]
#[case("OTEL_RESOURCE_ATTRIBUTES", None)]
#[case("RUST_LOG", Some("info"))]
fn where_the_habit_is_so_empty_is_not_set(#[case] variable: &str, #[case] value: Option<&str>) {
    assert_eq!(resolved(&load([(variable, "")]).unwrap(), variable), (value.map(str::to_owned), "default"));
}

#[test]
fn a_missing_database_is_a_fault() {
    let text = Settings::load([]).unwrap_err().to_string();
    assert!(text.starts_with("DATABASE_URL: required, but not set"), "{text}");
}

#[test]
fn the_interval_and_the_window_must_fit_and_both_are_named() {
    let text = fault("SESSION_RETENTION_INTERVAL", "36h");
    assert!(text.starts_with(r#"SESSION_RETENTION_INTERVAL="36h": "#), "{text}");
    assert!(text.contains("SESSION_RETENTION_NIGHT_WINDOW_UTC") && text.contains("02:00-05:00"), "{text}");
    assert!(text.contains("multiple of 24h"), "{text}");

    let always = [("SESSION_RETENTION_INTERVAL", "36h"), ("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always")];
    assert!(load(always).is_ok());
}

#[test]
fn all_faults_are_reported_at_once() {
    let not_utf8 = OsString::from_vec(vec![b'5', 0xff]);
    let mut environment = vars([
        ("SESSION_RETENTION_BACTH_SIZE", "1000"),
        ("SESSION_RETENTION_INTERVAL", "36h"),
        ("SESSION_RETENTION_REFRESH_TERMINAL_RETENTION", "ninety"),
        ("SESSION_RETENTION_CONCURRENCY", "9"),
        ("DATABASE_URL", "mysql://nope"),
        ("LOG_FORMAT", "xml"),
    ]);
    environment.push(("SESSION_RETENTION_BATCH_PAUSE".into(), not_utf8));
    let faults = Settings::load(environment).unwrap_err();
    let variables: Vec<&str> = faults.iter().map(super::Fault::variable).collect();
    let expected = [
        "SESSION_RETENTION_BACTH_SIZE",
        "SESSION_RETENTION_BATCH_PAUSE",
        "DATABASE_URL",
        "SESSION_RETENTION_REFRESH_TERMINAL_RETENTION",
        "SESSION_RETENTION_CONCURRENCY",
        "LOG_FORMAT",
        "SESSION_RETENTION_INTERVAL",
    ];
    assert_eq!(variables, expected);
    assert_eq!(faults.to_string().lines().count(), expected.len());
}

#[rstest]
#[case("SESSION_RETENTION_BACTH_SIZE", "SESSION_RETENTION_BATCH_SIZE")]
#[case("SESSION_RETENTION_NIGHT_WINDOW", "SESSION_RETENTION_NIGHT_WINDOW_UTC")]
#[case("SESSION_RETENTION_SICR_RETENTION_DAYS", "SESSION_RETENTION_SICR_RETENTION")]
#[case("SESSION_RETENTION_DATABASE_URL", "DATABASE_URL")]
#[case("SESSION_RETENTION_RUST_LOG", "RUST_LOG")]
#[case("session_retention_batch_size", "SESSION_RETENTION_BATCH_SIZE")]
#[case("SESSION_RETENTION_batch_size", "SESSION_RETENTION_BATCH_SIZE")]
#[case("SESSION_RETENTION_SESSION_RETENTION_INTERVAL", "SESSION_RETENTION_INTERVAL")]
fn an_unknown_variable_of_ours_suggests_the_nearest(#[case] variable: &str, #[case] nearest: &str) {
    let text = fault(variable, "hunter2");
    assert_eq!(text, format!("{variable}: unknown setting; the nearest is {nearest}"));
}

#[rstest]
#[case("SESSION_RETENTION_SERVICE_HOST", "192.0.2.1")]
#[case("SESSION_RETENTION_WORKER_SERVICE_HOST", "192.0.2.1")]
#[case("SESSION_RETENTION_WORKER_SERVICE_PORT", "9464")]
#[case("SESSION_RETENTION_WORKER_SERVICE_PORT_METRICS", "9464")]
#[case("SESSION_RETENTION_WORKER_PORT", "tcp://192.0.2.1:9464")]
#[case("SESSION_RETENTION_WORKER_PORT_9464_TCP", "tcp://192.0.2.1:9464")]
#[case("SESSION_RETENTION_WORKER_PORT_9464_TCP_ADDR", "192.0.2.1")]
#[case("SESSIONRETENTION_BATCH_SIZE", "0")]
#[case("BATCH_SIZE", "0")]
#[case("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]
#[case("PGSSLMODE", "whatever")]
fn what_kubernetes_and_others_set_is_passed_over(#[case] variable: &str, #[case] value: &str) {
    let settings = load([(variable, value)]).unwrap();
    assert_eq!(settings.resolved(), load([]).unwrap().resolved());
}

#[test]
fn bytes_that_are_no_text_matter_in_our_variables_only() {
    let junk = || OsString::from_vec(vec![0xff, 0xfe]);
    let url = || (OsString::from("DATABASE_URL"), OsString::from(URL));
    assert!(Settings::load([url(), ("PATH".into(), junk()), (junk(), junk())]).is_ok());
    assert!(Settings::load([url(), ("SESSION_RETENTION_X_SERVICE_HOST".into(), junk())]).is_ok());
    for setting in TABLE {
        let others = [url()].into_iter().filter(|(name, _)| name != setting.variable);
        let text = Settings::load([(setting.variable.into(), junk())].into_iter().chain(others))
            .unwrap_err()
            .to_string();
        assert!(text.starts_with(setting.variable) && text.contains("not UTF-8 text"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let mut name = b"SESSION_RETENTION_".to_vec();
    name.push(0xff);
    assert!(Settings::load([url(), (OsString::from_vec(name), "".into())]).is_err());
}

#[test]
fn the_first_of_two_counts() {
    let twice = [("SESSION_RETENTION_BATCH_SIZE", "7"), ("SESSION_RETENTION_BATCH_SIZE", "8")];
    assert_eq!(load(twice).unwrap().limits.batch_size, 7);
}

/// Parts of the URLs below, and of [`URL`], that must not be seen anywhere.
const SECRETS: [&str; 6] = ["hunter2", "somerole", "db.example", "6543", "/prod", "sslmode"];

#[rstest]
#[case::good(URL)]
#[case::unknown_parameter("postgres://somerole:hunter2@db.example:6543/prod?sslmode=require&hunter2=hunter2")]
#[case::scheme("mysql://somerole:hunter2@db.example:6543/prod")]
#[case::no_scheme("somerole:hunter2@db.example:6543/prod")]
#[case::key_value("host=db.example user=somerole password=hunter2 sslmode=require")]
#[case::upper_case("POSTGRES://somerole:hunter2@db.example:6543/prod")]
#[case::port("postgres://somerole:hunter2@db.example:hunter2/prod")]
#[case::big_port("postgres://somerole:hunter2@db.example:65430/prod")]
#[case::ssl_mode("postgres://somerole:hunter2@db.example:6543/prod?sslmode=hunter2")]
#[case::bad_escape("postgres://somerole:hunter2%ff@db.example:6543/prod")]
#[case::host("postgres://somerole:hunter2@[db.example:6543/prod")]
#[case::host_address("postgres://somerole:hunter2@/prod?hostaddr=db.example")]
#[case::blanks(" postgres://somerole:hunter2@db.example:6543/prod")]
#[case::line_end("postgres://somerole:hunter2@db.example:6543/prod\n")]
#[case::empty("")]
fn no_part_of_the_database_url_is_ever_shown(#[case] url: &str) {
    let shown = match Settings::load(vars([("DATABASE_URL", url)])) {
        Ok(settings) => {
            let url = &settings.database_url;
            format!("{settings:?} {url} {url:?} {:?}", resolved(&settings, "DATABASE_URL"))
        }
        Err(faults) => {
            assert_eq!(faults.iter().count(), 1);
            format!("{faults} {faults:?}")
        }
    };
    assert!(shown.contains("***") || shown.contains("DATABASE_URL"), "{shown}");
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[rstest]
#[case("SESSION_RETENTION_HTTP_ADDR")]
#[case("SESSION_RETENTION_POLICY_FILE")]
#[case("OTEL_EXPORTER_OTLP_ENDPOINT")]
#[case("LOG_FORMAT")]
#[case("SESSION_RETENTION_DATABASE_URL")]
fn nor_is_a_url_with_credentials_in_the_wrong_variable(#[case] variable: &str) {
    let text = fault(variable, "http://somerole:hunter2@db.example/prod=");
    assert!(text.starts_with(&format!("{variable}: ")) && !text.contains("hunter2"), "{text}");
}

#[test]
fn the_resolved_settings_are_the_table() {
    let rows = load([]).unwrap().resolved();
    assert_eq!(rows.len(), TABLE.len());
    for (row, setting) in rows.iter().zip(TABLE) {
        let (value, source) = match setting.unset {
            Unset::Refused { .. } => (Some("***"), "environment"),
            Unset::Value(default) => (Some(default), "default"),
            Unset::Means { .. } => (None, "default"),
        };
        assert_eq!((row.variable, row.unit), (setting.variable, setting.unit));
        assert_eq!((row.value.as_deref(), row.source), (value, source));
    }
}

/// Values from plausible to absurd.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,5}(ms|s|m|h|d)( [0-9]{1,2}(ms|s))?",
        "P[0-9]{1,6}D(T[0-9]{1,3}H)?",
        "[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]",
        "[0-9]{1,5}",
        "postgres(ql)?://\\PC{0,30}",
        "\\PC*",
    ]
}

fn environments() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let variable = proptest::sample::select(TABLE.map(|setting| setting.variable).to_vec());
    proptest::collection::vec((variable, values()), 0..4)
}

proptest! {
    #[test]
    fn nothing_panics_and_accepted_cutoffs_are_past(environment in environments()) {
        let environment = environment.iter().map(|(name, value)| (*name, value.as_str()));
        match load(environment) {
            Ok(settings) => {
                let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
                for keep in [settings.sicr_retention, settings.refresh_retention] {
                    prop_assert!(Cutoff::before(now, keep).unwrap().instant() < now);
                }
                prop_assert!(settings.schedule.next_slot(now) > now);
                prop_assert!(settings.limits.batch_size > 0 && settings.limits.concurrency > 0);
            }
            Err(faults) => prop_assert!(faults.iter().count() > 0),
        }
    }

    #[test]
    fn any_retention_that_is_read_is_in_the_past(text in "[0-9]{1,8}(ms|s|m|h|d)") {
        if let Ok(settings) = load([("SESSION_RETENTION_SICR_RETENTION", text.as_str())]) {
            let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
            prop_assert!(Cutoff::before(now, settings.sicr_retention).unwrap().instant() < now);
        }
    }
}
