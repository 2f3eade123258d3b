//! SeaORM's own migration command line (`up`, `down`, `fresh`, `status`, …), one process at a time.

use migrations::{MigrationLock, Migrator};
use sea_orm_migration::cli;
use sea_orm_migration::sea_orm::{ConnectOptions, Database, DatabaseConnection, DbErr};

#[tokio::main]
async fn main() {
    let mut lock = None;
    let held = &mut lock;
    cli::run_cli_with_connection(Migrator, |options| async move {
        let (lock, database) = connect_alone(options).await.unwrap_or_else(|error| {
            eprintln!("the database to migrate cannot be used: {error}");
            std::process::exit(1)
        });
        *held = Some(lock);
        Ok(database)
    })
    .await;
    // Only here to outlive the run above: the lock goes when the process does.
    drop(lock);
}

async fn connect_alone(mut options: ConnectOptions) -> Result<(MigrationLock, DatabaseConnection), DbErr> {
    let lock = MigrationLock::acquire(options.get_url()).await?;
    options.max_connections(1);
    Ok((lock, Database::connect(options).await?))
}
