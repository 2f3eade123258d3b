//! Why the store could not do what was asked, in the cases the loop branches on.

/// A failed attempt of a [`crate::ports::RetentionStore`]. When one is returned, the call has deleted nothing
/// that it could know of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// What the loop does about it.
    pub kind: FailureKind,
    /// One sentence for operators, with the SQLSTATE where there is one; never a value of a row.
    pub sentence: String,
}

/// What the loop does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// May be gone at the next try: deadlock, serialization, lost connection. Retried a bounded
    /// number of times with back-off.
    Transient,
    /// The statement ran into its bound. A normal stop when the run's time is up; else the batch is halved.
    Timeout,
    /// Somebody held a row for longer than is waited for it. The batch looks first what is held; else as
    /// [`Self::Timeout`].
    Locked,
    /// Somebody held the whole table for longer than is waited for it. No row is to blame: as [`Self::Transient`].
    TableLocked,
    /// A row refuses to go: a foreign key from elsewhere, a raising trigger. The batch is bisected.
    Row,
    /// Nothing a retry could mend: missing table or right, read-only server, wrong column type. Ends the policy.
    Fatal,
}

impl FailureKind {
    /// The `kind` label of the error counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Transient | Self::Timeout | Self::Locked | Self::TableLocked => "transient",
            Self::Row => "row",
            Self::Fatal => "fatal",
        }
    }
}

impl Failure {
    /// A failure of this kind.
    #[must_use]
    pub fn new(kind: FailureKind, sentence: impl Into<String>) -> Self {
        Self { kind, sentence: sentence.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::FailureKind::{Fatal, Locked, Row, TableLocked, Timeout, Transient};

    #[test]
    fn every_kind_is_counted_under_one_of_three_labels() {
        let labels = [Transient, Timeout, Locked, TableLocked, Row, Fatal].map(super::FailureKind::label);
        assert_eq!(labels, ["transient", "transient", "transient", "transient", "row", "fatal"]);
    }
}
