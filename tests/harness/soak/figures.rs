//! What a soak has counted, and what it found wrong.

use std::collections::BTreeMap;
use std::time::Duration;

/// Findings kept; what is wrong in one place is often wrong in thousands.
const KEPT: usize = 200;

/// The result of a soak, and while it lasts its state.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How long it took, all in all.
    pub lasted: Duration,
    /// What the identity service did, by kind.
    pub operations: BTreeMap<&'static str, u64>,
    /// What was done to the workers, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Runs of the workers that came to their end, by the reason they stopped for.
    pub runs: BTreeMap<String, u64>,
    /// Failed attempts that the workers told of and got over, or not.
    pub attempts_failed: u64,
    /// Rows that anybody but the workers wrote.
    pub written: u64,
    /// Comparisons of all rows with the ledger.
    pub comparisons: u64,
    /// What was deleted, stage by stage.
    pub stages: Vec<Stage>,
    /// Rows left at the end.
    pub survivors: u64,
    /// The counters of the requests among them, added up: in the table, in the ledger.
    pub attempts: (i64, i64),
    /// Errors that the service met; there must be none.
    pub client_errors: Vec<String>,
    /// Broken promises, with the rows by key; there must be none.
    pub violations: Vec<String>,
    /// Broken promises and errors beyond those that are kept.
    pub more: u64,
}

/// One stage: who deleted how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// Rows that are gone.
    pub gone: u64,
    /// Rows that the workers said they deleted.
    pub reported: u64,
    /// Rows that may be gone without a worker having been able to say so: at most those of the batches that were in
    /// flight when a process was killed or a connection cut.
    pub unaccounted: u64,
}

impl Figures {
    /// Whether nothing at all is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.client_errors.is_empty() && self.violations.is_empty()
    }

    /// All operations of the service.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations.values().sum()
    }

    /// All faults injected.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// All rows that are gone.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.stages.iter().map(|stage| stage.gone).sum()
    }

    /// How much is wrong, all in all.
    #[must_use]
    pub fn findings(&self) -> u64 {
        (self.client_errors.len() + self.violations.len()) as u64 + self.more
    }

    pub(super) fn violation(&mut self, violation: String) {
        keep(&mut self.violations, violation, &mut self.more);
    }

    pub(super) fn client_error(&mut self, error: String) {
        keep(&mut self.client_errors, error, &mut self.more);
    }
}

fn keep(kept: &mut Vec<String>, finding: String, more: &mut u64) {
    if kept.len() < KEPT {
        kept.push(finding);
    } else {
        *more += 1;
    }
}

impl Stage {
    /// Why the workers' sum is wrong, if it is.
    pub(super) fn fault(&self) -> Option<String> {
        let Self { name, gone, reported, unaccounted } = self;
        let right = reported <= gone && gone - reported <= *unaccounted;
        (!right).then(|| {
            format!(
                "{name}: {gone} rows are gone, the workers report {reported}, and at most {unaccounted} can be unaccounted for"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::exact(10, 10, 0, true)]
    #[case::one_too_many_reported(10, 11, 5, false)]
    #[case::one_not_reported(10, 9, 0, false)]
    #[case::lost_with_a_killed_process(10, 5, 5, true)]
    #[case::lost_with_nobody(10, 4, 5, false)]
    fn a_sum_is_exact_or_short_by_what_was_in_flight(
        #[case] gone: u64,
        #[case] reported: u64,
        #[case] unaccounted: u64,
        #[case] right: bool,
    ) {
        assert_eq!(Stage { name: "storm", gone, reported, unaccounted }.fault().is_none(), right);
    }
}
