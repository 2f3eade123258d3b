//! Where a policy was declared, so that what only the database can find fault with is told with its line, too.

use std::collections::BTreeMap;

use retention_postgres::{Finding, Level};

/// Where a policy and the names in it stand in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file, as it was asked for.
    pub file: String,
    /// The line of its table.
    pub table: usize,
    /// The line of its archive; that of its ledger without one.
    pub destination: usize,
    /// The lines of its columns, by their names.
    pub columns: BTreeMap<String, usize>,
}

impl Origin {
    /// The finding, with the line that has to do with it.
    #[must_use]
    pub fn located(&self, mut finding: Finding) -> Finding {
        let line = match (finding.level, finding.id) {
            (Level::Error, "table-exists" | "table-kind") => Some(self.table),
            (Level::Error, "destination") => Some(self.destination),
            (Level::Error, "column-types") => {
                let named = |name: &str| finding.message.contains(&format!("column {name} "));
                self.columns.iter().find(|(name, _)| named(name)).map(|(_, line)| *line)
            }
            _ => None,
        };
        if let Some(line) = line.filter(|line| *line > 0) {
            finding.message = format!("{} ({}:{line})", finding.message, self.file);
        }
        finding
    }
}
