//! The expiry job of the identity service: another worker, which ends sessions in use past their end, in batches.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection, Result};
use tokio::time::sleep;

use super::ledger::number;
use super::statements;
use super::world::World;

/// Between two batches.
const PAUSE: Duration = Duration::from_millis(100);

/// Works until everybody is told to stop; returns its connection.
pub(super) async fn work(world: Arc<World>, mut conn: PgConnection) -> PgConnection {
    const KIND: &str = "expire a batch";
    while !world.is_stopping() {
        let open = world.gate.read().await;
        match batch(&world, &mut conn).await {
            Ok(()) => world.operation(KIND),
            Err(error) => world.client_error("expiry job", KIND, &error),
        }
        drop(open);
        sleep(PAUSE).await;
    }
    conn
}

async fn batch(world: &World, conn: &mut PgConnection) -> Result<()> {
    let mut tx = conn.begin().await?;
    let expired = statements::expire(&mut tx).await?;
    world.ledger.enter(|tables| {
        for (session, at) in &expired {
            tables.end_session(number(*session), "Expired", *at);
        }
    });
    tx.commit().await
}
