//! Reads the keys of one table. Whatever is wrong becomes a fault at its own line, and reading goes on.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Sink;

/// The keys of a table.
pub(super) struct Keys<'a, 'f, 's> {
    table: &'a DeTable<'a>,
    faults: &'f mut Sink<'s>,
    /// What every fault begins with, such as `policy "outbox": `.
    subject: String,
    /// Where the table begins.
    at: usize,
}

impl<'a, 'f, 's> Keys<'a, 'f, 's> {
    /// The keys of `table`, of which only those of `known` may be there.
    pub(super) fn new(
        table: &'a DeTable<'a>,
        at: usize,
        subject: String,
        known: &[&str],
        faults: &'f mut Sink<'s>,
    ) -> Self {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let problem = format!(
                    "{subject}unknown key {name:?}{}; allowed is {}",
                    hint(name, known),
                    known.join(", ")
                );
                faults.push(key.span().start, problem);
            }
        }
        Self { table, faults, subject, at }
    }

    /// The value of `key`; `None` if it is missing or faulty.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        allowed: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.table.get(key)?;
        match read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(reason) => {
                let shown = self.faults.shown(value.span());
                let problem = format!("{}{key} = {shown}: {reason}; allowed is {allowed}", self.subject);
                self.faults.push(self.at_key(key), problem);
                None
            }
        }
    }

    /// The value of `key`, whose absence is a fault too.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        allowed: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, String>,
    ) -> Option<T> {
        if !self.table.contains_key(key) {
            self.faults.push(self.at, format!("{}no {key}; required is {allowed}", self.subject));
        }
        self.optional(key, allowed, read)
    }

    /// The value as it is, for whoever reads on himself.
    pub(super) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where the key stands; where the table begins if it is not there.
    pub(super) fn at_key(&self, key: &str) -> usize {
        self.table.get_key_value(key).map_or(self.at, |(key, _)| key.span().start)
    }

    /// A fault at a key.
    pub(super) fn refuse(&mut self, key: &str, problem: &str) {
        self.faults.push(self.at_key(key), format!("{}{problem}", self.subject));
    }

    pub(super) fn faults(&mut self) -> &mut Sink<'s> {
        self.faults
    }
}

/// The known name that is fewest slips of the pen away, if it is not a wholly other word.
pub(super) fn hint(name: &str, known: &[&str]) -> String {
    let slips = |known: &str| strsim::damerau_levenshtein(known, &name.to_lowercase());
    match known.iter().map(|known| (slips(known), known)).min() {
        Some((slips, nearest)) if slips <= nearest.len().div_ceil(2) => {
            format!("; the nearest is {nearest:?}")
        }
        _ => String::new(),
    }
}
