//! Connecting: options the worker needs, and the pool.

use std::time::Duration;

use sea_orm::{DatabaseConnection, SqlxPostgresConnector};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};

/// What the server calls our sessions: operators find them by it in `pg_stat_activity`.
pub const APPLICATION_NAME: &str = "SessionRetentionJob";

/// How long a connection is waited for. Longer holds up a run on a dead server, shorter fails during a server's
/// restart, which the loop's back-off covers.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool of connections to one database. Connects when first needed.
#[derive(Clone, Debug)]
pub struct Database {
    orm: DatabaseConnection,
    options: PgConnectOptions,
}

impl Database {
    /// A pool of at most `concurrency` + 1 connections: one more than delete at the same time, so that counting and
    /// cancelling never wait for a batch.
    #[must_use]
    pub fn new(options: PgConnectOptions, concurrency: usize) -> Self {
        // A pooler may refuse start-up parameters it does not know.
        let options =
            options.application_name(APPLICATION_NAME).extra_float_digits(None).disable_statement_logging();
        let most = u32::try_from(concurrency).unwrap_or(u32::MAX).saturating_add(1);
        let pool = PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.clone());
        Self { orm: SqlxPostgresConnector::from_sqlx_postgres_pool(pool), options }
    }

    /// The SeaORM side of the pool, for entities and simple reads.
    #[must_use]
    pub fn orm(&self) -> &DatabaseConnection {
        &self.orm
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.orm.get_postgres_connection_pool()
    }

    /// Why no connection can be had: the pool only knows that it took too long.
    pub(crate) async fn why_unreachable(&self, from_pool: sqlx::Error) -> sqlx::Error {
        if !matches!(from_pool, sqlx::Error::PoolTimedOut) {
            return from_pool;
        }
        match tokio::time::timeout(ACQUIRE_TIMEOUT, self.options.connect()).await {
            Ok(Err(reason)) => reason,
            _ => from_pool,
        }
    }

    /// Whether the server answers: one round trip without a statement of its own.
    ///
    /// # Errors
    /// SeaORM's error when it does not.
    pub async fn ping(&self) -> Result<(), sea_orm::DbErr> {
        self.orm.ping().await
    }

    /// Closes all connections; waits for none that does not answer.
    pub async fn close(&self) {
        // A connection that hangs while closing must not outlive the grace period.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.pool().close()).await;
    }
}
