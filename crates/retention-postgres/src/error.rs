//! What a failed statement means, by SQLSTATE: the one table.

use std::io::ErrorKind;

use retention_domain::{Failure, FailureKind};
use sqlx::Error;
use sqlx::postgres::PgDatabaseError;

/// What the loop shall do about this SQLSTATE. The codes and their names: PostgreSQL's appendix A.
#[must_use]
pub fn classify_sqlstate(code: &str) -> FailureKind {
    match code {
        // query_canceled: by statement_timeout, or by ourselves when the grace period is over.
        "57014" => FailureKind::Timeout,
        // lock_not_available: somebody held a row, one of the batch or one that a trigger or a foreign key looks at. Of a
        // locked table see `failure`.
        "55P03" => FailureKind::Locked,
        // object_in_use, in_failed_sql_transaction, idle_in_transaction_session_timeout,
        // transaction_timeout.
        "55006" | "25P02" | "25P03" | "25P04" => FailureKind::Transient,
        _ => match class(code) {
            // connection_exception, transaction_rollback (deadlock, serialization), insufficient_resources,
            // operator_intervention, system_error.
            "08" | "40" | "53" | "57" | "58" => FailureKind::Transient,
            // Missing tables and rights, a read-only or misconfigured server, a published table without identity:
            // nothing a retry could mend.
            "" | "0A" | "25" | "26" | "28" | "3D" | "3F" | "42" | "54" | "55" | "F0" | "HV" | "XX" => {
                FailureKind::Fatal
            }
            // A foreign key from elsewhere, any other constraint, and whatever a trigger raises, with a code of its own
            // or not. 23001 is what PostgreSQL 18 says where earlier versions say 23503 (ON DELETE RESTRICT).
            _ => FailureKind::Row,
        },
    }
}

fn class(code: &str) -> &str {
    code.get(..2).unwrap_or(code)
}

/// What we refuse ourselves in the middle of a transaction. Travels as [`Error::Configuration`], so that the transaction
/// is undone like after an error of the server.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct Refused {
    kind: FailureKind,
    sentence: String,
}

impl Refused {
    /// Nothing a retry could mend.
    pub(crate) fn fatal(sentence: impl Into<String>) -> Error {
        Error::Configuration(Box::new(Self { kind: FailureKind::Fatal, sentence: sentence.into() }))
    }

    /// What we refused.
    ///
    /// # Errors
    /// The error itself, if it is none of ours.
    pub(crate) fn sentence(error: Error) -> Result<String, Error> {
        match error {
            Error::Configuration(refused) if refused.is::<Self>() => Ok(refused.to_string()),
            error => Err(error),
        }
    }

    /// Some row of the batch is the reason.
    pub(crate) fn row(sentence: impl Into<String>) -> Error {
        Error::Configuration(Box::new(Self { kind: FailureKind::Row, sentence: sentence.into() }))
    }
}

/// The failure of `attempt` (such as "deleting a batch"), in a sentence that holds no value of a row: what triggers
/// raise and data errors say is left out, and so is every DETAIL.
#[must_use]
pub fn failure(attempt: &str, error: &Error) -> Failure {
    let Error::Database(database) = error else { return without_code(attempt, error) };
    let code = database.code().unwrap_or_default();
    let postgres = database.try_downcast_ref::<PgDatabaseError>();
    let raised = postgres.is_some_and(|error| error.routine() == Some("exec_stmt_raise"));
    let within = postgres.is_some_and(|error| error.r#where().is_some());
    // What a trigger raises speaks of its row, whatever the code says of statements elsewhere.
    let kind = match classify_sqlstate(&code) {
        _ if raised => FailureKind::Row,
        // Whoever waits for a row is told in which statement or at which row; who waits for a table is not.
        FailureKind::Locked if !within => FailureKind::TableLocked,
        kind => kind,
    };
    let what = match (database.constraint(), database.table(), kind) {
        (Some(constraint), Some(table), FailureKind::Row) if !raised => {
            format!("constraint {constraint} on table {table} forbids it")
        }
        (_, _, FailureKind::Row) => "a trigger or constraint raised".to_owned(),
        // A statement within a trigger may quote values of a row in its message.
        _ if within => "a statement within a trigger failed".to_owned(),
        // Identifiers only: "permission denied for table …", "relation … does not exist".
        _ => database.message().to_owned(),
    };
    Failure::new(kind, format!("{attempt}: {what} (SQLSTATE {code})"))
}

fn without_code(attempt: &str, error: &Error) -> Failure {
    let (kind, what) = match error {
        Error::Configuration(refused) if let Some(refused) = refused.downcast_ref::<Refused>() => {
            (refused.kind, refused.sentence.clone())
        }
        // What TLS makes of a certificate: names and reasons, no secret.
        Error::Io(io) if io.kind() == ErrorKind::InvalidData => {
            (FailureKind::Transient, format!("the connection failed: {io}"))
        }
        Error::Io(io) => (FailureKind::Transient, format!("the connection failed: {}", io.kind())),
        Error::PoolTimedOut => (FailureKind::Transient, "no connection could be had in time".to_owned()),
        Error::Tls(_) => (FailureKind::Transient, "the TLS connection could not be made".to_owned()),
        Error::Protocol(_) => (FailureKind::Transient, "the server broke the protocol".to_owned()),
        Error::PoolClosed | Error::WorkerCrashed => {
            (FailureKind::Transient, "the connection was closed".to_owned())
        }
        Error::ColumnDecode { index, .. } => {
            (FailureKind::Fatal, format!("column {index} could not be read"))
        }
        _ => (FailureKind::Fatal, "the answer could not be read".to_owned()),
    };
    Failure::new(kind, format!("{attempt}: {what}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::statement_timeout("57014", FailureKind::Timeout)]
    #[case::deadlock("40P01", FailureKind::Transient)]
    #[case::serialization("40001", FailureKind::Transient)]
    #[case::lock_timeout("55P03", FailureKind::Locked)]
    #[case::admin_shutdown("57P01", FailureKind::Transient)]
    #[case::crash_shutdown("57P02", FailureKind::Transient)]
    #[case::cannot_connect_now("57P03", FailureKind::Transient)]
    #[case::connection_failure("08006", FailureKind::Transient)]
    #[case::too_many_connections("53300", FailureKind::Transient)]
    #[case::disk_full("53100", FailureKind::Transient)]
    #[case::foreign_key_to_17("23503", FailureKind::Row)]
    #[case::foreign_key_18("23001", FailureKind::Row)]
    #[case::raise_exception("P0001", FailureKind::Row)]
    #[case::division_by_zero_in_a_trigger("22012", FailureKind::Row)]
    #[case::undefined_table("42P01", FailureKind::Fatal)]
    #[case::undefined_column("42703", FailureKind::Fatal)]
    #[case::no_right("42501", FailureKind::Fatal)]
    #[case::read_only("25006", FailureKind::Fatal)]
    #[case::no_replica_identity("55000", FailureKind::Fatal)]
    #[case::wrong_password("28P01", FailureKind::Fatal)]
    #[case::no_such_database("3D000", FailureKind::Fatal)]
    #[case::code_of_a_trigger_s_own("ZZ001", FailureKind::Row)]
    #[case::internal("XX000", FailureKind::Fatal)]
    #[case::empty("", FailureKind::Fatal)]
    fn every_code_has_its_kind(#[case] code: &str, #[case] kind: FailureKind) {
        assert_eq!(classify_sqlstate(code), kind);
    }

    #[test]
    fn errors_without_a_code_are_transient_when_the_connection_is_at_fault() {
        let lost = Error::Io(ErrorKind::ConnectionReset.into());
        let failure = failure("deleting a batch", &lost);
        assert_eq!(failure.kind, FailureKind::Transient);
        assert_eq!(failure.sentence, "deleting a batch: the connection failed: connection reset");
    }
}
