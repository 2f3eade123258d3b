//! `check`: what would fail, cost too much or surprise in a run, and what mends it. Changes nothing, locks no row.

use std::time::Duration;

use retention_domain::Failure;
use retention_domain::plan::targets;
use retention_domain::ports::{Clock, RetentionStore};
use retention_postgres::{Finding, Level};

use super::{Exit, advice};
use crate::app::App;
use crate::cli::Printer;
use crate::render::{check_json, check_text};

/// A skew above this is worth a warning, in milliseconds (contract, section 3).
const SKEW_WORTH_A_WARNING_MS: i64 = 60_000;
/// A skew above this makes a run refuse to start, in milliseconds (contract, section 3).
const SKEW_THAT_STOPS_MS: i64 = 3_600_000;

pub(super) async fn execute(app: &App, printer: Printer) -> Result<Exit, String> {
    let findings = match preflight(app, app.settings.limits.statement_timeout).await {
        Ok(findings) => findings,
        Err(failure) => {
            let advice = advice::for_database(&failure.sentence);
            tracing::error!(exception = %failure, advice, "no usable database");
            return Ok(Exit::NoDatabase);
        }
    };
    app.store.database().close().await;
    printer.print(|| check_text(&findings), || check_json(&findings));
    Ok(if has_errors(&findings) { Exit::Failed } else { Exit::Done })
}

/// Whether something stands in the way of a run.
pub(super) fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Error)
}

/// Everything there is to find: about server and clock first, then policy by policy in the order of a run. A policy
/// that could not be examined is a finding too. `limit` bounds each statement.
///
/// # Errors
/// When there is no usable database.
pub(super) async fn preflight(app: &App, limit: Duration) -> Result<Vec<Finding>, Failure> {
    let now = app.store.now().await?;
    let skew_ms = now.signed_duration_since(app.clock.wall()).num_milliseconds();
    let mut findings = vec![clock_skew(skew_ms)];
    match app.store.preflight_server(limit).await {
        Ok(finding) => findings.push(finding),
        Err(failure) => findings.push(not_examined(Finding::RUN, &failure)),
    }
    // Where the clock leaves no cutoff, its skew is an error already.
    for target in targets(&app.policies, now).unwrap_or_default() {
        match app.store.preflight(&target, limit).await {
            Ok(of_policy) => findings.extend(match app.origins.get(target.policy.name.as_str()) {
                Some(origin) => of_policy.into_iter().map(|finding| origin.located(finding)).collect(),
                None => of_policy,
            }),
            Err(failure) => findings.push(not_examined(target.policy.name.as_str(), &failure)),
        }
    }
    Ok(findings)
}

fn not_examined(policy: &str, failure: &Failure) -> Finding {
    let advice =
        "run the check again; if it stays, look for whoever holds a lock on the table or the catalogue";
    Finding::bad("examination", policy, Level::Error, failure.sentence.clone(), advice)
}

/// The database's clock, which decides what goes, against this process's, which decides when. In whole minutes: a
/// finding that says the same stays the same.
fn clock_skew(skew_ms: i64) -> Finding {
    let id = "clock-skew";
    if skew_ms.abs() <= SKEW_WORTH_A_WARNING_MS {
        return Finding::ok(id, Finding::RUN, "the clocks of the database and of this process agree");
    }
    let level = if skew_ms.abs() > SKEW_THAT_STOPS_MS { Level::Error } else { Level::Warning };
    let consequence = if level == Level::Error { ", more than an hour: no run starts" } else { "" };
    let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
    let minutes = skew_ms.abs() / 60_000;
    Finding::bad(
        id,
        Finding::RUN,
        level,
        format!("the database's clock is {minutes} min {direction} this process's{consequence}"),
        "set both clocks by NTP; cutoffs come from the database's alone",
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, Level::Ok)]
    #[case::a_minute_is_not_more_than_a_minute(60_000, Level::Ok)]
    #[case::more_than_a_minute(60_001, Level::Warning)]
    #[case::behind(-60_001, Level::Warning)]
    #[case::an_hour_is_not_more_than_an_hour(3_600_000, Level::Warning)]
    #[case::more_than_an_hour(3_600_001, Level::Error)]
    #[case::ten_years_behind(-315_360_000_000, Level::Error)]
    fn a_skew_is_judged_as_a_run_judges_it(#[case] skew_ms: i64, #[case] level: Level) {
        let finding = clock_skew(skew_ms);
        assert_eq!(finding.level, level);
        assert_eq!(finding.message.contains("behind"), skew_ms < -60_000, "{}", finding.message);
        assert_eq!(has_errors(&[finding]), level == Level::Error);
    }
}
