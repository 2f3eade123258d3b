//! The one secret among the settings.

use std::fmt;

use sea_orm::sqlx::postgres::PgConnectOptions;
use tracing::subscriber::{NoSubscriber, with_default};

/// Where and as whom to connect. Shows itself as `***`.
///
/// # Invariant
/// Begins with `postgres://` or `postgresql://` and can be read by the driver.
#[derive(Clone)]
pub struct DatabaseUrl {
    url: String,
    options: PgConnectOptions,
}

impl DatabaseUrl {
    /// The URL; `None` if it is no PostgreSQL URL. Why not is not said: the driver's error quotes from the URL.
    pub(super) fn parse(url: &str) -> Option<Self> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return None;
        }
        // The driver logs parameters it does not know together with their values.
        let options = with_default(NoSubscriber::default(), || url.parse()).ok()?;
        Some(Self { url: url.to_owned(), options })
    }

    /// The URL itself. Reading it again makes the driver log the parameters it does not know, with their values:
    /// prefer [`Self::connect_options`].
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.url
    }

    /// What the driver read from the URL. Its `Debug` shows the password.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        self.options.clone()
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
