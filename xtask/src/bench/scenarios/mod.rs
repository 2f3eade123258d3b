//! The scenarios: their names, the order in which they are measured, and who measures which.

mod blocked;
mod empty;
mod growth;
mod instances;
mod literal;
mod old_snapshot;
mod online;
mod peers;
mod throughput;

use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

use super::figures::Measured;
use super::stage::Stage;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Name {
    /// Confirmation requests, beside one unbounded DELETE
    Sicr,
    /// Single sessions, beside one unbounded DELETE
    #[value(name = "chains-1")]
    Chains1,
    /// Chains of ten
    #[value(name = "chains-10")]
    Chains10,
    /// Chains of a thousand
    #[value(name = "chains-1000")]
    Chains1000,
    /// Chains of 8,640: a year of hourly rotation
    #[value(name = "chains-8640")]
    Chains8640,
    /// The four depths beside each other
    Depth,
    /// Chains of ten, beside the literal loop
    Literal,
    /// Free rows among old ones that must stay
    Blocked,
    /// Batch times while a snapshot stays open
    OldSnapshot,
    /// A run with nothing to do
    Empty,
    /// Time per row from a tenth of the normal size to ten times as much
    Growth,
    /// Peak memory at the normal size and at ten times as much
    Memory,
    /// Several processes, several connections
    Instances,
    /// Latency of sign-ins beside the worker
    Online,
    /// The cleaners of others
    Peers,
}

impl Name {
    /// As on the command line and in the results.
    pub fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What `--quick` measures.
const QUICK: [Name; 9] = [
    Name::Sicr,
    Name::Chains1,
    Name::Chains10,
    Name::Chains1000,
    Name::Chains8640,
    Name::Depth,
    Name::Blocked,
    Name::OldSnapshot,
    Name::Growth,
];

/// The scenarios asked for, or all of them, each once and in the order in which they are measured.
pub fn selected(asked: &[Name], quick: bool) -> Vec<Name> {
    let all: Vec<Name> = if quick { QUICK.to_vec() } else { Name::value_variants().to_vec() };
    all.into_iter().filter(|name| asked.is_empty() || asked.contains(name)).collect()
}

/// Measures one of the scenarios that are asked for, with others where they are measured together. What fails is
/// reported in its place.
pub async fn measure(stage: &mut Stage, name: Name, asked: &[Name]) -> Vec<Measured> {
    let began = Instant::now();
    let measured = match one(stage, name, asked).await {
        Ok(measured) => measured,
        Err(error) => {
            stage.progress.say(format_args!("{}: FAILED: {error:#}", name.text()));
            vec![Measured { error: Some(format!("{error:#}")), ..Measured::new(name.text(), "") }]
        }
    };
    let took_seconds = began.elapsed().as_secs_f64();
    measured.into_iter().map(|measured| Measured { took_seconds, ..measured }).collect()
}

async fn one(stage: &mut Stage, name: Name, names: &[Name]) -> Result<Vec<Measured>> {
    match name {
        Name::Sicr => Ok(vec![throughput::sicr(stage).await?]),
        Name::Chains1 | Name::Chains10 | Name::Chains1000 | Name::Chains8640 | Name::Depth => {
            throughput::chains(stage, names).await
        }
        Name::Literal => Ok(vec![literal::measure(stage).await?]),
        Name::Blocked => Ok(vec![blocked::measure(stage).await?]),
        Name::OldSnapshot => Ok(vec![old_snapshot::measure(stage).await?]),
        Name::Empty => Ok(vec![empty::measure(stage).await?]),
        Name::Growth => Ok(vec![growth::measure(stage).await?]),
        Name::Memory => Ok(vec![growth::memory(stage).await?]),
        Name::Instances => Ok(vec![instances::measure(stage).await?]),
        Name::Online => Ok(vec![online::measure(stage).await?]),
        Name::Peers => Ok(vec![peers::measure(stage).await?]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::goals::GOALS;
    use super::*;

    #[test]
    fn every_goal_belongs_to_a_scenario_and_every_scenario_has_a_goal() {
        let names: Vec<String> = Name::value_variants().iter().map(|name| name.text()).collect();
        for goal in GOALS {
            assert!(names.iter().any(|name| name == goal.scenario), "{}", goal.name);
            let is_quick = QUICK.iter().any(|name| name.text() == goal.scenario);
            assert!(goal.quick.is_none() || is_quick, "{}", goal.name);
        }
        for name in names {
            assert!(GOALS.iter().any(|goal| goal.scenario == name), "{name}");
        }
    }

    #[test]
    fn each_is_measured_once_and_in_order() {
        assert_eq!(selected(&[Name::Depth, Name::Sicr, Name::Depth], false), [Name::Sicr, Name::Depth]);
        assert_eq!(selected(&[], true), QUICK);
        assert_eq!(selected(&[], false).len(), Name::value_variants().len());
    }
}
