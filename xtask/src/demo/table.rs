//! Tables of the demo.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A rule under the header and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A table whose first column is names and whose others are mostly numbers.
pub fn numbers<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
