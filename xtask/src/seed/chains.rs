//! Refresh sessions: rotation chains in memory, each row linked to its parent, and in which order they go in.
//!
//! A rotation is one instant: the parent's `updated_at` and the child's `created_at`.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

use super::copy::{CopyBuffer, Table};
use super::plan::{self, Family, Form};
use super::seeded::TableCounts;
use super::shape::{DAY, Micros, Moments, Order, Shape, Stream};
use super::synthetic;
use super::timeline::Timeline;
use super::users::Users;

/// Where refresh sessions go.
pub const TABLE: Table = Table {
    name: "identity.refresh_sessions",
    columns: &[
        "id",
        "user_id",
        "token_hash",
        "parent_session_id",
        "status",
        "ip_address",
        "user_agent",
        "created_at",
        "updated_at",
        "expires_at",
    ],
};

/// All refresh sessions of a shape.
pub struct Forest {
    /// What the rows amount to.
    pub counts: TableCounts,
    /// Number of chains, trees included.
    pub chains: u64,
    /// Chain by chain, from the root down: a row is addressed by its place here.
    rows: Vec<Row>,
}

struct Row {
    id: Uuid,
    parent: Option<u32>,
    user: u32,
    status: Status,
    created_at: Micros,
    updated_at: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Active,
    Rotated,
    Revoked,
    Expired,
}

impl Forest {
    /// Makes every chain of the shape.
    ///
    /// # Errors
    ///
    /// When the shape asks for too many rows.
    pub fn grow(shape: &Shape, moments: &Moments) -> anyhow::Result<Self> {
        let groups = plan::groups(shape)?;
        let rows = groups.iter().map(|group| group.chains as usize * group.form.rows() as usize).sum();
        let mut forest = Self { counts: TableCounts::default(), chains: 0, rows: Vec::with_capacity(rows) };
        let mut rng = shape.rng(Stream::Chains);
        for group in groups {
            for _ in 0..group.chains {
                let user = rng.random_range(0..shape.users);
                let timeline = Timeline::draw(group.family, group.form.rows(), moments, &mut rng);
                let first = forest.rows.len();
                forest.push_chain(group.family, group.form, user, &timeline, &mut rng);
                forest.count_from(first, moments.refresh_cutoff);
            }
        }
        Ok(forest)
    }

    /// The places of all rows in the order in which they are to be inserted.
    pub fn insertion_order(&self, shape: &Shape) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.rows.len()).collect();
        match shape.order {
            Order::Age => order.sort_by_cached_key(|&place| self.rows[place as usize].created_at),
            Order::Random => order.shuffle(&mut shape.rng(Stream::Shuffle)),
        }
        order
    }

    /// Writes the fields of [`TABLE`] for the row at `place`.
    pub fn write(&self, place: u32, users: &Users, moments: &Moments, out: &mut CopyBuffer) {
        let row = &self.rows[place as usize];
        out.uuid(row.id);
        out.uuid(users.id(row.user));
        out.bytes(&synthetic::hash(row.id));
        out.optional_uuid(row.parent.map(|parent| self.rows[parent as usize].id));
        out.text(row.status.name());
        out.optional_inet(synthetic::address(row.id));
        out.optional_text(synthetic::agent(row.id));
        out.timestamp(row.created_at);
        out.timestamp(row.updated_at);
        out.timestamp(row.expires_at(moments.now));
    }

    fn push_chain(
        &mut self,
        family: Family,
        form: Form,
        user: u32,
        timeline: &Timeline,
        rng: &mut ChaCha8Rng,
    ) {
        #[expect(clippy::cast_possible_truncation, reason = "a plan has at most MAX_ROWS rows")]
        let first = self.rows.len() as u32;
        for position in 0..form.rows() {
            let parent = form.parent(position).map(|parent| first + parent);
            let updated_at = timeline.instant(position, rng);
            let created_at = match parent {
                Some(parent) => self.rows[parent as usize].updated_at,
                None => updated_at - 1 - rng.random_range(0..timeline.width.min(DAY)),
            };
            let status = if form.is_leaf(position) { Status::of_leaf(family, rng) } else { Status::Rotated };
            self.rows.push(Row { id: synthetic::id(rng), parent, user, status, created_at, updated_at });
        }
        self.chains += 1;
    }

    /// Counts the chain that starts at `first`, straight from the definitions: a due row is blocked if one
    /// below it is not due.
    fn count_from(&mut self, first: usize, cutoff: Micros) {
        let chain = &self.rows[first..];
        let mut held = vec![false; chain.len()];
        for (position, row) in chain.iter().enumerate().rev() {
            let due = row.status != Status::Active && row.updated_at < cutoff;
            self.counts.rows += 1;
            self.counts.deletable += u64::from(due && !held[position]);
            self.counts.blocked += u64::from(due && held[position]);
            if let Some(parent) = row.parent {
                held[parent as usize - first] |= held[position] || !due;
            }
        }
    }
}

impl Row {
    fn expires_at(&self, now: Micros) -> Micros {
        // One to thirty days, without drawing another number.
        let left = DAY + Micros::from(self.id.as_fields().0 % (29 * 86_400)) * 1_000_000;
        match self.status {
            Status::Expired => self.updated_at,
            Status::Active => now + left,
            Status::Rotated | Status::Revoked => self.updated_at + left,
        }
    }
}

impl Status {
    fn of_leaf(family: Family, rng: &mut ChaCha8Rng) -> Self {
        let choices: &[Self] = match family {
            Family::Due => &[Self::Rotated, Self::Revoked, Self::Expired],
            Family::Active => &[Self::Active],
            Family::Fresh => {
                &[Self::Active, Self::Active, Self::Active, Self::Rotated, Self::Revoked, Self::Expired]
            }
        };
        choices.choose(rng).copied().unwrap_or(Self::Active)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Rotated => "Rotated",
            Self::Revoked => "Revoked",
            Self::Expired => "Expired",
        }
    }
}

#[cfg(test)]
mod tests;
