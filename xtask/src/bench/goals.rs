//! The goals: one table of what has to hold, and the verdict on what was measured.

use serde::Serialize;

use super::figures::{Finding, Measured};

/// Where the value of a goal must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Not above it.
    AtMost(f64),
    /// Not below it.
    AtLeast(f64),
    /// Exactly it.
    Exactly(f64),
    /// Not above the ratio, or not more than so many milliseconds above the comparison.
    AtMostOr { ratio: f64, extra_ms: f64 },
}

/// Why most goals are not measured, most of the time.
pub const NOT_ASKED_FOR: &str = "the scenario was not asked for";

/// Something that has to hold.
pub struct Goal {
    /// Unique; a scenario reports its finding under it.
    pub name: &'static str,
    /// The scenario that finds it out.
    pub scenario: &'static str,
    /// What has to hold, as a reader says it.
    pub sentence: &'static str,
    /// What the value is counted in: `×` for a ratio.
    pub unit: &'static str,
    /// Where the value must lie.
    pub limit: Limit,
    /// The same for `--quick`, where numbers are small and the machine is busy; `None` where it does not look.
    pub quick: Option<Limit>,
}

/// What came of a goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The goal's.
    pub goal: &'static str,
    /// The goal's.
    pub scenario: &'static str,
    /// The goal's.
    pub sentence: &'static str,
    /// The goal's.
    pub unit: &'static str,
    /// The one that was applied.
    pub limit: Limit,
    /// What was measured.
    pub measured: Option<f64>,
    /// Whether it holds; `None` when it was not measured.
    pub met: Option<bool>,
    /// Why it was not measured.
    pub reason: Option<String>,
}

use Limit::{AtLeast, AtMost, AtMostOr, Exactly};

const fn goal(
    name: &'static str,
    scenario: &'static str,
    sentence: &'static str,
    limit: Limit,
    quick: Option<Limit>,
) -> Goal {
    Goal { name, scenario, sentence, unit: "×", limit, quick }
}

/// Everything that has to hold.
#[rustfmt::skip]
pub const GOALS: &[Goal] = &[
    goal("sicr", "sicr", "Confirmation requests take at most 3 × the time of one unbounded DELETE", AtMost(3.0), Some(AtMost(9.0))),
    goal("chains-1", "chains-1", "Single sessions take at most 2 × the time of one unbounded DELETE", AtMost(2.0), Some(AtMost(8.0))),
    goal("chains-10", "chains-10", "Chains of 10 take at most 2 × the time of one unbounded DELETE", AtMost(2.0), Some(AtMost(8.0))),
    goal("chains-1000", "chains-1000", "Chains of 1,000 take at most 2 × the time of one unbounded DELETE", AtMost(2.0), Some(AtMost(8.0))),
    goal("chains-8640", "chains-8640", "Chains of 8,640 take at most 2 × the time of one unbounded DELETE", AtMost(2.0), Some(AtMost(8.0))),
    goal("depth", "depth", "The slowest depth takes at most 1.5 × the time per row of the fastest", AtMost(1.5), Some(AtMost(3.0))),
    goal("literal", "literal", "At least 8 × faster than the literal loop", AtLeast(8.0), None),
    goal("blocked", "blocked", "Old blocked rows make free ones take at most 1.5 × the time they take alone", AtMost(1.5), Some(AtMost(4.0))),
    goal("old-snapshot-sicr", "old-snapshot", "Under an old snapshot the last quarter of the batches takes at most 1.3 × the time of the first (requests)", AtMost(1.3), Some(AtMost(2.5))),
    goal("old-snapshot-chains-10", "old-snapshot", "Under an old snapshot the last quarter of the batches takes at most 1.3 × the time of the first (chains of 10)", AtMost(1.3), Some(AtMost(2.5))),
    goal("empty", "empty", "A run with nothing to do takes at most 1.2 × the time of one count without the index", AtMost(1.2), None),
    goal("empty-index", "empty", "A run with nothing to do takes at most 0.05 × the time of one count with the index", AtMost(0.05), None),
    goal("growth-1", "growth", "Per row, 10 million single sessions cost at most 1.3 × what 100 thousand cost", AtMost(1.3), Some(AtMost(3.5))),
    goal("growth-1-index", "growth", "The same with the index", AtMost(1.3), None),
    goal("growth-10", "growth", "Per row, 10 million sessions in chains of 10 cost at most 1.3 × what 100 thousand cost", AtMost(1.3), Some(AtMost(3.5))),
    goal("growth-10-index", "growth", "The same with the index", AtMost(1.3), None),
    goal("instances", "instances", "Two processes are at least 1.4 × faster than one", AtLeast(1.4), None),
    goal("concurrency", "instances", "Two connections of one process are at least 1.4 × faster than one", AtLeast(1.4), None),
    goal("instances-exact", "instances", "Whatever the number of processes and connections, what they say they deleted adds up to exactly what was due", Exactly(1.0), None),
    goal("online-p95", "online", "Beside the worker, the 95th percentile of sign-in latency is at most 1.25 × what it is without", AtMost(1.25), None),
    goal("online-p99", "online", "Beside the worker, the 99th percentile is at most 1.5 × what it is without, or 2 ms more", AtMostOr { ratio: 1.5, extra_ms: 2.0 }, None),
    Goal { unit: "MiB", ..goal("memory", "memory", "Peak resident memory at 10 million due rows is at most 64 MiB", AtMost(64.0), None) },
    goal("memory-growth", "memory", "Peak resident memory at 10 million due rows is at most 1.2 × that at 1 million", AtMost(1.2), None),
    goal("peers", "peers", "At least 5 × as many rows per second as the fastest batched peer", AtLeast(5.0), None),
];

impl Limit {
    fn admits(self, finding: Finding) -> bool {
        match self {
            AtMost(limit) => finding.value <= limit,
            AtLeast(limit) => finding.value >= limit,
            Exactly(limit) => (finding.value - limit).abs() < f64::EPSILON,
            AtMostOr { ratio, extra_ms } => {
                finding.value <= ratio || finding.extra_ms.is_some_and(|extra| extra <= extra_ms)
            }
        }
    }

    /// As a reader says it, with the unit.
    pub fn text(self, unit: &str) -> String {
        match self {
            AtMost(limit) => format!("≤ {limit} {unit}"),
            AtLeast(limit) => format!("≥ {limit} {unit}"),
            Exactly(limit) => format!("= {limit} {unit}"),
            AtMostOr { ratio, extra_ms } => format!("≤ {ratio} {unit} or + {extra_ms} ms"),
        }
    }
}

/// The verdict on every goal, in the order of the table; with `quick`, on those that `--quick` looks at.
pub fn judge(measured: &[Measured], quick: bool) -> Vec<Verdict> {
    let limit = |goal: &Goal| if quick { goal.quick } else { Some(goal.limit) };
    GOALS.iter().filter_map(|goal| Some(verdict(goal, limit(goal)?, measured))).collect()
}

fn verdict(goal: &Goal, limit: Limit, measured: &[Measured]) -> Verdict {
    let Goal { name, scenario, sentence, unit, .. } = *goal;
    let of_scenario = measured.iter().find(|measured| measured.name == scenario);
    let finding = of_scenario.and_then(|measured| measured.findings.get(name)).copied();
    // What came of a division by nothing is no measurement.
    let finding = finding.filter(|finding| finding.value.is_finite());
    let reason = match (finding, of_scenario) {
        (Some(_), _) => None,
        (None, None) => Some(NOT_ASKED_FOR.to_owned()),
        (None, Some(Measured { error: Some(error), .. })) => Some(error.clone()),
        (None, Some(measured)) => {
            Some(measured.notes.first().cloned().unwrap_or_else(|| "no figure".to_owned()))
        }
    };
    let met = finding.map(|finding| limit.admits(finding));
    let measured = finding.map(|finding| finding.value);
    Verdict { goal: name, scenario, sentence, unit, limit, measured, met, reason }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(AtMost(3.0), 3.0, None, true)]
    #[case(AtMost(3.0), 3.01, None, false)]
    #[case(AtLeast(8.0), 8.0, None, true)]
    #[case(AtLeast(8.0), 7.9, None, false)]
    #[case(Exactly(1.0), 1.0, None, true)]
    #[case(Exactly(1.0), 0.999_999, None, false)]
    #[case(AtMostOr { ratio: 1.5, extra_ms: 2.0 }, 1.5, Some(9.0), true)]
    #[case(AtMostOr { ratio: 1.5, extra_ms: 2.0 }, 4.0, Some(2.0), true)]
    #[case(AtMostOr { ratio: 1.5, extra_ms: 2.0 }, 4.0, Some(2.1), false)]
    #[case(AtMostOr { ratio: 1.5, extra_ms: 2.0 }, 4.0, None, false)]
    fn limits_are_inclusive(
        #[case] limit: Limit,
        #[case] value: f64,
        #[case] extra_ms: Option<f64>,
        #[case] admitted: bool,
    ) {
        assert_eq!(limit.admits(Finding { value, extra_ms }), admitted);
    }

    #[test]
    fn names_are_unique_and_quick_limits_are_looser() {
        let names: BTreeSet<&str> = GOALS.iter().map(|goal| goal.name).collect();
        assert_eq!(names.len(), GOALS.len());
        for goal in GOALS {
            match (goal.limit, goal.quick) {
                (_, None) => {}
                (AtMost(limit), Some(AtMost(quick))) => assert!(quick > limit, "{}", goal.name),
                (AtLeast(limit), Some(AtLeast(quick))) => assert!(quick < limit, "{}", goal.name),
                (limit, quick) => panic!("{}: {limit:?} and {quick:?} are different kinds", goal.name),
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let mut sicr = Measured::new("sicr", "");
        sicr.found("sicr", 3.5);
        let mut peers = Measured::new("peers", "");
        peers.error = Some("no python3".to_owned());
        let mut depth = Measured::new("depth", "");
        depth.found("depth", f64::NAN);
        let verdicts = judge(&[sicr, peers, depth], false);
        assert_eq!(verdicts.len(), GOALS.len());
        let of = |name| verdicts.iter().find(|verdict| verdict.goal == name).unwrap();
        assert_eq!((of("sicr").measured, of("sicr").met), (Some(3.5), Some(false)));
        assert_eq!((of("peers").met, of("peers").reason.as_deref()), (None, Some("no python3")));
        assert_eq!((of("depth").measured, of("depth").met), (None, None));
        assert_eq!(of("literal").reason.as_deref(), Some("the scenario was not asked for"));
    }

    #[test]
    fn quick_judges_only_its_own_goals_by_its_own_limits() {
        let mut sicr = Measured::new("sicr", "");
        sicr.found("sicr", 3.5);
        let verdicts = judge(&[sicr], true);
        assert_eq!(verdicts.len(), GOALS.iter().filter(|goal| goal.quick.is_some()).count());
        assert_eq!(verdicts[0].met, Some(true));
    }
}
