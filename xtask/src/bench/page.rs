//! `bench.html`: one page that needs nothing else, with the verdicts first.

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Pair};
use super::figures::{Measured, Unit, Variant};
use super::goals::Verdict;
use super::machine::Circumstances;
use super::results::{Results, grouped, short};
use super::stats::float;

const STYLE: &str = include_str!("page.css");
/// The scenarios whose throughput is shown beside each other.
const OVERVIEW: [&str; 5] = ["sicr", "chains-1", "chains-10", "chains-1000", "chains-8640"];

/// The page as HTML.
///
/// # Errors
///
/// When a chart cannot be drawn.
pub fn render(results: &Results) -> Result<String> {
    let of = &results.circumstances;
    let compared: Vec<&Measured> =
        results.scenarios.iter().filter(|measured| OVERVIEW.contains(&measured.name.as_str())).collect();
    let overview = if compared.len() > 1 { chart::overview(&compared)? } else { None };
    let scenarios = results.scenarios.iter().map(|measured| scenario(measured, results));
    let scenarios: Vec<Markup> = scenarios.collect::<Result<_>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Retention worker: bench" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Retention worker: bench" }
                p.muted {
                    (of.measured_at) " · commit " (of.commit) " · " (of.cores) " cores, " (of.memory_gib) " GiB · " (of.server)
                }
                @if results.quick {
                    p.warning { "A quick bench: few rows and loose limits. It finds regressions of kind; its figures say little." }
                }
                @if !of.durable {
                    p.warning { "This server is not durable: fsync or synchronous_commit is off. Every figure flatters." }
                }
                (verdicts(&results.goals))
                @if let Some(overview) = &overview { (drawn(overview)) }
                (circumstances(results))
                @for scenario in &scenarios { (scenario) }
            }
        }
    };
    Ok(page.into_string())
}

fn verdicts(goals: &[Verdict]) -> Markup {
    // What nobody asked for is left to the JSON.
    let shown = |verdict: &&Verdict| verdict.reason.as_deref() != Some(super::goals::NOT_ASKED_FOR);
    let met = goals.iter().filter(|verdict| verdict.met == Some(true)).count();
    let judged = goals.iter().filter(|verdict| verdict.met.is_some()).count();
    html! {
        p { strong { (met) " of " (judged) " goals met" } @if judged < goals.len() { ", " (goals.len() - judged) " not measured" } }
        div.wide {
            table {
                thead { tr { th { "Goal" } th.number { "Measured" } th.number { "Limit" } th { "Verdict" } } }
                tbody {
                    @for verdict in goals.iter().filter(shown) {
                        tr {
                            td {
                                (verdict.sentence)
                                @if let Some(reason) = &verdict.reason { div.muted { (reason) } }
                            }
                            td.number { (verdict.value()) }
                            td.number { (verdict.limit.text(verdict.unit)) }
                            td.verdict.(class(verdict)) { (verdict.word().to_lowercase()) }
                        }
                    }
                }
            }
        }
    }
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "open",
    }
}

fn circumstances(results: &Results) -> Markup {
    let Circumstances { processor, cores, memory_gib, kernel, server, settings, rustc, worker, .. } =
        &results.circumstances;
    let facts = [
        ("Machine", format!("{processor}, {cores} cores, {memory_gib} GiB of memory, Linux {kernel}")),
        ("Server", server.clone()),
        ("Worker", format!("{worker}, release build, {rustc}")),
    ];
    html! {
        h2 { "Where, with what, and again" }
        div.wide {
            table {
                tbody {
                    @for (name, value) in &facts { tr { th { (name) } td { (value) } } }
                    tr {
                        th { "Settings" }
                        td { @for (name, value) in settings { code { (name) "=" (value) } " " } }
                    }
                }
            }
        }
        pre { (results.command) }
        p.muted {
            "Every subject is measured beside its comparison in the same run, in turns, on identical copies of one database; "
            "a checkpoint comes before each measurement. Times of the worker are those of its report, without the start of \
             the process. Figures are medians over the rounds, with the smallest and the largest."
        }
    }
}

fn scenario(measured: &Measured, results: &Results) -> Result<Markup> {
    let bars = chart::bars(measured)?;
    let charts: Vec<Pair> = measured.charts.iter().map(chart::chart).collect::<Result<_>>()?;
    let goals: Vec<&Verdict> =
        results.goals.iter().filter(|verdict| verdict.scenario == measured.name).collect();
    Ok(html! {
        h2 id=(measured.name) { (measured.name) }
        p { (measured.what) }
        @if let Some(error) = &measured.error { p.warning { "Not measured: " (error) } }
        @for verdict in goals.iter().filter(|verdict| verdict.met.is_some()) {
            p {
                span.verdict.(class(verdict)) { (verdict.word().to_lowercase()) }
                ": " (verdict.value()) " " span.muted { "(" (verdict.limit.text(verdict.unit)) ")" }
                @if goals.len() > 1 { " " (verdict.sentence) }
            }
        }
        @if !measured.variants.is_empty() { (figures(&measured.variants)) }
        @if let Some(bars) = &bars { (drawn(bars)) }
        @for chart in &charts { (drawn(chart)) }
        @for note in &measured.notes { p.muted { (note) } }
        details {
            summary { "Inputs" }
            p { @for (name, value) in &measured.inputs { code { (name) "=" (value) } " " } }
            p { "took " (short(measured.took_seconds)) " s altogether" }
        }
    })
}

/// Median and spread of each variant.
fn figures(variants: &[Variant]) -> Markup {
    let rates = variants.iter().any(|variant| variant.unit == Unit::Seconds && variant.rows > 0);
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th { "" } th.number { "Median" } th.number { "Smallest – largest" } th.number { "Rounds" }
                        @if rates { th.number { "Rows per second" } th.number { "µs per row" } }
                    }
                }
                tbody {
                    @for variant in variants {
                        tr {
                            td { (variant.label) }
                            @match variant.summary {
                                None => { td.number colspan="5" { "not measured" } }
                                Some(summary) => {
                                    td.number { (with_unit(summary.median, variant.unit)) }
                                    td.number {
                                        (with_unit(summary.min, variant.unit)) " – " (with_unit(summary.max, variant.unit))
                                    }
                                    td.number { (variant.samples.len()) }
                                    @if rates { (rate(variant)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn rate(variant: &Variant) -> Markup {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive and far from 2^53"
    )]
    let per_second = (float(variant.rows) / variant.median()).round() as u64;
    html! {
        td.number { (grouped(per_second)) }
        td.number { (short(variant.per_row() * 1e6)) }
    }
}

fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value < 1.0 => format!("{} ms", short(value * 1e3)),
        Unit::Seconds => format!("{} s", short(value)),
        Unit::Milliseconds => format!("{} ms", short(value)),
        Unit::Mebibytes => format!("{} MiB", short(value)),
        Unit::Ratio => format!("{} ×", short(value)),
    }
}

fn drawn(pair: &Pair) -> Markup {
    html! {
        div.light { (PreEscaped(&pair.light)) }
        div.dark { (PreEscaped(&pair.dark)) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::goals::judge;
    use super::*;

    fn results() -> Results {
        let mut sicr = Measured::new("sicr", "rows & <rows>");
        let mut worker = Variant::timed("worker", 1000);
        [0.5, 0.25, 1.0].into_iter().for_each(|seconds| worker.push(seconds));
        sicr.variants = vec![worker, Variant::timed("peer", 1000)];
        sicr.found("sicr", 3.5);
        let mut peers = Measured::new("peers", "");
        peers.error = Some("no python3".to_owned());
        let scenarios = vec![sicr, peers];
        let text = String::new;
        Results {
            version: 1,
            command: "cargo xtask bench --rows 1000".to_owned(),
            quick: false,
            rows: 1000,
            circumstances: Circumstances {
                measured_at: "2026-11-30 02:00 UTC".to_owned(),
                commit: "0123456789ab".to_owned(),
                worker: text(),
                rustc: text(),
                cores: 2,
                processor: text(),
                memory_gib: 8.0,
                kernel: text(),
                server: "PostgreSQL 18".to_owned(),
                settings: BTreeMap::from([("fsync".to_owned(), "off".to_owned())]),
                durable: false,
            },
            goals: judge(&scenarios, false),
            scenarios,
        }
    }

    #[test]
    fn the_page_has_verdicts_figures_and_how_to_repeat_and_loads_nothing() -> Result<()> {
        let page = render(&results())?;
        for part in [
            "0 of 1 goals met",
            "3.50 ×",
            "≤ 3 ×",
            "missed",
            "no python3",
            "cargo xtask bench --rows 1000",
            "500 ms",
            "2,000",
            "not measured",
            "fsync=off",
            "This server is not durable",
            "rows &amp; &lt;rows&gt;",
            "<svg",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for loaded in ["<script", "<link", " src=", "@import", "url("] {
            assert!(!page.contains(loaded), "{loaded}");
        }
        Ok(())
    }
}
