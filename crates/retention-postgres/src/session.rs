//! One transaction on one connection, with bounds on the server and on our side.
//!
//! A connection goes back to the pool only after its transaction has ended in good order. In every other case (an
//! error, a future that is dropped, a server that does not answer) it is closed: nothing is ever left inside a
//! transaction, and no later statement meets the remains of an earlier one.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sea_orm::Statement;
use sea_query_sqlx::SqlxValues;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, PgConnection, Postgres, Row};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::connect::{Database, SIGN_OF_LIFE, give_back};

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A scan: read-only, with memory for one sort of a window.
    Read,
    /// The scans of a window: the same, in one process.
    Window,
    /// A climb: read-only, row by row.
    Climb,
    /// A batch.
    Delete,
}

/// Bounds the server keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// For each statement; at least one millisecond.
    pub(crate) statement: Duration,
    /// For each wait on a lock; at least one millisecond.
    pub(crate) lock: Duration,
}

/// Process ids of the server's sessions that run a transaction for us at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<i32, Purpose>>>);

/// An open transaction. Dropped without [`Session::commit`], it closes its connection.
pub(crate) struct Session {
    connection: Option<PoolConnection<Postgres>>,
    pid: i32,
    in_flight: InFlight,
    remains: Option<oneshot::Sender<PgConnection>>,
    /// When the bound of its statements is used up.
    deadline: Instant,
}

/// What is left of a session that did not end in good order: its connection.
pub(crate) struct Remains(oneshot::Receiver<PgConnection>);

impl Remains {
    pub(crate) fn new() -> (oneshot::Sender<PgConnection>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Has the server undo the transaction, waits for that for a moment, and closes the connection.
    ///
    /// A refusal of our own leaves the transaction open. And a server tells of an error first and lets go of the transaction's locks then. Who tries the same rows again at
    /// once would take them for held by somebody else.
    pub(crate) async fn settle(mut self) {
        if let Ok(mut connection) = self.0.try_recv() {
            let _ = timeout(SIGN_OF_LIFE, connection.execute("ROLLBACK")).await;
        }
    }
}

impl InFlight {
    /// The sessions in flight for this purpose.
    pub(crate) fn pids(&self, purpose: Purpose) -> Vec<i32> {
        let in_flight = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.iter().filter(|(_, of)| **of == purpose).map(|(pid, _)| *pid).collect()
    }
}

impl Bounds {
    /// The statements that open a transaction, as one round trip.
    fn opening(self, purpose: Purpose) -> String {
        let (statement, lock) = (millis(self.statement), millis(self.lock));
        let settings = match purpose {
            // Hash joins need no sorting of a million rows first. Statistics that are missing or old make a few rows of a
            // million, and nested loops over them quadratic; a LATERAL look-up by index is still one.
            Purpose::Read | Purpose::Window => {
                " READ ONLY; SET LOCAL work_mem = '64MB'; SET LOCAL enable_mergejoin = off; \
                 SET LOCAL enable_nestloop = off; SET LOCAL enable_hashjoin = on; SET LOCAL enable_hashagg = on"
            }
            // A batch finds its rows by ctid or through an index, and joins only what it holds in memory. A plan by
            // statistics, which know nothing of a batch's size, may read the whole table or go quadratic instead; and
            // planned with the values at hand, it is estimated address by address, and by the ends of the age index, where
            // the rows just deleted lie: a third of the batch's time for nothing.
            Purpose::Delete => {
                "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; \
                 SET LOCAL enable_hashjoin = on; SET LOCAL enable_hashagg = on; SET LOCAL enable_indexscan = on; \
                 SET LOCAL enable_bitmapscan = on; SET LOCAL enable_tidscan = on"
            }
            // One row at a time, through indexes.
            Purpose::Climb => {
                " READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
                 SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = on; SET LOCAL enable_indexscan = on"
            }
        };
        // Half a second is not worth the other cores to a job at night; to those who sign in meanwhile it is.
        let alone = match purpose {
            Purpose::Window => "; SET LOCAL max_parallel_workers_per_gather = 0",
            Purpose::Read | Purpose::Climb | Purpose::Delete => "",
        };
        // Also for a window of several statements: a snapshot taken before the table is locked finds it empty if it was
        // rewritten meanwhile.
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED{settings}{alone}; SET LOCAL jit = off; \
             SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; \
             SET LOCAL idle_in_transaction_session_timeout = '30s'; SELECT pg_catalog.pg_backend_pid()"
        )
    }
}

/// PostgreSQL takes 0 for "no limit" and knows no limit above about 24.8 days.
fn millis(bound: Duration) -> u128 {
    bound.as_millis().clamp(1, 2_000_000_000)
}

impl Session {
    /// Opens a transaction on a connection of the pool.
    pub(crate) async fn begin(
        database: &Database,
        in_flight: &InFlight,
        purpose: Purpose,
        bounds: Bounds,
        remains: oneshot::Sender<PgConnection>,
    ) -> Result<Self, sqlx::Error> {
        let connection = match database.pool().acquire().await {
            Ok(connection) => connection,
            Err(error) => return Err(database.why_unreachable(error).await),
        };
        let mut session = Self {
            connection: Some(connection),
            pid: 0,
            in_flight: in_flight.clone(),
            remains: Some(remains),
            deadline: Instant::now() + bounds.statement,
        };
        let opened = session.fetch_one(sqlx::raw_sql(AssertSqlSafe(bounds.opening(purpose)))).await?;
        session.pid = opened.try_get(0)?;
        in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).insert(session.pid, purpose);
        Ok(session)
    }

    /// Bounds the statements to come by what is left of the bound that the transaction began with: several of them together
    /// take no longer than one.
    pub(crate) async fn bound_by_what_is_left(&mut self) -> Result<(), sqlx::Error> {
        let left = millis(self.deadline.saturating_duration_since(Instant::now()));
        self.execute(sqlx::raw_sql(AssertSqlSafe(format!("SET LOCAL statement_timeout = {left}")))).await?;
        Ok(())
    }

    /// Ends the transaction; only then does the connection go back to the pool.
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.execute(sqlx::raw_sql("COMMIT")).await?;
        self.forget_pid();
        if let Some(connection) = self.connection.take() {
            give_back(connection);
        }
        Ok(())
    }

    fn forget_pid(&self) {
        self.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget_pid();
        if let Some(connection) = self.connection.take() {
            let connection = connection.detach();
            // If nobody waits for it, this closes the socket; the server rolls back.
            let _ = self.remains.take().map(|remains| remains.send(connection));
        }
    }
}

impl Deref for Session {
    type Target = PoolConnection<Postgres>;

    #[expect(clippy::expect_used, reason = "taken only by commit, which consumes the session, and by drop")]
    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("an open session has its connection")
    }
}

impl DerefMut for Session {
    #[expect(clippy::expect_used, reason = "taken only by commit, which consumes the session, and by drop")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_mut().expect("an open session has its connection")
    }
}

/// A statement with its values bound, unnamed: named prepared statements break behind a transaction pooler.
pub(crate) fn query(statement: Statement) -> Query<'static, Postgres, PgArguments> {
    let arguments: PgArguments = match statement.values {
        Some(values) => sqlx::IntoArguments::into_arguments(SqlxValues(values)),
        None => PgArguments::default(),
    };
    sqlx::query_with(AssertSqlSafe(statement.sql), arguments).persistent(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_whole_milliseconds_and_never_zero() {
        let bounds = Bounds { statement: Duration::from_micros(400), lock: Duration::from_secs(2) };
        let opening = bounds.opening(Purpose::Delete);
        assert!(opening.contains("statement_timeout = 1;"), "{opening}");
        assert!(opening.contains("lock_timeout = 2000;"), "{opening}");
        let century = Bounds { statement: Duration::from_secs(36_500 * 86_400), ..bounds };
        assert!(century.opening(Purpose::Read).contains("statement_timeout = 2000000000;"));
    }
}
