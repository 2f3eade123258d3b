//! The command line of `seed`, and its translation into a [`Shape`]; ranges are checked there.

use std::time::Duration;

use clap::ArgAction;
use retention_domain::period::parse_duration;

use super::shape::{Depths, Order, Shape};

const EXAMPLES: &str = "\
Examples:
  A million refresh sessions in chains of ten, all due, and a million due confirmation requests:
    cargo xtask seed --refresh-due 1000000 --depth 10 --sicr-due 1000000
  Half of the rows single, most others in short chains, a tenth in very deep ones; some small trees:
    cargo xtask seed --refresh-due 100000 --depths 1:0.5,10:0.4,1000:0.1 --forks 0.05
  A table in use: one old chain in five is still signed in and blocks its old rows; with the index:
    cargo xtask seed --refresh-due 500000 --active-share 0.2 --refresh-fresh 200000 --with-index

The tables must exist (cargo run -p migrations -- up) and be empty.
Printed is what one run is expected to do: true for a day, with the default retention periods.";

/// Options of `cargo xtask seed`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Database to fill
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Confirmation requests older than 30 days
    #[arg(long, value_name = "N", default_value_t = 0)]
    sicr_due: u32,
    /// Confirmation requests that are younger
    #[arg(long, value_name = "N", default_value_t = 0)]
    sicr_fresh: u32,
    /// Refresh sessions in chains whose rows are all terminal and older than 90 days
    #[arg(long, value_name = "N", default_value_t = 0)]
    refresh_due: u32,
    /// Refresh sessions in chains whose rows are all younger
    #[arg(long, value_name = "N", default_value_t = 0)]
    refresh_fresh: u32,
    /// Rows per chain
    #[arg(long, value_name = "D", default_value_t = 10, conflicts_with = "depths")]
    depth: u32,
    /// Share of the rows per depth, as DEPTH:SHARE,DEPTH:SHARE,...; the shares add up to 1
    #[arg(long, value_name = "SHARES")]
    depths: Option<Depths>,
    /// Share of the chains that are small trees: seven rows, two forks
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    forks: f64,
    /// Share of the chains with old rows that end in an Active session, so that their old rows are blocked; they
    /// come on top of --refresh-due
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    active_share: f64,
    /// Due rows are this much older than their cutoff at most, as 365d or 12h
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = parse_duration)]
    age_span: Duration,
    /// Users that own the rows
    #[arg(long, value_name = "N", default_value_t = 1000)]
    users: u32,
    /// Physical order of the rows
    #[arg(long, value_enum, default_value_t = Order::Age)]
    order: Order,
    /// Create the optional index of deploy/postgres/retention-index.sql afterwards
    #[arg(long)]
    with_index: bool,
    /// Equal seeds and options make equal rows, with ages measured from the database's clock
    #[arg(long, value_name = "U64", default_value_t = 1)]
    seed: u64,
    /// VACUUM (ANALYZE) the tables afterwards
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    analyze: bool,
    /// Add to tables that hold rows already; needs another seed than they were made with
    #[arg(long)]
    append: bool,
}

impl Args {
    /// The address of the database and what to fill it with.
    ///
    /// # Errors
    ///
    /// When the depth is out of range.
    pub fn into_parts(self) -> anyhow::Result<(String, Shape)> {
        let shape = Shape {
            sicr_due: self.sicr_due,
            sicr_fresh: self.sicr_fresh,
            refresh_due: self.refresh_due,
            refresh_fresh: self.refresh_fresh,
            depths: self.depths.map_or_else(|| Depths::uniform(self.depth), Ok)?,
            forks: self.forks,
            active_share: self.active_share,
            age_span: self.age_span,
            users: self.users,
            order: self.order,
            seed: self.seed,
            append: self.append,
            with_index: self.with_index,
            analyze: self.analyze,
        };
        Ok((self.database_url, shape))
    }
}
