//! What happens to the workers, in an order that the seed decides.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sqlx::PgConnection;
use tokio::time::sleep;

use super::fleet::{Fleet, Order};
use super::world::World;

/// How bad it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// Processes are killed and connections cut, every half second or so.
    Storm,
    /// Processes are told to stop, or paused, every second or so; nothing is lost by that.
    Calm,
}

/// The source of faults.
pub(super) struct Faults {
    rng: ChaCha8Rng,
    admin: PgConnection,
    /// Connections cut so far.
    pub cut: u64,
}

impl Faults {
    /// Cuts connections over `admin`, which needs the right to.
    pub fn new(rng: ChaCha8Rng, admin: PgConnection) -> Self {
        Self { rng, admin, cut: 0 }
    }

    /// Waits a moment, then lets one fault happen.
    pub async fn strike(&mut self, world: &World, fleet: &Fleet, weather: Weather) -> Result<()> {
        let longest = if weather == Weather::Storm { 800 } else { 1600 };
        sleep(Duration::from_millis(self.rng.random_range(100..longest))).await;
        let worker = self.rng.random_range(0..fleet.size());
        let pause = Order::Pause(Duration::from_millis(self.rng.random_range(100..1000)));
        match (weather, self.rng.random_range(0..100)) {
            (Weather::Storm, 0..35) => fleet.order(worker, Order::Kill).await,
            (Weather::Storm, 35..75) => {
                if self.cut().await? {
                    self.cut += 1;
                    world.fault("pg_terminate_backend");
                }
            }
            (_, 75..88) => fleet.order(worker, pause).await,
            _ => fleet.order(worker, Order::Terminate).await,
        }
        Ok(())
    }

    /// Cuts a connection of a worker, one at work if there is one.
    async fn cut(&mut self) -> Result<bool> {
        let cut: Option<bool> = sqlx::query_scalar(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
             AND application_name = 'SessionRetentionJob' ORDER BY state = 'idle', random() LIMIT 1",
        )
        .fetch_optional(&mut self.admin)
        .await?;
        Ok(cut == Some(true))
    }
}
