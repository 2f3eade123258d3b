//! Commands for developers: `cargo xtask <command>`. Each is one module with one `run`; nothing else is here.

mod bench;
mod ci;
mod demo;
mod mutants;
mod seed;
mod soak;
mod test;
mod tidy;

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
    /// Measure how fast the worker is and what it costs others, beside something to compare it with
    Bench(bench::Args),
    /// Run everything that a change must pass: .ci/run
    Ci,
    /// Watch the worker at work on a database of its own, and prove that exactly the right rows went
    Demo(demo::Args),
    /// Change the rules and the statements one place at a time, and count the changes that no test notices
    Mutants(mutants::Args),
    /// Fill a database with synthetic rows for capacity checks
    Seed(Box<seed::Args>),
    /// Let several workers meet online traffic and faults for as long as you like, and prove that the right rows went
    Soak(soak::Args),
    /// Run the tests that need a server on one version of PostgreSQL
    Test(test::Args),
    /// Check rules about the project's files that no compiler checks
    Tidy,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(args).await,
        Command::Ci => ci::run(),
        Command::Demo(args) => demo::run(args).await,
        Command::Mutants(args) => mutants::run(&args),
        Command::Seed(args) => seed::run(*args).await,
        Command::Soak(args) => soak::run(args).await,
        Command::Test(args) => test::run(&args),
        Command::Tidy => tidy::run(),
    }
}
