//! The statuses of a refresh session, and which of them are terminal.

/// Every status a refresh session can have. Adding one forces a decision in [`RefreshStatus::is_terminal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshStatus {
    /// In use. Never touched, whatever its age.
    Active,
    /// Replaced by a child.
    Rotated,
    /// Ended by the user or by the service.
    Revoked,
    /// Ended by time.
    Expired,
}

impl RefreshStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Active, Self::Rotated, Self::Revoked, Self::Expired];

    /// Whether a session of this status never changes again. Written without a wildcard, so that a new status
    /// does not compile until somebody has chosen.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Active => false,
            Self::Rotated | Self::Revoked | Self::Expired => true,
        }
    }

    /// The spelling in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Rotated => "Rotated",
            Self::Revoked => "Revoked",
            Self::Expired => "Expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is the specification's sentence, not the function: a fifth status fails here until
    /// somebody has written down whether it goes.
    #[test]
    fn exactly_the_three_terminal_statuses_of_the_specification_go() {
        let terminal: Vec<_> =
            RefreshStatus::ALL.into_iter().filter(|s| s.is_terminal()).map(RefreshStatus::as_str).collect();
        assert_eq!(terminal, ["Rotated", "Revoked", "Expired"]);
        assert_eq!(RefreshStatus::ALL.len(), 4);
    }
}
