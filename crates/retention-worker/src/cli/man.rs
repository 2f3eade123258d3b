//! The manual pages, made from the command line's own definition, the help's texts and the table of settings.

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Cli;
use super::help::{self, Topic};
use crate::settings::table::{Setting, TABLE, Unset};

/// A page in roff: of the worker, or of the command of this name. `None` when there is no such command.
#[must_use]
pub fn page(command: Option<&str>) -> Option<String> {
    // `help` has no page: the pages are the help.
    let mut worker = Cli::command().disable_help_subcommand(true);
    worker.build();
    let topic = help::topic(command.unwrap_or_default())?;
    let command = match command {
        // Not `find_subcommand`, which knows aliases.
        Some(name) => worker.get_subcommands().find(|command| command.get_name() == name)?.clone(),
        None => worker,
    };
    // Written into memory, as UTF-8.
    let mut page = Vec::new();
    render(command, topic, &mut page).ok()?;
    String::from_utf8(page).ok()
}

fn render(command: Command, topic: &Topic, page: &mut Vec<u8>) -> std::io::Result<()> {
    let name = match topic.command {
        "" => "retention-worker".to_owned(),
        command => format!("retention-worker-{command}"),
    };
    let is_the_worker = topic.command.is_empty();
    // The sections below say what these say in plain text.
    let man = Man::new(command.display_name(name).after_help(None::<&str>).after_long_help(None::<&str>))
        .source(format!("retention-worker {}", env!("CARGO_PKG_VERSION")))
        .manual("Retention worker");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if is_the_worker {
        man.render_subcommands_section(page)?;
    }
    let mut roff = Roff::new();
    if is_the_worker {
        roff.control("SH", ["ENVIRONMENT"]);
        TABLE.iter().for_each(|setting| variable(&mut roff, setting));
        entry(&mut roff, "NO_COLOR", "when set and not empty: no colours, not even on a terminal");
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in topic.exits {
        entry(&mut roff, &code.to_string(), meaning);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, what) in topic.examples {
        entry(&mut roff, line, what);
    }
    roff.control("SH", ["NOTES"]);
    roff.text([roman(topic.note)]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(help::FURTHER)]);
    roff.to_writer(page)
}

fn variable(roff: &mut Roff, setting: &Setting) {
    let unset = match setting.unset {
        Unset::Refused { .. } => "required".to_owned(),
        Unset::Value(default) => format!("default: {default}"),
        Unset::Means { what, .. } => format!("not set: {what}"),
    };
    let meaning = format!("{} ({}; {}; {unset}).", setting.meaning, setting.unit, setting.allowed());
    entry(roff, setting.variable, &meaning);
}

fn entry(roff: &mut Roff, name: &str, meaning: &str) {
    roff.control("TP", []);
    roff.text([bold(name)]);
    roff.text([roman(meaning)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_s_page_has_every_setting_command_and_exit_code() {
        let page = page(None).unwrap();
        for section in
            ["NAME", "SYNOPSIS", "OPTIONS", "SUBCOMMANDS", "ENVIRONMENT", "\"EXIT STATUS\"", "EXAMPLES"]
        {
            assert!(page.contains(&format!(".SH {section}\n")), "{section}:\n{page}");
        }
        for setting in TABLE {
            assert!(page.contains(&format!("\\fB{}\\fR", setting.variable)), "{}", setting.variable);
        }
        for command in Cli::command().get_subcommands() {
            assert!(page.contains(&format!("retention\\-worker\\-{}", command.get_name())), "{page}");
        }
    }

    #[test]
    fn every_command_has_a_page_and_nothing_else_has() {
        for command in Cli::command().get_subcommands() {
            let page = page(Some(command.get_name())).unwrap();
            assert!(page.contains(&format!(".TH retention-worker-{} 1", command.get_name())), "{page}");
        }
        assert_eq!((page(Some("help")), page(Some("cleanse")), page(Some(""))), (None, None, None));
    }
}
