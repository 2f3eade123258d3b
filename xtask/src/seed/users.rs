//! The owners of all rows.

use uuid::Uuid;

use super::copy::{CopyBuffer, Table};
use super::shape::{DAY, Micros, Moments, Shape, Stream};
use super::synthetic;

/// Where users go.
pub const TABLE: Table = Table { name: "identity.users", columns: &["id", "created_at"] };

/// The users of one fill.
pub struct Users {
    ids: Vec<Uuid>,
    created_at: Micros,
}

impl Users {
    /// As many users as the shape asks for, older than everything they own.
    pub fn make(shape: &Shape, moments: &Moments) -> Self {
        let mut rng = shape.rng(Stream::Users);
        Self {
            ids: (0..shape.users).map(|_| synthetic::id(&mut rng)).collect(),
            created_at: moments.refresh_cutoff - moments.age_span - 2 * DAY,
        }
    }

    /// Number of users.
    pub fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    /// The user with this number, which must be below [`Users::len`].
    pub fn id(&self, number: u32) -> Uuid {
        self.ids[number as usize]
    }

    /// Every user with what [`Users::write`] needs.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, Micros)> {
        self.ids.iter().map(|&id| (id, self.created_at))
    }

    /// Writes the fields of [`TABLE`].
    pub fn write((id, created_at): (Uuid, Micros), out: &mut CopyBuffer) {
        out.uuid(id);
        out.timestamp(created_at);
    }
}
