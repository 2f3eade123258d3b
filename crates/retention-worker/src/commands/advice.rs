//! What to do next when there is no usable database: by the SQLSTATE where the server gave one. Never quotes the
//! address: it may hold a password.

use retention_domain::RunRefused;

/// What to do about a database that cannot be used; `sentence` says why.
pub(super) fn for_database(sentence: &str) -> &'static str {
    let has = |codes: &[&str]| codes.iter().any(|code| sentence.contains(code));
    if has(&["28P01", "28000"]) {
        "check user and password in DATABASE_URL, and the server's pg_hba.conf; deploy/postgres/grants.sql makes the role"
    } else if has(&["3D000"]) {
        "check the database's name at the end of DATABASE_URL"
    } else if has(&["53300"]) {
        "free connections on the server or raise the role's limit; the worker needs SESSION_RETENTION_CONCURRENCY + 1"
    } else if has(&["57P03"]) {
        "the server is starting or stopping: try again in a moment"
    } else if has(&["42501"]) {
        "grant the role its rights: deploy/postgres/grants.sql"
    } else if has(&["TLS", "certificate"]) {
        "check sslmode in DATABASE_URL, and that this machine trusts the server's certificate (sslrootcert)"
    } else {
        "check that the server runs and is reachable from here: host, port and firewall (`pg_isready --host … --port …`)"
    }
}

/// What to do about a run that did not start.
pub(super) fn for_refusal(reason: &RunRefused) -> &'static str {
    match reason {
        RunRefused::NoStore(failure) => for_database(&failure.sentence),
        RunRefused::ClockSkew { .. } => {
            "set the clocks of this machine and of the database's by NTP; `retention-worker check` compares them"
        }
        RunRefused::BeforeCalendar(_) => "shorten the retention period",
        RunRefused::Broken => "report the log of this run; the next run starts afresh",
    }
}

#[cfg(test)]
mod tests {
    use retention_domain::{Failure, FailureKind};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("reading the clock: password authentication failed (SQLSTATE 28P01)", "user and password")]
    #[case("reading the clock: no such database (SQLSTATE 3D000)", "database's name")]
    #[case("reading the clock: too many connections (SQLSTATE 53300)", "free connections")]
    #[case("reading the clock: the TLS connection could not be made", "sslmode")]
    #[case("reading the clock: the connection failed: connection refused", "reachable")]
    fn a_failure_leads_to_what_mends_it(#[case] sentence: &str, #[case] advice: &str) {
        let failure = Failure::new(FailureKind::Fatal, sentence);
        assert!(for_refusal(&RunRefused::NoStore(failure)).contains(advice), "{sentence}");
    }
}
