//! Connections that break, hang, are refused or go through something: each with the real thing.
//!
//! Every test says within what time a run ends or recovers, that the next one works on the same store, and that no
//! session stays inside a transaction.

mod limits;
mod network;
mod pooler;
mod refusals;
mod server;
mod tls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use harness::{Job, Rows, TestDatabase};
use retention_domain::ports::RunEvent;
use retention_domain::{Outcome, RunReport};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

/// Far more than anything here takes that is not told otherwise.
const DEADLINE: Duration = Duration::from_mins(1);
/// Well below what the server itself allows an idle transaction, so that it cannot have tidied up for us.
const SOON: Duration = Duration::from_secs(20);

/// Waits until nobody in this database is inside a transaction, for a while that no timeout of the server explains.
async fn nobody_in_a_transaction(rows: &Rows) -> Result<()> {
    let nobody = rows.wait_until(
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
         AND backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid())",
    );
    timeout(SOON, nobody).await.context("somebody stays in a transaction")?
}

async fn terminate_workers(rows: &Rows) -> Result<()> {
    rows.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'SessionRetentionJob'",
    )
    .await
}

/// `count` due confirmation requests, numbered from 1.
async fn due_requests(rows: &Rows, count: u64) -> Result<()> {
    rows.requests(format!("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, {count}) AS n"))
        .await
}

/// `count` due sessions that refer to nothing, numbered from 1.
async fn due_sessions(rows: &Rows, count: u64) -> Result<()> {
    rows.sessions(harness::shape::singles(1, count)).await
}

fn deleted(report: &RunReport) -> u64 {
    report.policies.iter().map(|policy| policy.deleted).sum()
}

async fn left(rows: &Rows) -> Result<u64> {
    Ok(rows.count_requests().await? + rows.count_sessions().await?)
}

fn assert_drained(report: &RunReport) {
    assert_eq!(report.outcome(), Outcome::Completed, "{report:?}");
}

/// The sentences of the attempts that failed.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl Failures {
    fn note(&self, event: &RunEvent<'_>) {
        if let RunEvent::AttemptFailed { failure, .. } = event {
            self.0.lock().unwrap().push(failure.sentence.clone());
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Holds up the batches of confirmation requests in the middle of their transaction.
struct Stall {
    holder: PgConnection,
}

impl Stall {
    async fn begin(database: &TestDatabase, rows: &Rows) -> Result<Self> {
        rows.execute(
            "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$; \
             CREATE TRIGGER stall BEFORE DELETE ON identity.sign_in_confirmation_requests \
               FOR EACH STATEMENT EXECUTE FUNCTION stall()",
        )
        .await?;
        let mut holder = PgConnection::connect(database.url()).await?;
        sqlx::query("SELECT pg_advisory_lock(1)").execute(&mut holder).await?;
        Ok(Self { holder })
    }

    /// Waits until a batch is held up.
    async fn reached(&self, rows: &Rows) -> Result<()> {
        rows.wait_until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
             AND wait_event = 'advisory')",
        )
        .await
    }

    async fn end(self) -> Result<()> {
        Ok(self.holder.close().await?)
    }
}

/// A run in batches of 100 that waits for locks as long as it takes to arrange a fault.
fn patient_job() -> Result<Job> {
    let mut job = Job::new(100)?;
    job.limits.lock_timeout = Duration::from_secs(25);
    Ok(job)
}
