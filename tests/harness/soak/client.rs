//! One online client of the identity service: signs in, rotates its tokens, checks for reuse, signs out; and gets in
//! the way of the workers on purpose. Nobody but the expiry job changes its rows beside it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sqlx::{Connection, PgConnection, Result};
use tokio::time::sleep;
use uuid::Uuid;

use super::age::{Age, REQUESTS, SESSIONS};
use super::ledger::{id, number};
use super::statements;
use super::world::World;

/// Devices signed in, at least and at most.
const DEVICES: std::ops::Range<usize> = 8..60;
/// Old rows that a client remembers to meddle with.
const REMEMBERED: usize = 400;
/// The longest wait between two operations.
const PAUSE: Duration = Duration::from_millis(8);

/// A client, with its connection and all it remembers.
pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) conn: PgConnection,
    pub(super) rng: ChaCha8Rng,
    pub(super) user: Uuid,
    next: u64,
    devices: Vec<Device>,
    /// Rows that are over and fresh: they must be there.
    pub(super) young: Remembered,
    /// Rows that are over and old: they may be gone, unless one below them stays.
    pub(super) spent: Remembered,
}

/// Somebody signed in: a chain of sessions whose last is in use.
struct Device {
    /// All but the last, from the root down, and whether each is fresh.
    rotated: Vec<(u64, bool)>,
    last: u64,
    /// What the root was hung below, if it was.
    above: Option<u64>,
    age: Age,
}

/// Rows that a client has done with, the eldest first.
#[derive(Default)]
pub(super) struct Remembered {
    pub sessions: VecDeque<u64>,
    pub requests: VecDeque<u64>,
}

impl Client {
    /// The `number`th client (from 1); its user must exist.
    pub fn new(world: &Arc<World>, conn: PgConnection, number: u64, user: Uuid) -> Self {
        Self {
            world: Arc::clone(world),
            conn,
            rng: world.rng(number),
            user,
            next: number << 40,
            devices: Vec::new(),
            young: Remembered::default(),
            spent: Remembered::default(),
        }
    }

    /// Works until everybody is told to stop; returns its connection.
    pub async fn work(mut self) -> PgConnection {
        let world = Arc::clone(&self.world);
        while !world.is_stopping() {
            let open = world.gate.read().await;
            let (kind, done) = self.step().await;
            match done {
                Ok(()) => world.operation(kind),
                Err(error) => world.client_error(&format!("client {}", self.next >> 40), kind, &error),
            }
            drop(open);
            sleep(PAUSE.mul_f64(self.rng.random())).await;
        }
        self.conn
    }

    async fn step(&mut self) -> (&'static str, Result<()>) {
        let roll = match self.devices.len() {
            few if few < DEVICES.start => 0,
            many if many >= DEVICES.end => 50,
            _ => self.rng.random_range(0..100),
        };
        match roll {
            0..15 => ("sign in", self.sign_in().await),
            15..46 => ("refresh", self.refresh().await),
            46..50 => ("lock a family upwards", self.lock_family().await),
            50..58 => ("revoke", self.revoke(1).await),
            58..61 => ("revoke all", self.revoke(5).await),
            61..75 => ("reuse check", self.check_reuse().await),
            75..80 => ("hold old sessions", self.hold_sessions().await),
            80..84 => ("hold old requests", self.hold_requests().await),
            84..87 => ("renew an old session", self.renew_session().await),
            87..89 => ("renew an old request", self.renew_request().await),
            89..92 => ("fork an old session", self.fork().await),
            _ => ("let rows age", self.let_age().await),
        }
    }

    /// The number of a new row.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn device(&mut self) -> usize {
        self.rng.random_range(0..self.devices.len())
    }

    /// A request, some wrong codes, the right one, a session. Old ones come into being in one transaction.
    async fn sign_in(&mut self) -> Result<()> {
        let (request, session) = (self.number(), self.number());
        let age = Age::draw(&mut self.rng);
        let (old, wrong) = (age.of(REQUESTS, &mut self.rng), self.rng.random_range(0..4));
        let status = if wrong == 3 { "Exhausted" } else { "Confirmed" };
        let mut tx = self.conn.begin().await?;
        let at = statements::insert_request(&mut tx, request, self.user, old).await?;
        self.world.ledger.enter(|tables| tables.enter_request(request, at));
        for _ in 0..=wrong {
            if age.is_young() {
                tx.commit().await?;
                tx = self.conn.begin().await?;
            }
            let there = statements::count_attempts(&mut tx, &[id(request)]).await?;
            self.world.ledger.enter(|tables| tables.count_attempts(&there));
        }
        if !statements::end_request(&mut tx, request, status).await? {
            self.world.violation(format!("request {}: gone or changed while it was pending", id(request)));
        }
        self.world.ledger.enter(|tables| tables.end_request(request, status));
        let device = Age::draw(&mut self.rng);
        if wrong < 3 {
            let since = device.of(SESSIONS, &mut self.rng);
            let lives = device.lives(&mut self.rng);
            let at = statements::insert_session(&mut tx, session, None, self.user, since, lives).await?;
            self.world.ledger.enter(|tables| tables.enter_session(session, None, at));
            self.devices.push(Device { rotated: Vec::new(), last: session, above: None, age: device });
        }
        tx.commit().await?;
        let remembered = if age.is_young() { &mut self.young } else { &mut self.spent };
        remembered.requests.push_back(request);
        Ok(())
    }

    /// Rotation: the parent is locked, gets a child, and is over.
    async fn refresh(&mut self) -> Result<()> {
        let (chosen, child) = (self.device(), self.number());
        let Device { last, age, .. } = self.devices[chosen];
        let (since, over) = (age.of(SESSIONS, &mut self.rng), age.of(SESSIONS, &mut self.rng));
        let lives = age.lives(&mut self.rng);
        let mut tx = self.conn.begin().await?;
        let status = statements::lock_session(&mut tx, last).await?;
        if status.as_deref() != Some("Active") {
            tx.rollback().await?;
            self.signed_out(chosen, status.is_some());
            return Ok(());
        }
        let at = statements::insert_session(&mut tx, child, Some(last), self.user, since, lives).await?;
        let ended = statements::end_sessions(&mut tx, &[id(last)], "Rotated", over).await?;
        self.world.ledger.enter(|tables| {
            tables.enter_session(child, Some(last), at);
            for (_, at) in ended {
                tables.end_session(last, "Rotated", at);
            }
        });
        tx.commit().await?;
        let device = &mut self.devices[chosen];
        device.rotated.push((last, age.is_young()));
        device.last = child;
        Ok(())
    }

    /// Ends some devices in one statement.
    async fn revoke(&mut self, devices: usize) -> Result<()> {
        let mut chosen: Vec<usize> = (0..devices.min(self.devices.len())).map(|_| self.device()).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let ids: Vec<Uuid> = chosen.iter().map(|device| id(self.devices[*device].last)).collect();
        let age = self.devices[chosen[0]].age;
        let over = age.of(SESSIONS, &mut self.rng);
        let mut tx = self.conn.begin().await?;
        let ended = statements::end_sessions(&mut tx, &ids, "Revoked", over).await?;
        for (session, at) in &ended {
            self.world.ledger.enter(|tables| tables.end_session(number(*session), "Revoked", *at));
        }
        tx.commit().await?;
        for device in chosen.into_iter().rev() {
            let is_ended = ended.iter().any(|(session, _)| *session == id(self.devices[device].last));
            if is_ended {
                self.forget(device, age.is_young());
            } else {
                self.signed_out(device, false);
            }
        }
        Ok(())
    }

    /// An old token comes back: its session must be known as long as the device is signed in, however old it is.
    async fn check_reuse(&mut self) -> Result<()> {
        let chosen = self.device();
        let Device { rotated, last, above, age } = &self.devices[chosen];
        let (last, age) = (*last, *age);
        let older: Vec<u64> = rotated.iter().map(|(session, _)| *session).chain(*above).collect();
        if older.is_empty() {
            return self.refresh().await;
        }
        let token = older[self.rng.random_range(0..older.len())];
        let theft = self.rng.random_bool(0.2);
        let over = age.of(SESSIONS, &mut self.rng);
        let mut tx = self.conn.begin().await?;
        let found = statements::find_token(&mut tx, token).await?;
        let ended = if theft {
            statements::end_sessions(&mut tx, &[id(last)], "Revoked", over).await?
        } else {
            Vec::new()
        };
        if self.world.ledger.is_active(last)
            && !matches!(found.as_deref(), Some("Rotated" | "Revoked" | "Expired"))
        {
            self.world.violation(format!("session {}: gone above the living {}", id(token), id(last)));
        }
        for (_, at) in &ended {
            self.world.ledger.enter(|tables| tables.end_session(last, "Revoked", *at));
        }
        tx.commit().await?;
        if !ended.is_empty() {
            self.forget(chosen, age.is_young());
        }
        Ok(())
    }

    /// There is another device.
    pub(super) fn sign_in_on(&mut self, last: u64, above: u64, age: Age) {
        self.devices.push(Device { rotated: Vec::new(), last, above: Some(above), age });
    }

    /// A device's sessions, the last first, and what they hang below. Half of the time of a device that was hung below
    /// an old session just now.
    pub(super) fn family(&mut self) -> Vec<u64> {
        let hung =
            self.devices.iter().rposition(|device| device.above.is_some() && device.rotated.is_empty());
        let chosen = hung.filter(|_| self.rng.random_bool(0.5)).unwrap_or_else(|| self.device());
        let Device { rotated, last, above, .. } = &self.devices[chosen];
        let older = rotated.iter().rev().map(|(session, _)| *session);
        [*last].into_iter().chain(older).chain(*above).collect()
    }

    /// A session was found not to be in use any more: right, if it was ended by the expiry job.
    fn signed_out(&mut self, device: usize, is_there: bool) {
        let Device { last, age, .. } = self.devices[device];
        if self.world.ledger.is_active(last) {
            let how = if is_there { "ended" } else { "gone" };
            self.world.violation(format!("session {}: {how} while it was in use", id(last)));
        }
        self.forget(device, age.is_young());
    }

    /// A device is signed out; its sessions are remembered.
    fn forget(&mut self, device: usize, young: bool) {
        let Device { rotated, last, .. } = self.devices.swap_remove(device);
        for (session, young) in rotated.into_iter().chain([(last, young)]) {
            let remembered = if young { &mut self.young } else { &mut self.spent };
            remembered.sessions.push_back(session);
        }
        self.spent.shrink();
    }
}

impl Remembered {
    /// Forgets all but the last few.
    pub fn shrink(&mut self) {
        for rows in [&mut self.sessions, &mut self.requests] {
            rows.drain(..rows.len().saturating_sub(REMEMBERED));
        }
    }
}
