//! The schema of the identity service, for development, tests and new installations.
//!
//! Owns the order of the migrations and the way they are applied by several processes at once. Owns no index
//! that only the retention worker wants: that one is `deploy/postgres/retention-index.sql`. In production the
//! identity service owns the tables; the worker itself never runs any of this.

mod lock;
mod m20260101_000001_create_users;
mod m20260101_000002_create_sign_in_confirmation_requests;
mod m20260101_000003_create_refresh_sessions;
mod sql_migration;

use std::hash::{DefaultHasher, Hash, Hasher};

use sea_orm_migration::prelude::{
    ConnectionTrait, DbErr, IntoSchemaManagerConnection, MigrationTrait, MigratorTrait, async_trait,
};
use sea_orm_migration::sea_orm::{ConnectOptions, Database};

pub use crate::lock::MigrationLock;
use crate::sql_migration::SqlMigration;

/// All migrations, oldest first. Append only: an entry that was released is never changed.
const MIGRATIONS: [SqlMigration; 3] = [
    m20260101_000001_create_users::MIGRATION,
    m20260101_000002_create_sign_in_confirmation_requests::MIGRATION,
    m20260101_000003_create_refresh_sessions::MIGRATION,
];

/// The list of migrations in the form SeaORM asks for.
///
/// It takes no lock by itself: whoever runs it holds a [`MigrationLock`] of the same database.
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        MIGRATIONS.iter().map(|&migration| Box::new(migration) as Box<dyn MigrationTrait>).collect()
    }

    /// Drops what these migrations made, whatever state it is in, and makes it again.
    ///
    /// The stock version drops every table of the search path: the tables of the schema `identity` would stay
    /// and strangers in `public` would go.
    async fn fresh<'c, C>(db: C) -> Result<(), DbErr>
    where
        C: IntoSchemaManagerConnection<'c>,
    {
        let db = db.into_database_executor();
        db.execute_unprepared(
            "DROP SCHEMA IF EXISTS identity CASCADE; DROP TABLE IF EXISTS seaql_migrations",
        )
        .await?;
        Self::up(db, None).await
    }
}

/// Applies every pending migration to the database of `url`; several callers at once wait for each other.
///
/// # Errors
///
/// When the database cannot be reached or refuses a statement. A migration that fails leaves no trace, those
/// before it stay applied.
pub async fn up(url: &str) -> Result<(), DbErr> {
    let lock = MigrationLock::acquire(url).await?;
    let mut options = ConnectOptions::new(url);
    options.set_schema_search_path("public").max_connections(1).sqlx_logging(false);
    let database = Database::connect(options).await?;
    Migrator::up(&database, None).await?;
    database.close().await?;
    lock.release().await
}

/// A number that differs as soon as a migration differs, so that a prepared database can be told outdated.
#[must_use]
pub fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    MIGRATIONS.hash(&mut hasher);
    hasher.finish()
}
