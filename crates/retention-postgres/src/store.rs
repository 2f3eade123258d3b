//! [`RetentionStore`] on PostgreSQL.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::plan::Target;
use retention_domain::ports::RetentionStore;
use retention_domain::{
    Backlog, BatchDone, BatchRequest, Failure, FailureKind, Preview, RowAddress, Sample, TableName, Window,
    WindowMark, WindowRow,
};
use sea_orm::Statement;
use sqlx::postgres::PgRow;
use sqlx::{Executor, Row};
use tokio_util::sync::CancellationToken;

use crate::address::{Partitions, address, parent};
use crate::batch;
use crate::catalogue::{self, Column, Partition};
use crate::connect::{ACQUIRE_TIMEOUT, Database};
use crate::destination;
use crate::error::failure;
use crate::session::{Bounds, InFlight, Purpose, Remains, Session, query};
use crate::sql::{self, Place};
use crate::window;

/// How much longer than the server's own bound we wait for its answer: beyond this it is taken for dead, so that a
/// server that vanished without closing cannot hold a run for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a batch that reckons with nobody may wait on a lock: long enough for somebody's commit, and so short that
/// nobody minds who waits for the batch.
const UNCONTENDED_LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// How long such a batch may take: less than PostgreSQL's `deadlock_timeout` (1 s by default). A client that wants rows the
/// other way round has then not waited long enough to look for a deadlock, and is never chosen as its victim.
const UNCONTENDED_STATEMENT_TIMEOUT: Duration = Duration::from_millis(800);

/// The rows of a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PgRetentionStore {
    database: Database,
    lock_timeout: Duration,
    uncontended: Bounds,
    in_flight: InFlight,
    partitions: Partitions,
    /// The tables that were found to be partitioned.
    partitioned: Arc<Mutex<HashSet<TableName>>>,
    abandoned: CancellationToken,
}

impl PgRetentionStore {
    /// A store over this database; waits on locks for at most `lock_timeout`.
    #[must_use]
    pub fn new(database: Database, lock_timeout: Duration) -> Self {
        Self {
            database,
            lock_timeout,
            uncontended: Bounds {
                statement: UNCONTENDED_STATEMENT_TIMEOUT,
                lock: UNCONTENDED_LOCK_TIMEOUT.min(lock_timeout),
            },
            in_flight: InFlight::default(),
            partitions: Partitions::default(),
            partitioned: Arc::default(),
            abandoned: CancellationToken::new(),
        }
    }

    /// The same, with batches that wait for others for so long even before they reckon with any. For tests, in which
    /// somebody makes use of that time.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { uncontended: Bounds { statement: patience, lock: patience }, ..self }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Cancels the scans in flight: nothing is lost with them.
    pub async fn cancel_scans(&self) {
        for scan in [Purpose::Read, Purpose::Window, Purpose::Climb] {
            self.cancel(scan).await;
        }
    }

    /// Cancels the batches in flight, and what scans are left: each fails with `query_canceled` and has deleted nothing.
    pub async fn cancel_batches(&self) {
        self.cancel_scans().await;
        self.cancel(Purpose::Delete).await;
    }

    /// Gives up on everything in flight and to come: connections are closed without waiting for the server.
    pub fn abandon(&self) {
        self.abandoned.cancel();
    }

    async fn cancel(&self, purpose: Purpose) {
        for pid in self.in_flight.pids(purpose) {
            let cancel = sqlx::query("SELECT pg_catalog.pg_cancel_backend($1)").bind(pid).persistent(false);
            let _ = tokio::time::timeout(Duration::from_secs(1), self.database.pool().execute(cancel)).await;
        }
    }

    /// Runs `work` in a transaction of its own. Whatever goes wrong, the connection is not reused.
    pub(crate) async fn transaction<T, F, W>(
        &self,
        attempt: &str,
        purpose: Purpose,
        limit: Duration,
        work: W,
    ) -> Result<T, Failure>
    where
        W: FnOnce(Session) -> F + Send,
        F: Future<Output = Result<(Session, T), sqlx::Error>> + Send,
    {
        let bounds = Bounds { statement: limit, lock: self.lock_timeout.min(limit) };
        self.transaction_within(attempt, purpose, bounds, work).await
    }

    async fn transaction_within<T, F, W>(
        &self,
        attempt: &str,
        purpose: Purpose,
        bounds: Bounds,
        work: W,
    ) -> Result<T, Failure>
    where
        W: FnOnce(Session) -> F + Send,
        F: Future<Output = Result<(Session, T), sqlx::Error>> + Send,
    {
        let (sender, remains) = Remains::new();
        let work = async {
            let session = Session::begin(&self.database, &self.in_flight, purpose, bounds, sender).await?;
            let (session, done) = work(session).await?;
            session.commit().await?;
            Ok(done)
        };
        let whole = async {
            let result = work.await;
            if matches!(result, Err(sqlx::Error::Database(_) | sqlx::Error::Configuration(_))) {
                remains.settle().await;
            }
            result
        };
        let given_up = |what: &str| Err(Failure::new(FailureKind::Transient, format!("{attempt}: {what}")));
        // Dropping `whole` closes its connection, wherever it stands. Boxed: as one nested type, all transactions
        // together are too deep for an optimised build.
        tokio::select! {
            result = Box::pin(whole) => result.map_err(|error| {
                self.database.learn(&error);
                failure(attempt, &error)
            }),
            () = tokio::time::sleep(bounds.statement + ACQUIRE_TIMEOUT * 2 + PATIENCE) => given_up("the server does not answer"),
            () = self.abandoned.cancelled() => given_up("given up, the process ends"),
        }
    }

    /// The table's columns, if it is what the policy takes it for.
    async fn examine(&self, target: &Target, limit: Duration) -> Result<Vec<Column>, Failure> {
        let attempt = attempt("examining", target);
        let statement = sql::columns(&target.policy.table);
        let (rows, partitions) = self
            .transaction(&attempt, Purpose::Read, limit, async |mut session| {
                let rows = query(statement).fetch_all(&mut **session).await?;
                let partitions =
                    query(sql::partitions(&target.policy.table)).fetch_all(&mut **session).await?;
                destination::examine(&mut session, target).await?;
                Ok((session, (rows, partitions)))
            })
            .await?;
        let columns: Vec<_> = read(&attempt, || rows.iter().map(Column::read).collect())?;
        catalogue::check(target, &columns).map_err(|what| unfit(target, &what))?;
        let partitions: Vec<_> = read(&attempt, || partitions.iter().map(Partition::read).collect())?;
        catalogue::check_partitions(&partitions).map_err(|what| unfit(target, &what))?;
        let mut known = self.partitioned.lock().unwrap_or_else(PoisonError::into_inner);
        if catalogue::is_partitioned(&columns) {
            known.insert(target.policy.table.clone());
        } else {
            known.remove(&target.policy.table);
        }
        Ok(columns)
    }

    /// Where the policy's rows are to be looked for.
    fn place(&self, target: &Target) -> Place {
        let known = self.partitioned.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&target.policy.table) { Place::Partitions } else { Place::Table }
    }

    async fn fetch_one(
        &self,
        attempt: &str,
        purpose: Purpose,
        limit: Duration,
        statement: Statement,
    ) -> Result<PgRow, Failure> {
        self.transaction(attempt, purpose, limit, async |mut session| {
            let row = query(statement).fetch_one(&mut **session).await?;
            Ok((session, row))
        })
        .await
    }
}

fn unfit(target: &Target, what: &str) -> Failure {
    Failure::new(FailureKind::Fatal, format!("{}: {what}", attempt("examining", target)))
}

fn count(row: &PgRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(column).map(|count| u64::try_from(count).unwrap_or_default())
}

fn attempt(what: &str, target: &Target) -> String {
    format!("{what} {}", target.policy.table)
}

fn read<T>(attempt: &str, read: impl FnOnce() -> Result<T, sqlx::Error>) -> Result<T, Failure> {
    read().map_err(|error| failure(attempt, &error))
}

impl RetentionStore for PgRetentionStore {
    async fn now(&self) -> Result<DateTime<Utc>, Failure> {
        let attempt = "asking the database for its clock";
        let statement = Statement::from_string(
            sea_orm::DbBackend::Postgres,
            "SELECT pg_catalog.clock_timestamp() AS now",
        );
        let row = self.fetch_one(attempt, Purpose::Read, ACQUIRE_TIMEOUT, statement).await?;
        read(attempt, || row.try_get("now"))
    }

    async fn prepare(&self, target: &Target, limit: Duration) -> Result<(), Failure> {
        let columns = self.examine(target, limit).await?;
        if catalogue::is_read_only(&columns) {
            self.database.found_read_only();
        }
        catalogue::check_deletable(&columns).map_err(|what| unfit(target, what))?;
        // A batch asks for the right to lock rows only once it meets somebody. That is no moment to find out. (For each
        // partition, the catalogue was asked.)
        let place = self.place(target);
        if place == Place::Partitions {
            return Ok(());
        }
        let locks = sql::still_due(target, &place, &[], true);
        let attempt = attempt("asking for row locks on", target);
        self.transaction(&attempt, Purpose::Delete, limit, async |mut session| {
            query(locks).execute(&mut **session).await?;
            Ok((session, ()))
        })
        .await
    }

    async fn count_due(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        let attempt = attempt("counting due rows of", target);
        let row = self
            .fetch_one(&attempt, Purpose::Read, limit, sql::count_due(target, &self.place(target)))
            .await?;
        read(&attempt, || {
            Ok(Backlog {
                pending: count(&row, "due")?,
                oldest_pending: row.try_get("oldest")?,
                ..Backlog::default()
            })
        })
    }

    async fn sample(&self, target: &Target, one_in: u64, limit: Duration) -> Result<Sample, Failure> {
        let attempt = attempt("taking a sample of", target);
        let row = self.fetch_one(&attempt, Purpose::Climb, limit, sql::sample(target, one_in)).await?;
        read(&attempt, || {
            Ok(Sample { leaves: count(&row, "leaves")?, blocked_ends: count(&row, "blocked_ends")? })
        })
    }

    async fn window(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        let attempt = attempt("looking for due rows of", target);
        let partitioned = self.place(target) == Place::Partitions;
        self.transaction(&attempt, Purpose::Window, limit, async |mut session| {
            let window = if partitioned {
                window::of_partitions(&mut session, target, after, max_rows, &self.partitions).await?
            } else if target.policy.parent_column.is_some() {
                window::of_chains(&mut session, target, after, max_rows).await?
            } else {
                window::of_table(&mut session, target, after, max_rows).await?
            };
            Ok((session, window))
        })
        .await
    }

    async fn leaves(
        &self,
        target: &Target,
        after: Option<WindowMark>,
        max_rows: usize,
        limit: Duration,
    ) -> Result<Window, Failure> {
        let attempt = attempt("looking for due leaves of", target);
        self.transaction(&attempt, Purpose::Window, limit, async |mut session| {
            let window = window::of_leaves(&mut session, target, after, max_rows).await?;
            Ok((session, window))
        })
        .await
    }

    async fn climb(
        &self,
        target: &Target,
        from: &[RowAddress],
        max_rows: usize,
        limit: Duration,
    ) -> Result<Vec<WindowRow>, Failure> {
        let statement = sql::climb(target, from, max_rows);
        self.transaction(&attempt("climbing in", target), Purpose::Climb, limit, async |mut session| {
            let found = query(statement).fetch_all(&mut **session).await?;
            let row = |row: &PgRow| Ok(WindowRow::new(address(row)?, parent(row)?, false));
            let rows = found.iter().map(row).collect::<Result<_, sqlx::Error>>()?;
            Ok((session, rows))
        })
        .await
    }

    async fn delete_batch(&self, target: &Target, request: &BatchRequest) -> Result<BatchDone, Failure> {
        let attempt = attempt("deleting a batch from", target);
        let bounds = if request.contended {
            Bounds { statement: request.limit, lock: self.lock_timeout.min(request.limit) }
        } else {
            let Bounds { statement, lock } = self.uncontended;
            Bounds { statement: statement.min(request.limit), lock: lock.min(request.limit) }
        };
        // Read before the commit: an answer that cannot be understood must not be committed.
        self.transaction_within(&attempt, Purpose::Delete, bounds, async |mut session| {
            let done = batch::delete(&mut session, target, request, &self.partitions).await?;
            Ok((session, done))
        })
        .await
    }

    async fn backlog(&self, target: &Target, limit: Duration) -> Result<Backlog, Failure> {
        let attempt = attempt("counting the backlog of", target);
        let row =
            self.fetch_one(&attempt, Purpose::Read, limit, sql::backlog(target, &self.place(target))).await?;
        read(&attempt, || {
            Ok(Backlog {
                pending: count(&row, "pending")?,
                blocked: count(&row, "blocked")?,
                oldest_pending: row.try_get("oldest_pending")?,
                oldest_blocked: row.try_get("oldest_blocked")?,
            })
        })
    }

    async fn preview(&self, target: &Target, limit: Duration) -> Result<Preview, Failure> {
        self.examine(target, limit).await?;
        let backlog = self.backlog(target, limit).await?;
        let attempt = attempt("counting rows that stay in", target);
        let row = self
            .fetch_one(&attempt, Purpose::Read, limit, sql::preview_extras(target, &self.place(target)))
            .await?;
        read(&attempt, || {
            Ok(Preview {
                due: backlog.total(),
                deletable: backlog.pending,
                blocked: backlog.blocked,
                undated: count(&row, "undated")?,
                unknown_status: count(&row, "unknown_status")?,
                oldest: backlog.oldest(),
            })
        })
    }
}
