//! Commands for developers: `cargo xtask <command>`. Each is one module with one `run`; nothing else is here.

mod seed;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    about = "Commands for developers of the retention worker"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fill a database with synthetic rows for capacity checks
    Seed(Box<seed::Args>),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Seed(args) => seed::run(*args).await,
    }
}
