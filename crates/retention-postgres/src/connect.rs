//! Connecting: options the worker needs, and the pool.
//!
//! Whatever the pool waits for is bounded: by itself it waits for ever on a connection that was lost without a word,
//! and keeps that connection's place meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sea_orm::{DatabaseConnection, SqlxPostgresConnector};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool, Postgres};
use tokio::time::timeout;

/// What the server calls our sessions: operators find them by it in `pg_stat_activity`.
pub const APPLICATION_NAME: &str = "SessionRetentionJob";

/// How long a connection is waited for. Longer holds up a run on a dead server, shorter fails during a server's
/// restart, which the loop's back-off covers.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection may take to show that it lives. Longer leaves no time to make another one within
/// [`ACQUIRE_TIMEOUT`], shorter throws away good ones on a slow network.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// SQLSTATE `read_only_sql_transaction`.
const READ_ONLY: &str = "25006";

/// A pool of connections to one database. Connects when first needed.
#[derive(Clone, Debug)]
pub struct Database {
    orm: DatabaseConnection,
    options: PgConnectOptions,
    distrust: Distrust,
}

/// Since when connections are not used that were made before.
#[derive(Clone, Debug, Default)]
struct Distrust(Arc<Mutex<Option<Instant>>>);

impl Distrust {
    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it reaches a connection of this age.
    fn reaches(&self, age: Duration) -> bool {
        let since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() <= age)
    }
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
        let distrust = Distrust::default();
        let of_pool = distrust.clone();
        let pool = PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            // The pool's own test has no bound; a connection that fails ours is replaced at once.
            .test_before_acquire(false)
            .before_acquire(move |connection, idle| {
                let distrusted = of_pool.reaches(idle.age);
                Box::pin(async move {
                    Ok(!distrusted && matches!(timeout(SIGN_OF_LIFE, connection.ping()).await, Ok(Ok(()))))
                })
            })
            .connect_lazy_with(options.clone());
        Self { orm: SqlxPostgresConnector::from_sqlx_postgres_pool(pool), options, distrust }
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
        match timeout(ACQUIRE_TIMEOUT, self.options.connect()).await {
            Ok(Err(reason)) => reason,
            _ => from_pool,
        }
    }

    /// Draws the conclusion from an error: sessions of a server that turned read-only stay read-only when it is
    /// writable again, or when its name leads to another one.
    pub(crate) fn learn(&self, error: &sqlx::Error) {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        if code.as_deref() == Some(READ_ONLY) {
            self.found_read_only();
        }
    }

    /// The server takes no writes: connections made until now are not used again.
    pub(crate) fn found_read_only(&self) {
        self.distrust.begin();
    }

    /// Whether the server answers, which taking a connection from the pool finds out. May be dropped at any time.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        match self.pool().acquire().await {
            Ok(connection) => {
                give_back(connection);
                Ok(())
            }
            Err(error) => Err(self.why_unreachable(error).await),
        }
    }

    /// Closes all connections; waits for none that does not answer.
    pub async fn close(&self) {
        // A connection that hangs while closing must not outlive the grace period.
        let _ = timeout(Duration::from_secs(1), self.pool().close()).await;
    }
}

/// Gives a connection back to its pool. The pool asks it for a sign of life first; if there is none, it is closed.
pub(crate) fn give_back(mut connection: PoolConnection<Postgres>) {
    tokio::spawn(timeout(SIGN_OF_LIFE, connection.return_to_pool()));
}
