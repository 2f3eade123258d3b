//! Declared policies: a TOML file, read into policies as values. Conditions are structured and their values typed; there
//! is no place for SQL. Everything that is wrong with a file is reported together, each fault with its line. What only
//! the database knows (are there such columns, of which types) is the business of `check` and of the run.

mod condition;
mod declaration;
mod fault;
#[cfg(test)]
mod handbook;
mod keys;
mod names;
mod origin;
mod rules;
#[cfg(test)]
mod tests;
mod value;

use std::path::Path;

use retention_domain::{RetentionPeriod, RetentionPolicy};
use toml::de::{DeTable, DeValue};

use self::declaration::Draft;
use self::fault::Sink;
use self::keys::Keys;

pub use fault::{PolicyFault, PolicyFaults};
pub use names::table_name;
pub use origin::Origin;
pub(crate) use rules::built_in_tables;

/// A policy as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The policy.
    pub policy: RetentionPolicy,
    /// The shortest retention that `cleanup` accepts for it. Never longer than the policy's own.
    pub minimum: RetentionPeriod,
    /// Where it stands.
    pub origin: Origin,
}

/// Reads the file at `path`: its policies in their order, none for an empty file.
///
/// # Errors
/// Everything that is wrong with it, together; a file that cannot be read has one fault.
pub fn load(path: &Path) -> Result<Vec<Declared>, PolicyFaults> {
    let file = path.display().to_string();
    let unreadable = |why: String| PolicyFaults::unreadable(&file, &why);
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    parse(&file, &text)
}

/// Reads the text of the file called `file`.
///
/// # Errors
/// Everything that is wrong with it, together.
pub fn parse(file: &str, text: &str) -> Result<Vec<Declared>, PolicyFaults> {
    let mut faults = Sink::new(file, text);
    let (root, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        let at = error.span().map_or(0, |span| span.start);
        faults.push(at, format!("not TOML: {}", error.message().replace('\n', ", ")));
    }
    // What a broken file was recovered to would only bring faults that are none.
    if !broken.is_empty() {
        return Err(faults.into_faults());
    }
    let mut root = Keys::new(root.get_ref(), 0, String::new(), &["policy"], &mut faults);
    let tables = root.optional("policy", "tables, each headed [[policy]]", |value| match value {
        DeValue::Array(array) => Ok(array.iter().collect::<Vec<_>>()),
        _ => Err("not a list of tables".to_owned()),
    });
    let drafts: Vec<_> = tables
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, table)| Draft::read(index, table, &mut faults))
        .collect();
    rules::check(&drafts, &mut faults);
    if faults.is_empty() {
        Ok(drafts.into_iter().filter_map(|draft| draft.declared).collect())
    } else {
        Err(faults.into_faults())
    }
}
