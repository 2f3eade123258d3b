//! What was measured, as it goes into `bench.json` and onto the page. Measures nothing and judges nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::stats::{Summary, float};

/// What a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Of wall-clock time.
    Seconds,
    /// Of wall-clock time.
    Milliseconds,
    /// Of memory.
    Mebibytes,
    /// One quantity by another.
    Ratio,
}

/// One way of doing the work of a scenario, measured once per round.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    /// What a reader calls it.
    pub label: String,
    /// Whether it is what the subject is compared with.
    pub comparison: bool,
    /// Rows it deletes or counts; 0 where that is not what it is about.
    pub rows: u64,
    /// Of the samples.
    pub unit: Unit,
    /// One per round, in the order of the rounds.
    pub samples: Vec<f64>,
    /// Of the samples; `None` before the first.
    pub summary: Option<Summary>,
}

/// Points that belong together on the page.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What a reader calls it.
    pub label: String,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
}

/// How the points of a chart are drawn.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Lines over an axis of numbers.
    Lines,
    /// Lines over names, one for each point of a curve, at equal distances.
    Steps(Vec<String>),
    /// Bars beside each other over names, one for each point of a curve.
    Bars(Vec<String>),
}

/// Curves that share their axes.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Over the chart.
    pub title: String,
    /// How they are drawn.
    pub form: Form,
    /// What x counts.
    pub x: String,
    /// What y counts.
    pub y: String,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// The value a goal is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Subject by comparison, or whatever quantity the goal limits.
    pub value: f64,
    /// How much more the subject takes than its comparison, in milliseconds, where the goal allows for that.
    pub extra_ms: Option<f64>,
}

/// All that a scenario found out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// Of the scenario.
    pub name: String,
    /// What was done, in a sentence.
    pub what: String,
    /// Numbers of rows, rounds, settings and whatever else it takes to do it again.
    pub inputs: BTreeMap<String, Value>,
    /// What was measured.
    pub variants: Vec<Variant>,
    /// By the name of the goal.
    pub findings: BTreeMap<String, Finding>,
    /// What is drawn on the page.
    pub charts: Vec<Chart>,
    /// What a reader must know to read the figures right.
    pub notes: Vec<String>,
    /// How long it took altogether.
    pub took_seconds: f64,
    /// Why it could not be measured.
    pub error: Option<String>,
}

impl Variant {
    /// Nothing measured yet.
    pub fn new(label: impl Into<String>, rows: u64, unit: Unit) -> Self {
        Self { label: label.into(), comparison: false, rows, unit, samples: Vec::new(), summary: None }
    }

    /// The same as a comparison.
    pub fn compared(self) -> Self {
        Self { comparison: true, ..self }
    }

    /// Seconds that deleting `rows` rows takes.
    pub fn timed(label: impl Into<String>, rows: u64) -> Self {
        Self::new(label, rows, Unit::Seconds)
    }

    /// Adds the sample of a round.
    pub fn push(&mut self, sample: f64) {
        self.samples.push(sample);
        self.summary = Summary::of(&self.samples);
    }

    /// Adds the time of a round.
    pub fn push_time(&mut self, time: Duration) {
        self.push(time.as_secs_f64());
    }

    /// The median; not a number before the first sample.
    pub fn median(&self) -> f64 {
        self.summary.map_or(f64::NAN, |summary| summary.median)
    }

    /// Median time by rows.
    pub fn per_row(&self) -> f64 {
        self.median() / float(self.rows)
    }
}

impl Measured {
    /// Nothing measured yet.
    pub fn new(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { name: name.into(), what: what.into(), ..Self::default() }
    }

    /// Records something it takes to do it again.
    pub fn input(&mut self, name: &str, value: impl Into<Value>) {
        self.inputs.insert(name.to_owned(), value.into());
    }

    /// Records what a goal is judged by.
    pub fn found(&mut self, goal: &str, value: f64) {
        self.findings.insert(goal.to_owned(), Finding { value, extra_ms: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_knows_its_median_per_row() {
        let mut variant = Variant::timed("worker", 4);
        assert!(variant.median().is_nan());
        for seconds in [9, 2, 1] {
            variant.push_time(Duration::from_secs(seconds));
        }
        assert_eq!(variant.summary, Some(Summary { median: 2.0, min: 1.0, max: 9.0 }));
        assert!((variant.per_row() - 0.5).abs() < f64::EPSILON);
    }
}
