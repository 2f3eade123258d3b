//! The lock that lets only one process at a time migrate a database.
//!
//! SeaORM's migrator takes none: two of them on an empty database fail on each other's half-made objects,
//! starting with the table of applied migrations itself.

use std::sync::Arc;

use sea_orm_migration::sea_orm::sqlx::{self, Connection, PgConnection};
use sea_orm_migration::sea_orm::{DbErr, RuntimeErr};

/// "migrator" in ASCII. Any number does, as long as nobody else in the same database uses it.
const KEY: i64 = 0x6d69_6772_6174_6f72;

/// Held by the process that migrates; the others wait in [`MigrationLock::acquire`].
///
/// # Invariant
///
/// It is an advisory lock of the session of a connection of its own, because a pool may close or swap its
/// connections at any time. It is gone with that connection, so also when the process is killed. A pooler in
/// transaction mode breaks it: migrate over a direct connection.
#[must_use = "the lock is released when this is dropped"]
pub struct MigrationLock(PgConnection);

impl MigrationLock {
    /// Waits until no other process migrates the database of `url`.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or a timeout set for the role or database ends the wait.
    pub async fn acquire(url: &str) -> Result<Self, DbErr> {
        let mut connection = PgConnection::connect(url).await.map_err(lock_error)?;
        sqlx::query("SELECT pg_advisory_lock($1)")
            .bind(KEY)
            .execute(&mut connection)
            .await
            .map_err(lock_error)?;
        Ok(Self(connection))
    }

    /// Lets the next one in, and returns when the connection is closed.
    ///
    /// # Errors
    ///
    /// When the connection was lost meanwhile, which released the lock as well.
    pub async fn release(self) -> Result<(), DbErr> {
        self.0.close().await.map_err(lock_error)
    }
}

fn lock_error(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}
