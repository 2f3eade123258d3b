//! Colours for text on a terminal. They repeat what the words say, for the eye: without them nothing is missing.

use std::ffi::OsStr;

use anstyle::{AnsiColor, Style};

/// Words that say how something stands, wherever a line or a cell begins with one.
const WORDS: [(&str, AnsiColor); 8] = [
    ("ok", AnsiColor::Green),
    ("drained", AnsiColor::Green),
    ("warning", AnsiColor::Yellow),
    ("rows_held", AnsiColor::Yellow),
    ("max_run_duration", AnsiColor::Yellow),
    ("window_closed", AnsiColor::Yellow),
    ("shutdown", AnsiColor::Yellow),
    ("error", AnsiColor::Red),
];

/// Whether text may be coloured: on a terminal that knows colours, and unless somebody asked for none. A variable
/// that is empty asks for nothing.
#[must_use]
pub fn colours(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// The same text with colours: states, and the heads of tables.
#[must_use]
pub fn painted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let painted = lines.iter().enumerate().map(|(place, line)| {
        if line.starts_with('─') {
            styled(line, Style::new().dimmed())
        } else if lines.get(place + 1).is_some_and(|next| next.starts_with('─')) {
            styled(line, Style::new().bold())
        } else {
            states(line)
        }
    });
    painted.collect::<Vec<_>>().join("\n")
}

/// The line with its states coloured: where it begins, and in the second column of a remark.
fn states(line: &str) -> String {
    for (word, colour) in WORDS {
        for (place, _) in line.match_indices(word) {
            let (before, rest) = (&line[..place], &line[place + word.len()..]);
            let begins_a_line = before.is_empty() || before.ends_with("  ");
            if begins_a_line && (rest.starts_with(':') || (before == "  " && rest.starts_with("  "))) {
                return format!(
                    "{before}{}{rest}",
                    styled(word, Style::new().fg_color(Some(colour.into())).bold())
                );
            }
        }
    }
    line.to_owned()
}

fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_terminal(true, None, Some("xterm"), true)]
    #[case::a_terminal_of_no_name(true, None, None, true)]
    #[case::a_pipe(false, None, Some("xterm"), false)]
    #[case::none_asked_for(true, Some("1"), Some("xterm"), false)]
    #[case::whatever_the_value(true, Some("0"), Some("xterm"), false)]
    #[case::an_empty_variable(true, Some(""), Some("xterm"), true)]
    #[case::a_dumb_terminal(true, None, Some("dumb"), false)]
    fn colours_are_for_terminals_that_want_them(
        #[case] terminal: bool,
        #[case] no_color: Option<&str>,
        #[case] term: Option<&str>,
        #[case] coloured: bool,
    ) {
        assert_eq!(colours(terminal, no_color.map(OsStr::new), term.map(OsStr::new)), coloured);
    }

    /// The text without what a terminal obeys.
    fn stripped(text: &str) -> String {
        let mut parts = text.split('\u{1b}');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |text, part| text + &part[part.find('m').unwrap() + 1..])
    }

    #[rstest]
    #[case("  error     role x lacks DELETE   refresh   rights", 1)]
    #[case("  refresh   error: deleting a batch (23503)", 1)]
    #[case("            warning: 1 row without a usable date", 1)]
    #[case("  level   finding\n──────\n  ok      no error: it is fine", 3)]
    #[case("  a table with an error in it", 0)]
    #[case("1 error, 1 warning", 0)]
    fn states_and_heads_are_coloured_and_the_words_stay(#[case] text: &str, #[case] coloured: usize) {
        let painted = painted(text);
        assert_eq!(painted.matches("\u{1b}[0m").count(), coloured, "{painted:?}");
        assert_eq!(stripped(&painted), text);
    }
}
