//! The command line of `bench`.

use std::path::PathBuf;

use super::scenarios::Name;

const EXAMPLES: &str = "\
Examples:
  Everything, in about an hour:
    cargo xtask bench
  One thing, small, to see whether a change helps:
    cargo xtask bench --scenario sicr chains-10 --rows 200000
  Ratios that show a regression of kind, in a few minutes:
    cargo xtask bench --quick

Without --database-url a server is found as for the demo. On a server that is given, databases are made for the purpose
and dropped again; its settings stay as they are, and are written down.";

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to measure; everything unless named
    #[arg(long, value_enum, value_name = "NAME", num_args = 1..)]
    pub scenario: Vec<Name>,
    /// Due rows that a scenario of one million rows has; the others keep their proportion to it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10_000..=10_000_000))]
    pub rows: Option<u32>,
    /// Measure little, judge by loose limits, and fail when one does not hold
    #[arg(long)]
    pub quick: bool,
    /// Folder for bench.json and bench.html
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,
    /// Server to measure on, as a superuser: a database of it, which is left alone
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
}
