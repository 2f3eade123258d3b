//! The addresses of a server's databases. Everything but the database stays as it was written.

use anyhow::{Context, Result};

/// A database URL with a gap where the database was.
///
/// Text is cut, not parsed and printed again, so that no parameter is lost on the way.
#[derive(Debug, Clone)]
pub(crate) struct ServerUrl {
    before: String,
    after: String,
}

impl ServerUrl {
    /// # Errors
    ///
    /// When there is no `://` in it.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").context("a database URL begins with postgres://")?;
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let authority = path.split('/').next().unwrap_or_default();
        Ok(Self { before: format!("{scheme}://{authority}/"), after: query.to_owned() })
    }

    /// The address of `name`, which needs no escaping.
    pub(crate) fn database(&self, name: &str) -> String {
        format!("{}{name}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerUrl;

    #[test]
    fn replaces_only_the_database() {
        for (url, expected) in [
            ("postgres://h", "postgres://h/x"),
            ("postgres://h/", "postgres://h/x"),
            ("postgresql://u:p%2Fw@[::1]:5433/db", "postgresql://u:p%2Fw@[::1]:5433/x"),
            ("postgres://h/db?sslmode=require&host=/run/pg", "postgres://h/x?sslmode=require&host=/run/pg"),
            ("postgres:///db?host=/run/pg", "postgres:///x?host=/run/pg"),
            ("postgres://h?sslmode=disable", "postgres://h/x?sslmode=disable"),
        ] {
            let parsed = ServerUrl::parse(url).map(|url| url.database("x"));
            assert_eq!(parsed.ok().as_deref(), Some(expected), "{url}");
        }
        assert!(ServerUrl::parse("h/db").is_err());
    }
}
