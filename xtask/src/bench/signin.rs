//! The online traffic: clients that sign in and refresh, at a fixed rate or as fast as they can.
//!
//! The load is open: each operation has an intended start, whether or not the one before it is done, and its latency
//! counts from there. So a stall shows in every operation that should have begun meanwhile, not only in the one that
//! met it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection, query};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Clients, each with a connection.
pub const CLIENTS: u32 = 16;
/// Operations of a sign-in: request a code, confirm it, refresh with rotation, look for reuse.
const OPERATIONS: u32 = 4;

/// When operations begin.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// So many in a second, whatever becomes of them.
    Open { per_second: f64 },
    /// Each as soon as its client is done with the one before.
    Closed,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// From the intended start of each operation to its end, in milliseconds, in no particular order.
    pub latencies_ms: Vec<f64>,
    /// Operations that ended in an error.
    pub errors: u64,
    /// One of the errors.
    pub an_error: Option<String>,
}

/// Runs the clients on this database for so long. Operations of the first `warm_up` are made and not counted.
///
/// # Errors
///
/// When a client cannot connect.
pub async fn sign_in(url: &str, pace: Pace, warm_up: Duration, duration: Duration) -> Result<Seen> {
    let next = Arc::new(AtomicU32::new(0));
    // Threads are not cancelled with the future that waits for them.
    let over = Over(Arc::new(AtomicBool::new(false)));
    let (connected, mut connections) = mpsc::channel(1);
    let (mut clients, mut gates) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let (url, next, over) = (url.to_owned(), Arc::clone(&next), Arc::clone(&over.0));
        let (gate, opened) = std::sync::mpsc::channel();
        gates.push(gate);
        let connected = connected.clone();
        // A thread of its own with a runtime of its own: the timer of a shared one is a millisecond off.
        clients.push(spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let client = runtime.block_on(Client::connect(&url));
            let _ = connected.blocking_send(());
            let (mut client, mut seen) = (client?, Seen::default());
            // Nobody opens when nobody waits any more.
            let Ok(begin) = opened.recv() else { return Ok(seen) };
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let intended = match pace {
                    Pace::Open { per_second } => {
                        begin + Duration::from_secs_f64(f64::from(number) / per_second)
                    }
                    Pace::Closed => Instant::now().max(begin),
                };
                if intended >= begin + warm_up + duration || over.load(Ordering::Relaxed) {
                    return anyhow::Ok(seen);
                }
                thread::sleep(intended.saturating_duration_since(Instant::now()));
                let outcome = runtime.block_on(client.operation());
                if intended >= begin + warm_up {
                    seen.latencies_ms.push(intended.elapsed().as_secs_f64() * 1e3);
                    if let Err(error) = outcome {
                        seen.errors += 1;
                        seen.an_error.get_or_insert(error.to_string());
                    }
                }
            }
        }));
    }
    drop(connected);
    for _ in &gates {
        let _ = connections.recv().await;
    }
    // The clock starts when all are there, however long that took.
    let begin = Instant::now();
    for gate in gates {
        // A client that could not connect has gone, and says so below.
        let _ = gate.send(begin);
    }
    let mut all = Seen::default();
    for client in clients {
        let seen = client.await??;
        all.latencies_ms.extend(seen.latencies_ms);
        all.errors += seen.errors;
        all.an_error = all.an_error.or(seen.an_error);
    }
    Ok(all)
}

/// Ends the clients when nobody waits for them any more.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Somebody who signs in and stays signed in.
struct Client {
    connection: PgConnection,
    user: Uuid,
    operation: u32,
    request: Uuid,
    session: Uuid,
}

impl Client {
    async fn connect(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await.context("connecting a client")?;
        let user = sqlx::query_scalar("SELECT id FROM identity.users ORDER BY random() LIMIT 1")
            .fetch_one(&mut connection)
            .await?;
        Ok(Self { connection, user, operation: 0, request: Uuid::nil(), session: Uuid::nil() })
    }

    /// The next operation of the cycle.
    async fn operation(&mut self) -> Result<(), sqlx::Error> {
        let operation = self.operation % OPERATIONS;
        self.operation += 1;
        match operation {
            0 => self.request_code().await,
            1 => self.confirm().await,
            2 => self.refresh().await,
            _ => self.look_for_reuse().await,
        }
    }

    async fn request_code(&mut self) -> Result<(), sqlx::Error> {
        self.request = Uuid::now_v7();
        query(
            "INSERT INTO identity.sign_in_confirmation_requests \
             (id, user_id, phone_number, code_hash, status, created_at, expires_at) \
             VALUES ($1, $2, '+15555550100', sha256($1::text::bytea), 'Pending', now(), now() + interval '5 minutes')",
        )
        .bind(self.request)
        .bind(self.user)
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }

    async fn confirm(&mut self) -> Result<(), sqlx::Error> {
        self.session = Uuid::now_v7();
        let mut transaction = self.connection.begin().await?;
        query("UPDATE identity.sign_in_confirmation_requests SET status = 'Confirmed' WHERE id = $1")
            .bind(self.request)
            .execute(&mut *transaction)
            .await?;
        query(INSERT_SESSION)
            .bind(self.session)
            .bind(self.user)
            .bind(None::<Uuid>)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    /// The session is found by its token and locked, its child is added, it is marked as rotated.
    async fn refresh(&mut self) -> Result<(), sqlx::Error> {
        let child = Uuid::now_v7();
        let mut transaction = self.connection.begin().await?;
        query("SELECT status FROM identity.refresh_sessions WHERE token_hash = sha256($1::text::bytea) FOR UPDATE")
            .bind(self.session)
            .fetch_one(&mut *transaction)
            .await?;
        query(INSERT_SESSION)
            .bind(child)
            .bind(self.user)
            .bind(self.session)
            .execute(&mut *transaction)
            .await?;
        query("UPDATE identity.refresh_sessions SET status = 'Rotated', updated_at = now() WHERE id = $1")
            .bind(self.session)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    /// Whether a token that comes again was rotated already, and into what.
    async fn look_for_reuse(&mut self) -> Result<(), sqlx::Error> {
        query(
            "SELECT session.status, child.id FROM identity.refresh_sessions AS session \
             LEFT JOIN identity.refresh_sessions AS child ON child.parent_session_id = session.id \
             WHERE session.token_hash = sha256($1::text::bytea)",
        )
        .bind(self.session)
        .fetch_one(&mut self.connection)
        .await?;
        Ok(())
    }
}

const INSERT_SESSION: &str = "INSERT INTO identity.refresh_sessions \
     (id, user_id, token_hash, parent_session_id, status, created_at, updated_at, expires_at) \
     VALUES ($1, $2, sha256($1::text::bytea), $3, 'Active', now(), now(), now() + interval '30 days')";
