//! A migration written in SQL: the schema is a contract to the letter, so its letters are what is kept.

use sea_orm_migration::prelude::{
    ConnectionTrait, DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait,
};

/// One change of the schema, there and back. It runs in a transaction of its own.
#[derive(Clone, Copy, Hash)]
pub(crate) struct SqlMigration {
    /// The name under which it is recorded as applied: the module's.
    pub name: &'static str,
    /// Makes the change; fails if it is already there.
    pub up: &'static str,
    /// Takes exactly that change back; fails if somebody else's objects depend on it.
    pub down: &'static str,
}

impl MigrationName for SqlMigration {
    fn name(&self) -> &str {
        self.name
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait elides them, and async_trait wants the same spelling"
)]
#[async_trait::async_trait]
impl MigrationTrait for SqlMigration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.get_connection().execute_unprepared(self.up).await.map(drop)
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.get_connection().execute_unprepared(self.down).await.map(drop)
    }
}
