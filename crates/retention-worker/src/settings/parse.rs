//! Texts to values, one function per kind of value. An error is the reason alone; what is allowed is in the table.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;
use retention_domain::calendar::{NightWindow, NightWindowError};
use retention_domain::period::parse_duration;
use retention_domain::{RetentionPeriod, TableName};

use crate::observe::logging::Logging;
use crate::policy_file::table_name;

use super::secret::DatabaseUrl;
use super::table::{Range, Setting};

const OUT_OF_RANGE: &str = "out of range";

pub(super) fn duration(setting: &Setting, text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    match &setting.range {
        Range::Duration(range) if range.contains(&duration) => Ok(duration),
        _ => Err(OUT_OF_RANGE.to_owned()),
    }
}

pub(super) fn retention(setting: &Setting, text: &str) -> Result<RetentionPeriod, String> {
    RetentionPeriod::new(duration(setting, text)?).map_err(|error| error.to_string())
}

pub(super) fn integer(setting: &Setting, text: &str) -> Result<u32, String> {
    // `u32::from_str` would take a plus sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number in plain digits".to_owned());
    }
    match (&setting.range, text.parse()) {
        (Range::Integer(range), Ok(number)) if range.contains(&number) => Ok(number),
        _ => Err(OUT_OF_RANGE.to_owned()),
    }
}

pub(super) fn window(_: &Setting, text: &str) -> Result<NightWindow, String> {
    text.parse().map_err(|error: NightWindowError| error.to_string())
}

pub(super) fn address(_: &Setting, text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "not an address with a port".to_owned())
}

pub(super) fn database_url(_: &Setting, text: &str) -> Result<DatabaseUrl, String> {
    DatabaseUrl::parse(text)
        .ok_or_else(|| "not the URL of a PostgreSQL database (its value is not shown)".to_owned())
}

pub(super) fn http_url(_: &Setting, text: &str) -> Result<String, String> {
    let uri: Uri = text.parse().map_err(|_| "not a URL".to_owned())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("not an http or https URL".to_owned());
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("credentials belong in OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn log_filter(_: &Setting, text: &str) -> Result<String, String> {
    Logging::from_values(Some(text), None, false).map_err(|_| "not a log filter".to_owned())?;
    Ok(text.to_owned())
}

pub(super) fn log_format(_: &Setting, text: &str) -> Result<String, String> {
    Logging::from_values(None, Some(text), false).map_err(|_| "not a log format".to_owned())?;
    Ok(text.to_owned())
}

pub(super) fn path(_: &Setting, text: &str) -> Result<PathBuf, String> {
    // It may hold credentials, and would be shown when it cannot be opened.
    if text.contains("://") { Err("a URL".to_owned()) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn table(_: &Setting, text: &str) -> Result<TableName, String> {
    table_name(text)
}
