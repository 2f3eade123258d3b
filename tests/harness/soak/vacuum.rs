//! Housekeeping of the server, more eager than it would be by itself: the places of deleted rows are given to new ones
//! within moments, while workers still have the addresses of the old ones in their plans.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::sleep;

use super::world::World;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(200);

/// Vacuums both tables until everybody is told to stop; returns its connection.
pub(super) async fn work(world: Arc<World>, mut conn: PgConnection) -> PgConnection {
    const KIND: &str = "vacuum";
    const STATEMENT: &str =
        "VACUUM (TRUNCATE false) identity.refresh_sessions, identity.sign_in_confirmation_requests";
    while !world.is_stopping() {
        match sqlx::raw_sql(STATEMENT).execute(&mut conn).await {
            Ok(_) => world.operation(KIND),
            Err(error) => world.client_error("housekeeping", KIND, &error),
        }
        sleep(PAUSE).await;
    }
    conn
}
