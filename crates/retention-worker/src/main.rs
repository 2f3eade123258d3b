//! The worker's process: reads the command line and the environment, and exits with the contract's code.

use std::process::ExitCode;

use clap::Parser;
use retention_worker::cli::{Cli, result_is_lost};
use retention_worker::commands::{Exit, execute};

fn main() -> ExitCode {
    // Usage errors end here, with code 2.
    let cli = Cli::parse();
    match execute(cli, std::env::vars_os()) {
        // What was done is done, but nobody will know.
        Ok(Exit::Done) if result_is_lost() => ExitCode::from(Exit::Failed as u8),
        Ok(exit) => ExitCode::from(exit as u8),
        Err(message) => {
            // Not through the log: it may not be set up yet, and its level may hide the message.
            #[expect(clippy::print_stderr, reason = "errors of usage go to stderr as they are")]
            {
                eprintln!("{message}");
            }
            ExitCode::from(2)
        }
    }
}
