//! The environment as text: sorts out which variables are ours and leaves their meaning to `valid.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Deserialize;

use super::fault::{Fault, Faults};
use super::table::{self, PREFIX, TABLE};

/// The worker's own settings, under [`PREFIX`]. Every field is an optional text: envy stops at the first value it
/// cannot convert, and all faults are to be reported together.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RawSettings {
    pub sicr_retention: Option<String>,
    pub refresh_terminal_retention: Option<String>,
    pub interval: Option<String>,
    pub night_window_utc: Option<String>,
    pub batch_size: Option<String>,
    pub batch_pause: Option<String>,
    pub max_run_duration: Option<String>,
    pub statement_timeout: Option<String>,
    pub lock_timeout: Option<String>,
    pub concurrency: Option<String>,
    pub http_addr: Option<String>,
    pub shutdown_grace: Option<String>,
    pub policy_file: Option<String>,
    pub audit_table: Option<String>,
}

/// The settings whose names are everybody's.
#[derive(Default, Deserialize)]
pub(super) struct RawShared {
    pub database_url: Option<String>,
    pub otel_exporter_otlp_endpoint: Option<String>,
    pub otel_exporter_otlp_traces_endpoint: Option<String>,
    pub otel_exporter_otlp_protocol: Option<String>,
    pub otel_exporter_otlp_traces_protocol: Option<String>,
    pub otel_traces_exporter: Option<String>,
    pub otel_sdk_disabled: Option<String>,
    pub otel_service_name: Option<String>,
    pub otel_resource_attributes: Option<String>,
    pub rust_log: Option<String>,
    pub log_format: Option<String>,
}

/// Reads the variables of [`TABLE`]; the first of two with the same name counts. What is not UTF-8 and what looks
/// like ours but is not known becomes a fault; everything else in the environment is passed over.
pub(super) fn read(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
    faults: &mut Faults,
) -> (RawSettings, RawShared) {
    let mut known = BTreeMap::new();
    for (name, value) in vars {
        let name = name.to_string_lossy();
        if let Some(setting) = table::find(&name) {
            match value.into_string() {
                Ok(value) => {
                    known.entry(setting.variable).or_insert(value);
                }
                Err(value) => {
                    faults.push(Fault::refused(setting, &value.to_string_lossy(), "not UTF-8 text"));
                }
            }
        } else if looks_like_ours(&name) && !is_injected_by_kubernetes(&name) {
            faults.push(Fault::about(&name, format!("unknown setting; the nearest is {}", nearest(&name))));
        }
    }
    let known = || known.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    (
        deserialized(envy::prefixed(PREFIX).from_iter(known()), faults),
        deserialized(envy::from_iter(known()), faults),
    )
}

/// Optional texts under names that occur once always fit; if that should ever change, it must not go unnoticed.
fn deserialized<T: Default>(read: envy::Result<T>, faults: &mut Faults) -> T {
    read.unwrap_or_else(|error| {
        faults.push(Fault::about(PREFIX, error.to_string()));
        T::default()
    })
}

/// A prefix in the wrong case is a mistake as well: nobody else uses it.
fn looks_like_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Kubernetes describes each Service of the namespace to every pod; the names begin with the Service's name, which
/// may well begin as ours do.
fn is_injected_by_kubernetes(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
}

/// The setting whose name is fewest slips of the pen away, whether or not it has the prefix.
fn nearest(name: &str) -> &'static str {
    let stem = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let wanted = stem(&name.to_ascii_uppercase());
    let slips = |variable: &str| strsim::damerau_levenshtein(&stem(variable), &wanted);
    TABLE.iter().map(|setting| setting.variable).min_by_key(|variable| slips(variable)).unwrap_or_default()
}
