//! `sicr`, `chains-*` and `depth`: the worker at full speed beside one unbounded DELETE of the same rows.

use std::sync::Arc;

use anyhow::Result;

use super::super::figures::{Chart, Curve, Form, Measured, Variant};
use super::super::results::grouped;
use super::super::sql::{REQUESTS, SESSIONS, Table};
use super::super::stage::{Index, Stage, Template};
use super::super::stats::float;
use super::super::worker::{Run, Settings};
use super::Name;
use crate::seed::{Depths, Shape};

/// The depths that are compared, with the scenarios they belong to.
pub const DEPTHS: [(Name, u32); 4] =
    [(Name::Chains1, 1), (Name::Chains10, 10), (Name::Chains1000, 1000), (Name::Chains8640, 8640)];

/// Fewer batches make no curve.
const MIN_BATCHES: usize = 8;
/// How far the four may lie apart.
const DEPTH: &str = "depth";

/// One template measured in every way.
struct Subject {
    table: Table,
    template: Arc<Template>,
    full_speed: Variant,
    defaults: Variant,
    delete: Variant,
    last: Option<Run>,
}

impl Subject {
    fn new(table: Table, template: Arc<Template>) -> Self {
        let rows = template.deletable();
        Self {
            table,
            template,
            full_speed: Variant::timed("worker, no pause", rows),
            defaults: Variant::timed("worker, defaults", rows),
            delete: Variant::timed("one unbounded DELETE", rows).compared(),
            last: None,
        }
    }

    /// Measures each variant once.
    async fn round(&mut self, stage: &mut Stage) -> Result<()> {
        let (template, table) = (&*self.template, self.table);
        let label = |variant: &Variant| format!("{}: {}", template.name, variant.label);
        let last = &mut self.last;
        let took = stage.timed(label(&self.full_speed), async |stage| {
            let run = stage.drain(template, Index::Without, &Settings::full_speed()).await?;
            Ok(last.insert(run).duration)
        });
        self.full_speed.push_time(took.await?);
        let took = stage.timed(label(&self.delete), async |stage| {
            stage.delete_at_once(template, table, Index::Without).await
        });
        self.delete.push_time(took.await?);

        // Its pauses are no news to a guard that looks at ratios.
        if !stage.quick {
            let took = stage.timed(label(&self.defaults), async |stage| {
                Ok(stage.drain(template, Index::Without, &Settings::defaults()).await?.duration)
            });
            self.defaults.push_time(took.await?);
        }
        Ok(())
    }

    fn measured(self, name: &str, what: String) -> Measured {
        let mut measured = Measured::new(name, what);
        measured.input("rows", self.template.seeded.sicr.rows + self.template.seeded.refresh.rows);
        measured.input("due", self.template.deletable());
        measured.input("rounds", self.full_speed.samples.len());
        measured.found(name, self.full_speed.median() / self.delete.median());
        measured.charts.extend(self.last.and_then(|run| batch_chart(&run)));
        let variants = [self.full_speed, self.defaults, self.delete];
        measured.variants.extend(variants.into_iter().filter(|variant| !variant.samples.is_empty()));
        measured
    }
}

/// What every batch of a run took; `None` below so many that there is nothing to see.
pub fn batch_chart(run: &Run) -> Option<Chart> {
    let times = run.timeline.batch_times();
    // The first batch is not in it.
    let points = (2_u64..).zip(&times).map(|(batch, time)| (float(batch), time * 1e3)).collect();
    (times.len() >= MIN_BATCHES).then(|| Chart {
        title: "Time per batch over a run".to_owned(),
        form: Form::Lines,
        x: "batch".to_owned(),
        y: "ms".to_owned(),
        curves: vec![Curve { label: "worker, no pause".to_owned(), points }],
    })
}

/// Half of the confirmation requests due.
pub async fn sicr(stage: &mut Stage) -> Result<Measured> {
    let template = requests(stage).await?;
    let what = format!(
        "{} confirmation requests due of {}",
        grouped(stage.rows.into()),
        grouped(template.seeded.sicr.rows)
    );
    let mut subject = Subject::new(REQUESTS, template);
    let rounds = stage.rounds(stage.rows.into());
    stage.progress.expect(rounds * if stage.quick { 2 } else { 3 });
    for _ in 0..rounds {
        subject.round(stage).await?;
    }
    Ok(subject.measured("sicr", what))
}

/// The depths that are asked for, round by round beside each other, and how far they lie apart.
pub async fn chains(stage: &mut Stage, names: &[Name]) -> Result<Vec<Measured>> {
    let all = names.contains(&Name::Depth);
    let depths = DEPTHS.into_iter().filter(|(name, _)| all || names.contains(name));
    let mut subjects = Vec::new();
    for (name, depth) in depths {
        let template = sessions(stage, stage.rows, depth).await?;
        subjects.push((name, depth, Subject::new(SESSIONS, template)));
    }
    let rounds = stage.rounds(stage.rows.into());
    stage.progress.expect(rounds * subjects.len() * if stage.quick { 2 } else { 3 });
    for _ in 0..rounds {
        for (_, _, subject) in &mut subjects {
            subject.round(stage).await?;
        }
    }
    let per_row: Vec<(String, f64)> = subjects
        .iter()
        .map(|(_, depth, subject)| (depth.to_string(), subject.full_speed.per_row()))
        .collect();
    let mut measured: Vec<Measured> = subjects
        .into_iter()
        .map(|(name, depth, subject)| {
            let what = format!(
                "{} sessions due, in chains of {}",
                grouped(subject.template.deletable()),
                grouped(depth.into())
            );
            subject.measured(&name.text(), what)
        })
        .collect();
    measured.extend(all.then(|| depth(&per_row)));
    Ok(measured)
}

fn depth(per_row: &[(String, f64)]) -> Measured {
    let mut measured = Measured::new(DEPTH, "Time per row by depth of the chains, worker without pause");
    let (mut fastest, mut slowest) = (f64::INFINITY, f64::NEG_INFINITY);
    for (depth, seconds) in per_row {
        (fastest, slowest) = (fastest.min(*seconds), slowest.max(*seconds));
        measured.input(&format!("microseconds_per_row_at_depth_{depth}"), seconds * 1e6);
    }
    measured.found(DEPTH, slowest / fastest);
    measured
}

/// As many requests again that are too young as are due.
pub async fn requests(stage: &mut Stage) -> Result<Arc<Template>> {
    let rows = stage.rows;
    let shape = Shape { sicr_due: rows, sicr_fresh: rows, ..Shape::default() };
    stage.template(format!("requests {rows}"), &[shape]).await
}

/// Sessions that are all due, in chains of one depth.
pub async fn sessions(stage: &mut Stage, rows: u32, depth: u32) -> Result<Arc<Template>> {
    let shape = Shape { refresh_due: rows, depths: Depths::uniform(depth)?, ..Shape::default() };
    stage.template(format!("chains-{depth} {rows}"), &[shape]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_depth_is_compared_with_the_fastest() {
        let measured = depth(&[("1".to_owned(), 2e-6), ("10".to_owned(), 1e-6), ("1000".to_owned(), 3e-6)]);
        let ratio = measured.findings[DEPTH].value;
        assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
    }
}
