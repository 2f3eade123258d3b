//! Sets logging up: which lines are written, how they look, where they go. The environment is read by the caller.

use std::io;

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry};

pub use super::lines::LineFormat;
use super::lines::Lines;
use super::traces::Traces;

/// What holds unless `RUST_LOG` says otherwise for the same target. The libraries below us log statements; and
/// what a server sends as a notice may quote rows (a trigger's `RAISE WARNING`), so it is never shown unasked. What was
/// deleted is on record whatever the level of everything else.
const BASE: &str = "info,audit=info,sqlx=warn,sqlx::postgres::notice=off,sea_orm=warn";

/// Logging cannot be set up as asked.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// `RUST_LOG` is malformed.
    #[error(
        "RUST_LOG={value:?} is not a log filter: allowed are off, error, warn, info, debug, trace, \
         or target=level, separated by commas without blanks"
    )]
    Filter {
        /// What it was.
        value: String,
        /// Where it breaks, when the grammar of filters breaks.
        source: Option<ParseError>,
    },
    /// `LOG_FORMAT` is none of the formats.
    #[error("LOG_FORMAT={value:?} is not a log format: allowed are json and text")]
    Format {
        /// What it was.
        value: String,
    },
    /// The process has a log already.
    #[error("logging is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// How to log: the settings, read and valid.
#[derive(Debug)]
pub struct Logging {
    filter: EnvFilter,
    format: LineFormat,
}

impl Logging {
    /// Reads the values of `RUST_LOG` and `LOG_FORMAT`. An empty `RUST_LOG` is as good as none; without a format,
    /// a terminal gets text and everything else JSON.
    ///
    /// # Errors
    /// [`LoggingError::Filter`] and [`LoggingError::Format`] for values that are not understood.
    pub fn from_values(
        rust_log: Option<&str>,
        log_format: Option<&str>,
        terminal: bool,
    ) -> Result<Self, LoggingError> {
        let format = match log_format {
            Some("json") => LineFormat::Json,
            Some("text") => LineFormat::Text,
            Some(other) => {
                return Err(LoggingError::Format { value: other.to_owned() });
            }
            None if terminal => LineFormat::Text,
            None => LineFormat::Json,
        };
        Ok(Self { filter: filter(rust_log.unwrap_or_default())?, format })
    }

    /// A subscriber that writes lines to `writer`. Further layers can be put on it; they are not filtered.
    pub fn subscriber<W>(self, writer: W) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        self.subscriber_at(writer, SystemTime)
    }

    /// Logs to stderr from now on, in the whole process, and hands spans to `traces`.
    ///
    /// # Errors
    /// [`LoggingError::Twice`] when the process logs already.
    pub fn init(self, traces: Option<&Traces>) -> Result<(), LoggingError> {
        let lines = self.subscriber(io::stderr);
        let result = match traces {
            Some(traces) => lines.with(traces.layer()).try_init(),
            None => lines.try_init(),
        };
        result.map_err(LoggingError::Twice)
    }

    pub(super) fn subscriber_at<W, T>(
        self,
        writer: W,
        clock: T,
    ) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
        T: FormatTime + Send + Sync + 'static,
    {
        let lines = Lines { format: self.format, writer, clock };
        Registry::default().with(lines.with_filter(self.filter))
    }
}

fn filter(rust_log: &str) -> Result<EnvFilter, LoggingError> {
    let refused = |source| LoggingError::Filter { value: rust_log.to_owned(), source };
    // The parser takes a blank for a part of a target's name, and the filter would then match nothing.
    if rust_log.contains(char::is_whitespace) {
        return Err(refused(None));
    }
    EnvFilter::builder().parse(format!("{BASE},{rust_log}")).map_err(|source| refused(Some(source)))
}

#[cfg(test)]
mod tests;
