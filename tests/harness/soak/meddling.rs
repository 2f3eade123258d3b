//! How a client gets in the way of the workers on purpose: holds old rows, makes them fresh again, hangs living ones
//! below them.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use sqlx::{Connection, Result};
use uuid::Uuid;

use super::age::{Age, REQUESTS, SESSIONS};
use super::client::{Client, Remembered};
use super::ledger::{id, number};
use super::statements;

impl Client {
    /// Locks old sessions for a moment, neighbours of a chain most often.
    pub(super) async fn hold_sessions(&mut self) -> Result<()> {
        let ids = self.some_spent(|spent| &spent.sessions);
        let moment = Duration::from_millis(self.rng.random_range(1..40));
        let mut tx = self.conn.begin().await?;
        let there = statements::hold_sessions(&mut tx, &ids).await?;
        statements::linger(&mut tx, moment).await?;
        tx.rollback().await?;
        self.spent.sessions.retain(|n| !ids.contains(&id(*n)) || there.contains(&id(*n)));
        Ok(())
    }

    /// Locks sessions one by one from the living one upwards, against the order in which they came into being.
    pub(super) async fn lock_family(&mut self) -> Result<()> {
        let family = self.family();
        let moment = Duration::from_millis(self.rng.random_range(0..10));
        let mut tx = self.conn.begin().await?;
        for session in family.into_iter().take(5) {
            statements::lock_session(&mut tx, session).await?;
            statements::linger(&mut tx, moment).await?;
        }
        tx.rollback().await
    }

    /// Locks old requests for a moment, and half of the time counts another attempt on them.
    pub(super) async fn hold_requests(&mut self) -> Result<()> {
        let ids = self.some_spent(|spent| &spent.requests);
        let moment = Duration::from_millis(self.rng.random_range(1..40));
        let counts = self.rng.random_bool(0.5);
        let mut tx = self.conn.begin().await?;
        let there = statements::hold_requests(&mut tx, &ids).await?;
        if counts {
            statements::count_attempts(&mut tx, &there).await?;
        }
        statements::linger(&mut tx, moment).await?;
        if counts {
            self.world.ledger.enter(|tables| tables.count_attempts(&there));
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        self.spent.requests.retain(|n| !ids.contains(&id(*n)) || there.contains(&id(*n)));
        Ok(())
    }

    /// Old sessions become fresh again; those that were there in time must stay.
    pub(super) async fn renew_session(&mut self) -> Result<()> {
        let ids = self.some_spent(|spent| &spent.sessions);
        let mut tx = self.conn.begin().await?;
        let renewed = statements::date_sessions(&mut tx, &ids, Duration::ZERO).await?;
        self.world.ledger.enter(|tables| tables.date_sessions(&renewed));
        tx.commit().await?;
        self.spent.sessions.retain(|n| !ids.contains(&id(*n)));
        self.young.sessions.extend(renewed.iter().map(|(session, _)| number(*session)));
        Ok(())
    }

    /// Old requests become fresh again; those that were there in time must stay.
    pub(super) async fn renew_request(&mut self) -> Result<()> {
        let ids = self.some_spent(|spent| &spent.requests);
        let mut tx = self.conn.begin().await?;
        let renewed = statements::date_requests(&mut tx, &ids, Duration::ZERO).await?;
        self.world.ledger.enter(|tables| tables.date_requests(&renewed));
        tx.commit().await?;
        self.spent.requests.retain(|n| !ids.contains(&id(*n)));
        self.young.requests.extend(renewed.iter().map(|(request, _)| number(*request)));
        Ok(())
    }

    /// An old session gets a living child, if it is still there; then it must stay.
    pub(super) async fn fork(&mut self) -> Result<()> {
        let Some(parent) = self.some_spent(|spent| &spent.sessions).first().copied().map(number) else {
            return Ok(());
        };
        let (child, age) = (self.number(), Age::draw(&mut self.rng));
        let (since, lives) = (age.of(SESSIONS, &mut self.rng), age.lives(&mut self.rng));
        let mut tx = self.conn.begin().await?;
        if statements::lock_session(&mut tx, parent).await?.is_none() {
            self.spent.sessions.retain(|n| *n != parent);
            return tx.rollback().await;
        }
        let at = statements::insert_session(&mut tx, child, Some(parent), self.user, since, lives).await?;
        self.world.ledger.enter(|tables| tables.enter_session(child, Some(parent), at));
        tx.commit().await?;
        // The parent stays with the old rows, so that it goes on being meddled with.
        self.sign_in_on(child, parent, age);
        Ok(())
    }

    /// Time passes for some fresh rows that are over: all of them must be there, and are old after it.
    pub(super) async fn let_age(&mut self) -> Result<()> {
        let sessions: Vec<Uuid> = take(&mut self.young.sessions);
        let requests: Vec<Uuid> = take(&mut self.young.requests);
        let mut tx = self.conn.begin().await?;
        let old = Age::Old.of(SESSIONS, &mut self.rng);
        let aged_sessions = statements::date_sessions(&mut tx, &sessions, old).await?;
        let old = Age::Old.of(REQUESTS, &mut self.rng);
        let aged_requests = statements::date_requests(&mut tx, &requests, old).await?;
        self.world.ledger.enter(|tables| {
            tables.date_sessions(&aged_sessions);
            tables.date_requests(&aged_requests);
        });
        tx.commit().await?;
        for (asked, aged, what) in
            [(&sessions, &aged_sessions, "session"), (&requests, &aged_requests, "request")]
        {
            for gone in asked.iter().filter(|id| !aged.iter().any(|(there, _)| there == *id)) {
                self.world.violation(format!("{what} {gone}: gone while it was fresh"));
            }
        }
        self.spent.sessions.extend(aged_sessions.iter().map(|(session, _)| number(*session)));
        self.spent.requests.extend(aged_requests.iter().map(|(request, _)| number(*request)));
        self.spent.shrink();
        Ok(())
    }

    /// Up to five old rows that stand together.
    fn some_spent(&mut self, of: impl Fn(&Remembered) -> &VecDeque<u64>) -> Vec<Uuid> {
        let rows = of(&self.spent);
        if rows.is_empty() {
            return Vec::new();
        }
        let first = self.rng.random_range(0..rows.len());
        rows.iter().skip(first).take(5).copied().map(id).collect()
    }
}

/// Takes the eldest few.
fn take(rows: &mut VecDeque<u64>) -> Vec<Uuid> {
    rows.drain(..rows.len().min(40)).map(id).collect()
}
