//! `config`: the resolved settings.

use super::Exit;
use crate::cli::Printer;
use crate::render::{config_json, config_text};
use crate::settings::Settings;

pub(super) fn execute(settings: &Settings, printer: Printer) -> Exit {
    let resolved = settings.resolved();
    printer.print(|| config_text(&resolved), || config_json(&resolved));
    Exit::Done
}
