//! Roles for one test: they belong to the whole server, so they are dropped with care.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::TestDatabase;

/// A role that can log in to one test's database.
///
/// # Invariant
///
/// It is dropped, with its rights in that database, when this goes: keep it no longer than the database.
#[derive(Debug)]
pub struct Role {
    name: String,
    url: String,
    admin_url: String,
}

impl Role {
    /// Creates a role with these attributes and no right yet.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn create(database: &TestDatabase, attributes: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{}_role_{}", database.name(), NEXT.fetch_add(1, Ordering::Relaxed));
        let password = "synthetic";
        let sign = if database.url().contains('?') { '&' } else { '?' };
        let role = Self {
            url: format!("{}{sign}user={name}&password={password}", database.url()),
            admin_url: database.url().to_owned(),
            name,
        };
        let create = format!("CREATE ROLE {} LOGIN PASSWORD '{password}' {attributes}", role.name);
        execute(&role.admin_url, create).await?;
        Ok(role)
    }

    /// Creates a role with exactly the rights of `deploy/postgres/grants.sql`.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn worker(database: &TestDatabase) -> Result<Self> {
        let role = Self::create(database, "").await?;
        let grants = format!(
            "GRANT USAGE ON SCHEMA identity TO {name}; GRANT SELECT, DELETE, UPDATE (id) \
             ON identity.sign_in_confirmation_requests, identity.refresh_sessions TO {name}",
            name = role.name
        );
        execute(&role.admin_url, grants).await?;
        Ok(role)
    }

    /// Its name, which needs no quotes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the database for this role.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let statements = format!("DROP OWNED BY {name} CASCADE; DROP ROLE {name}", name = self.name);
        // A destructor cannot wait inside the runtime it may be running in, so a thread brings its own.
        thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let dropped = runtime
                    .map_err(Into::into)
                    .and_then(|runtime| runtime.block_on(execute(&self.admin_url, statements)));
                if let Err(error) = dropped {
                    eprintln!("the role {} is left behind: {error:#}", self.name);
                }
            });
        });
    }
}

/// Executes statements on names made here, of letters, digits and underscores.
async fn execute(url: &str, statements: String) -> Result<()> {
    let mut admin = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(statements.clone())).execute(&mut admin).await.context(statements)?;
    admin.close().await?;
    Ok(())
}
