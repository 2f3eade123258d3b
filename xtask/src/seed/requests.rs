//! Confirmation requests: independent rows, made one at a time while they are sent.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

use super::copy::{CopyBuffer, Table};
use super::seeded::TableCounts;
use super::shape::{MARGIN, Micros, Moments, Order, Shape, Stream};
use super::synthetic;
use super::users::Users;

/// Where confirmation requests go.
pub const TABLE: Table = Table {
    name: "identity.sign_in_confirmation_requests",
    columns: &[
        "id",
        "user_id",
        "phone_number",
        "code_hash",
        "status",
        "attempts",
        "ip_address",
        "user_agent",
        "created_at",
        "expires_at",
    ],
};

/// A code lives five minutes.
const CODE_LIFETIME: Micros = 5 * 60 * 1_000_000;

const STATUSES: [&str; 5] = ["Pending", "Confirmed", "Expired", "Exhausted", "Superseded"];

/// One row. Its status is drawn without regard to its age: the rule does not look at it.
pub struct Request {
    id: Uuid,
    user: Option<Uuid>,
    status: &'static str,
    attempts: i32,
    pub(super) created_at: Micros,
}

/// All requests of a shape, in the order of insertion.
pub struct Requests<'a> {
    /// What the rows handed out so far amount to.
    pub counts: TableCounts,
    due: Slots,
    fresh: Slots,
    /// Numbers still to be handed out in another order than their own.
    shuffled: Option<std::vec::IntoIter<u32>>,
    next: u32,
    cutoff: Micros,
    users: &'a Users,
    user_count: u32,
    rng: ChaCha8Rng,
}

/// Equal slices of a stretch of time, one for each row, so that rows come out in order of age.
struct Slots {
    start: Micros,
    width: Micros,
    count: u32,
}

impl<'a> Requests<'a> {
    /// The requests of this shape.
    pub fn new(shape: &Shape, moments: &Moments, users: &'a Users) -> Self {
        let mut rng = shape.rng(Stream::Requests);
        let cutoff = moments.sicr_cutoff;
        let shuffled = (shape.order == Order::Random).then(|| {
            let mut numbers: Vec<u32> = (0..shape.sicr_due + shape.sicr_fresh).collect();
            numbers.shuffle(&mut rng);
            numbers.into_iter()
        });
        Self {
            counts: TableCounts::default(),
            due: Slots::over(cutoff - moments.age_span, cutoff, shape.sicr_due),
            fresh: Slots::over(cutoff + MARGIN, moments.now, shape.sicr_fresh),
            shuffled,
            next: 0,
            cutoff,
            users,
            user_count: shape.users,
            rng,
        }
    }

    /// How many rows there are in all.
    pub fn total(&self) -> u32 {
        self.due.count + self.fresh.count
    }
}

impl Iterator for Requests<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let number = match &mut self.shuffled {
            Some(numbers) => numbers.next()?,
            None => (self.next < self.total()).then_some(self.next)?,
        };
        self.next += 1;
        let created_at = match number.checked_sub(self.due.count) {
            None => self.due.instant(number, &mut self.rng),
            Some(number) => self.fresh.instant(number, &mut self.rng),
        };
        self.counts.rows += 1;
        self.counts.deletable += u64::from(created_at < self.cutoff);
        // One in ten belongs to nobody: the code was sent before an account existed.
        let owned = self.rng.random_ratio(9, 10);
        Some(Request {
            id: synthetic::id(&mut self.rng),
            user: owned.then(|| self.users.id(self.rng.random_range(0..self.user_count))),
            status: STATUSES.choose(&mut self.rng).copied().unwrap_or(STATUSES[0]),
            attempts: self.rng.random_range(0..=5),
            created_at,
        })
    }
}

impl Request {
    /// Writes the fields of [`TABLE`].
    pub fn write(&self, out: &mut CopyBuffer) {
        out.uuid(self.id);
        out.optional_uuid(self.user);
        out.text(&synthetic::phone(self.id));
        out.bytes(&synthetic::hash(self.id));
        out.text(self.status);
        out.integer(self.attempts);
        out.optional_inet(synthetic::address(self.id));
        out.optional_text(synthetic::agent(self.id));
        out.timestamp(self.created_at);
        out.timestamp(self.created_at + CODE_LIFETIME);
    }
}

impl Slots {
    fn over(start: Micros, end: Micros, count: u32) -> Self {
        Self { start, width: (end - start) / Micros::from(count.max(1)), count }
    }

    fn instant(&self, number: u32, rng: &mut ChaCha8Rng) -> Micros {
        self.start + Micros::from(number) * self.width + rng.random_range(0..self.width)
    }
}
