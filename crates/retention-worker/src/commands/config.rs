//! `config`: the resolved settings.

use super::Exit;
use crate::cli::Output;
use crate::render::{ConfigRow, config_json, config_text};
use crate::settings::Settings;

pub(super) fn execute(settings: &Settings, output: Output) -> Exit {
    let rows: Vec<_> = settings
        .resolved()
        .into_iter()
        .map(|setting| ConfigRow {
            variable: setting.variable.to_owned(),
            value: setting.value.unwrap_or_default(),
            unit: setting.unit.to_owned(),
            source: setting.source.to_owned(),
        })
        .collect();
    output.print(|| config_text(&rows), || config_json(&rows));
    Exit::Done
}
