//! The status page: the view as HTML that needs no script and nothing from elsewhere. Decides nothing.

use std::time::Duration;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use retention_domain::period::format_duration;

use super::levels::Level;
use super::view::{At, PolicyView, RunView, Verdict, View};
use crate::render::{days, grouped, millis};

const STYLE: &str = include_str!("page.css");

/// What stands for a number nobody has.
const NOT_MEASURED: &str = "not measured yet";

/// The whole page. `nonce` is what the content security policy lets the style pass by.
#[must_use]
pub fn page(view: &View, nonce: &str) -> String {
    let class = match view.verdict {
        Verdict::Yes => "holds",
        Verdict::No => "broken",
        Verdict::NotKnownYet => "unknown",
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (view.verdict.as_str()) " – retention worker" }
                style nonce=(nonce) { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p { "Retention worker " (view.version) " · as of " (time(view.now)) }
                }
                main {
                    section.verdict.(class) aria-labelledby="question" {
                        h1 #question { "Is personal data leaving in time?" }
                        p.answer { (mark(view.verdict.holds())) " " (view.verdict.as_str()) }
                        @for reason in &view.reasons {
                            p { (reason) }
                        }
                    }
                    (schedule(view))
                    (levels(view))
                    (policies(view))
                    (runs(view))
                }
                footer {
                    p { "This process started at " (time(view.process_started_at)) " and knows its own runs alone." }
                    p { a href="status.json" { "The same as data" } " · " a href="metrics" { "Metrics" } }
                }
            }
        }
    };
    page.into_string()
}

fn schedule(view: &View) -> Markup {
    let window = match view.window.as_str() {
        "always" => "none: runs start at any time".to_owned(),
        window => format!(
            "{} UTC, {} now",
            window.replace('-', " to "),
            if view.window_is_open { "open" } else { "closed" }
        ),
    };
    html! {
        section aria-labelledby="next" {
            h2 #next { "Next run" }
            dl {
                @if let Some(running) = &view.running {
                    (fact("Going on", html! {
                        "since " (time(running.started_at)) ", "
                        (grouped(running.deleted)) " rows deleted so far (run " code { (running.job_run_id) } ")"
                    }))
                }
                (fact("Next slot", html! {
                    @if let Some(at) = view.next_run_at { (time(at)) (distance(at, view.now)) }
                    @else if view.running.is_some() { "decided when the run that is going on has ended" }
                    @else { "not decided yet" }
                }))
                (fact("Night window", html! { (window) }))
                (fact("Interval", html! { (format_duration(Duration::from_secs(view.interval_seconds))) }))
                (fact("Database", html! { (view.database) }))
            }
        }
    }
}

fn levels(view: &View) -> Markup {
    html! {
        section aria-labelledby="levels" {
            h2 #levels { "Service levels" }
            ul.levels {
                @for level in &view.levels { (level_item(level)) }
            }
        }
    }
}

fn level_item(level: &Level) -> Markup {
    let (class, word) = match level.holds {
        Some(true) => ("holds", "holds"),
        Some(false) => ("broken", "broken"),
        None => ("unknown", "not known"),
    };
    html! {
        li {
            span.state.(class) { (mark(level.holds)) " " (word) }
            div {
                p {
                    @if let Some(policy) = &level.policy { code { (policy) } ": " }
                    (level.target)
                }
                p.when {
                    @match &level.measured {
                        Some(measured) => (measured),
                        None => (NOT_MEASURED),
                    }
                    @if let Some(at) = level.as_of { ", " (time(at)) }
                }
            }
        }
    }
}

fn policies(view: &View) -> Markup {
    html! {
        section aria-labelledby="policies" {
            h2 #policies { "Policies" }
            p.when {
                "Pending rows are due and can go. Blocked rows are due and held by a descendant that stays: they go when \
                 it has aged, and break no level."
            }
            div.cards {
                @for policy in &view.policies { (card(policy)) }
            }
        }
    }
}

fn card(policy: &PolicyView) -> Markup {
    let counted = policy.counted_at.is_some();
    let rows =
        |rows: Option<u64>| rows.map_or(NOT_MEASURED.to_owned(), |rows| format!("{} rows", grouped(rows)));
    let oldest = |age: Option<u64>| match age {
        Some(age) => days(age),
        None if counted => "none left".to_owned(),
        None => NOT_MEASURED.to_owned(),
    };
    let drain = match (policy.nights_to_drain, counted) {
        (Some(0), _) => "nothing to drain".to_owned(),
        (Some(1), _) => "1 night".to_owned(),
        (Some(nights), _) => format!("{} nights", grouped(nights)),
        (None, true) => "cannot be said: the last run deleted nothing".to_owned(),
        (None, false) => NOT_MEASURED.to_owned(),
    };
    html! {
        article aria-labelledby={ "policy-" (policy.policy) } {
            h3 id={ "policy-" (policy.policy) } { (policy.policy) }
            p { code { (policy.table) } ", kept " (format_duration(Duration::from_secs(policy.retention_seconds))) }
            dl {
                (fact("Pending", html! { (rows(policy.pending)) }))
                (fact("Oldest pending", html! {
                    (oldest(policy.oldest_pending_age_seconds)) " "
                    span.whole { "(limit " (days(policy.limit_seconds)) ")" }
                }))
                (fact("Blocked", html! { (rows(policy.blocked)) }))
                (fact("Oldest blocked", html! { (oldest(policy.oldest_blocked_age_seconds)) }))
                (fact("Deleted by that run", html! { (rows(policy.deleted)) }))
                (fact("To drain at that rate", html! { (drain) }))
            }
            p.when {
                @match policy.counted_at {
                    Some(at) => { "Counted " (time(at)) "; ages go on." },
                    None => "No run of this process has counted this policy's rows.",
                }
            }
        }
    }
}

fn runs(view: &View) -> Markup {
    let forgotten = view.runs_total - view.runs.len() as u64;
    html! {
        section aria-labelledby="runs" {
            h2 #runs { "Runs since this process started" }
            @if view.runs.is_empty() {
                p { "None has ended yet." }
            } @else {
                div.wide role="region" aria-labelledby="runs" tabindex="0" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Started" }
                                th scope="col" { "Ended" }
                                th.number scope="col" { "Deleted" }
                                th.number scope="col" { "Still due" }
                                th.number scope="col" { "Took" }
                                th scope="col" { "Run" }
                            }
                        }
                        tbody {
                            @for run in &view.runs { (run_row(run)) }
                        }
                    }
                }
            }
            @if forgotten > 0 {
                p { (grouped(forgotten)) " earlier ones are not shown." }
            }
        }
    }
}

fn run_row(run: &RunView) -> Markup {
    html! {
        tr {
            th scope="row" { (time(run.started_at)) }
            td {
                span.state.(run.outcome) { (run.outcome) } ": "
                (run.refused.unwrap_or(run.stop_reason))
                @if run.policies.iter().any(|policy| policy.stop_reason != run.stop_reason) {
                    @for policy in &run.policies { br; code { (policy.policy) } " " (policy.stop_reason) }
                }
            }
            td.number { (grouped(run.deleted)) }
            td.number { (run.backlog_remaining.map_or("not counted".to_owned(), grouped)) }
            td.number { (format_duration(tidy(run.duration))) }
            td { code { (run.job_run_id) } }
        }
    }
}

fn fact(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn time(at: At) -> Markup {
    html! { time datetime=(at.0.to_rfc3339()) { (at) } }
}

/// How far ahead it is, or that it has come.
fn distance(at: At, now: At) -> Markup {
    let ahead = u64::try_from((at.0 - now.0).num_minutes()).unwrap_or(0);
    html! {
        @if ahead > 0 { ", in " (format_duration(Duration::from_secs(ahead * 60))) }
        @else { ", due now" }
    }
}

/// Says in one sign what words and colour say too.
fn mark(holds: Option<bool>) -> Markup {
    let mark = match holds {
        Some(true) => "✓",
        Some(false) => "✗",
        None => "?",
    };
    html! { span.mark aria-hidden="true" { (mark) } }
}

/// Long durations to the second, short ones to the millisecond.
fn tidy(duration: Duration) -> Duration {
    if duration < Duration::from_secs(10) {
        Duration::from_millis(millis(duration))
    } else {
        Duration::from_secs(duration.as_secs())
    }
}
