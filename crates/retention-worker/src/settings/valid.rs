//! The settings as the rest of the worker sees them: typed, complete and consistent.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use retention_domain::calendar::Schedule;
use retention_domain::run::WINDOW_ROWS;
use retention_domain::{RetentionPeriod, RunLimits, TableName};
use serde::Serialize;

use super::fault::{Fault, Faults};
use super::parse;
use super::raw;
use super::secret::DatabaseUrl;
use super::table::{self, Setting, Unset};
use super::traces::{self, TraceSettings};

/// Every setting, valid.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where and as whom to connect.
    pub database_url: DatabaseUrl,
    /// Retention of the policy `sicr`.
    pub sicr_retention: RetentionPeriod,
    /// Retention of the policy `refresh`.
    pub refresh_retention: RetentionPeriod,
    /// When `serve` runs: the night window and the interval.
    pub schedule: Schedule,
    /// Bounds of one run, as for one that no window ends.
    pub limits: RunLimits,
    /// Where `serve` listens.
    pub http_addr: SocketAddr,
    /// Time after the first signal before the batch in flight is cancelled.
    pub shutdown_grace: Duration,
    /// The file of declared policies.
    pub policy_file: Option<PathBuf>,
    /// The ledger of the two built-in policies.
    pub audit_table: Option<TableName>,
    /// Where traces go; nowhere without it.
    pub traces: Option<TraceSettings>,
    /// Which log lines are written; a filter that logging understands.
    pub log_filter: String,
    /// How log lines are written, a format that logging knows; without it the terminal decides.
    pub log_format: Option<String>,
    resolved: Vec<Resolved>,
}

/// One setting as `config` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The variable's full name.
    pub variable: &'static str,
    /// The value in force, as it was written; `***` for a secret, `None` where there is none.
    pub value: Option<String>,
    /// What the value counts or is.
    pub unit: &'static str,
    /// `environment` or `default`.
    pub source: &'static str,
}

impl Settings {
    /// Reads the settings from `vars`. The first of two variables with the same name counts, so a caller may put its
    /// own before the environment's.
    ///
    /// # Errors
    /// Everything that is wrong, together.
    pub fn load(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Faults> {
        let mut reader = Reader::default();
        let (own, shared) = raw::read(vars, &mut reader.faults);
        let interval_text = own.interval.clone();

        let database_url =
            reader.read(&table::DATABASE_URL, shared.database_url.clone(), parse::database_url);
        let sicr_retention = reader.read(&table::SICR_RETENTION, own.sicr_retention, parse::retention);
        let refresh_retention =
            reader.read(&table::REFRESH_TERMINAL_RETENTION, own.refresh_terminal_retention, parse::retention);
        let interval = reader.read(&table::INTERVAL, own.interval, parse::duration);
        let window = reader.read(&table::NIGHT_WINDOW_UTC, own.night_window_utc, parse::window);
        let batch_size = reader.read(&table::BATCH_SIZE, own.batch_size, parse::integer);
        let batch_pause = reader.read(&table::BATCH_PAUSE, own.batch_pause, parse::duration);
        let max_run_duration = reader.read(&table::MAX_RUN_DURATION, own.max_run_duration, parse::duration);
        let statement_timeout =
            reader.read(&table::STATEMENT_TIMEOUT, own.statement_timeout, parse::duration);
        let lock_timeout = reader.read(&table::LOCK_TIMEOUT, own.lock_timeout, parse::duration);
        let concurrency = reader.read(&table::CONCURRENCY, own.concurrency, parse::integer);
        let http_addr = reader.read(&table::HTTP_ADDR, own.http_addr, parse::address);
        let shutdown_grace = reader.read(&table::SHUTDOWN_GRACE, own.shutdown_grace, parse::duration);
        let policy_file = reader.read(&table::POLICY_FILE, own.policy_file, parse::path);
        let audit_table = reader.read(&table::AUDIT_TABLE, own.audit_table, parse::table);
        let rust_log = given(shared.rust_log.as_deref());
        let log_format_text = shared.log_format.clone();
        let traces = traces::read(&mut reader, &shared);
        let log_filter = reader.read(&table::RUST_LOG, rust_log, parse::log_filter);
        let log_format = reader.read(&table::LOG_FORMAT, log_format_text, parse::log_format);

        let schedule = window.zip(interval).and_then(|(window, interval)| {
            Schedule::new(window, interval)
                .map_err(|error| {
                    let problem = format!("{error} ({} sets the window)", table::NIGHT_WINDOW_UTC.variable);
                    reader.faults.push(Fault::new(&table::INTERVAL, interval_text.as_deref(), problem));
                })
                .ok()
        });
        let Reader { faults, resolved } = reader;
        let settings = || {
            Some(Self {
                database_url: database_url?,
                sicr_retention: sicr_retention?,
                refresh_retention: refresh_retention?,
                schedule: schedule?,
                limits: RunLimits {
                    batch_size: batch_size?,
                    batch_pause: batch_pause?,
                    max_run_duration: max_run_duration?,
                    window_closes_in: None,
                    statement_timeout: statement_timeout?,
                    lock_timeout: lock_timeout?,
                    concurrency: usize::try_from(concurrency?).ok()?,
                    window_rows: WINDOW_ROWS,
                },
                http_addr: http_addr?,
                shutdown_grace: shutdown_grace?,
                policy_file,
                audit_table,
                traces,
                log_filter: log_filter?,
                log_format,
                resolved,
            })
        };
        // What is not there has left a fault behind.
        if faults.is_empty() { settings().ok_or(faults) } else { Err(faults) }
    }

    /// Every setting of the table, in its order, for people to look at.
    #[must_use]
    pub fn resolved(&self) -> Vec<Resolved> {
        self.resolved.clone()
    }
}

/// Reads one setting after the other and remembers what it saw.
#[derive(Default)]
pub(super) struct Reader {
    faults: Faults,
    resolved: Vec<Resolved>,
}

impl Reader {
    /// The value of `setting`; `None` if it has none or is faulty.
    pub(super) fn read<T>(
        &mut self,
        setting: &'static Setting,
        given: Option<String>,
        parse: impl FnOnce(&Setting, &str) -> Result<T, String>,
    ) -> Option<T> {
        let source = if given.is_some() { "environment" } else { "default" };
        let text = match (given, &setting.unset) {
            (Some(text), _) => Some(text),
            (None, Unset::Value(default)) => Some((*default).to_owned()),
            (None, Unset::Means { .. }) => None,
            (None, Unset::Refused { .. }) => {
                // A value that is no text has left its fault already.
                if !self.faults.iter().any(|fault| fault.variable() == setting.variable) {
                    self.faults.push(Fault::missing(setting));
                }
                return None;
            }
        };
        let value = text.as_deref().and_then(|text| match plain(text).and_then(|()| parse(setting, text)) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.faults.push(Fault::refused(setting, text, &reason));
                None
            }
        });
        let shown = text.as_deref().map(|text| setting.shown(text).unwrap_or("***").to_owned());
        self.resolved.push(Resolved { variable: setting.variable, value: shown, unit: setting.unit, source });
        value
    }
}

/// Empty is not set: the habit of those who define the variables that are everybody's.
pub(super) fn given(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Rules for every value.
fn plain(text: &str) -> Result<(), String> {
    if text.is_empty() {
        Err("empty".to_owned())
    } else if text.trim() != text {
        Err("surrounded by blanks, which are not trimmed".to_owned())
    } else {
        Ok(())
    }
}
