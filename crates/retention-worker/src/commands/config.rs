//! `config`: the resolved settings.

use super::Exit;
use crate::cli::Output;
use crate::render::{config_json, config_text};
use crate::settings::Settings;

pub(super) fn execute(settings: &Settings, output: Output) -> Exit {
    let resolved = settings.resolved();
    output.print(|| config_text(&resolved), || config_json(&resolved));
    Exit::Done
}
