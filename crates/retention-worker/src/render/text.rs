//! How numbers, ages and foreign words look in text for people.

use std::borrow::Cow;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

/// Widest line of a table.
const COLUMNS: u16 = 100;

/// A number with its thousands apart: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `2,000 rows`.
pub(super) fn rows(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "row" } else { "rows" })
}

/// An age in days with one decimal, cut off: `100.0 d`. Below a tenth of a day: `< 0.1 d`.
pub(crate) fn days(seconds: u64) -> String {
    match seconds / 8_640 {
        0 => "< 0.1 d".to_owned(),
        tenths => format!("{}.{} d", grouped(tenths / 10), tenths % 10),
    }
}

/// What stands for a number that is not known, or does not apply.
pub(super) const NONE: &str = "-";

/// Text without control characters: what others wrote cannot break a line or steer a terminal.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| {
        if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// A rule under the header and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A table of numbers: the first column is names, all others are right-aligned.
pub(super) fn numbers<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = table(rows);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            // Headers may break, names may not.
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A table of words, of which only the second column wraps: names stay whole.
pub(super) fn words<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = table(rows);
    table.set_header(header);
    for (_, column) in table.column_iter_mut().enumerate().filter(|(index, _)| *index != 1) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.trim_fmt()
}

/// Sentences beside the name of what they are about. Each begins a line, and wraps.
pub(super) fn remarks(remarks: impl IntoIterator<Item = (String, Vec<String>)>) -> String {
    let beside = |(name, lines): (String, Vec<String>)| {
        let name = std::iter::once(name).chain(std::iter::repeat(String::new()));
        lines.into_iter().zip(name).map(|(line, name)| [name, line]).collect::<Vec<_>>()
    };
    table(remarks.into_iter().flat_map(beside)).trim_fmt()
}

fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| plain(&cell).into_owned())));
    table
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0")]
    #[case(999, "999")]
    #[case(1_000, "1,000")]
    #[case(123_456, "123,456")]
    #[case(u64::MAX, "18,446,744,073,709,551,615")]
    fn thousands_stand_apart(#[case] number: u64, #[case] text: &str) {
        assert_eq!(grouped(number), text);
    }

    #[rstest]
    #[case(0, "< 0.1 d")]
    #[case(8_639, "< 0.1 d")]
    #[case(8_640, "0.1 d")]
    #[case(86_399, "0.9 d")]
    #[case(86_400, "1.0 d")]
    #[case(8_640_000, "100.0 d")]
    #[case(100_000_000, "1,157.4 d")]
    fn ages_are_days_never_rounded_up(#[case] seconds: u64, #[case] text: &str) {
        assert_eq!(days(seconds), text);
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(plain("a\u{1b}[2Jb\r\nc"), "a\\u{1b}[2Jb\\r\\nc");
        assert_eq!(plain("grüße — ok"), "grüße — ok");
    }
}
