//! `old-snapshot`: whether batches become slower while a transaction is open that still sees every deleted row, so that
//! no dead row can be cleaned away.

use std::sync::Arc;

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection, raw_sql};

use super::super::figures::{Chart, Curve, Measured, Unit, Variant};
use super::super::stage::{Index, Stage, Template};
use super::super::worker::{Run, Settings};
use super::throughput::{batch_chart, requests, sessions};

/// One table's part.
struct Part {
    /// What a reader calls it, and the end of the goal's name.
    name: &'static str,
    template: Arc<Template>,
    open: Variant,
    closed: Variant,
    last: Option<Run>,
}

/// Both tables, with the transaction and without it.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let part = |name, template: Arc<Template>| {
        let variant = |when: &str| Variant::new(format!("{name}, {when}"), template.deletable(), Unit::Ratio);
        Part { name, open: variant("snapshot open"), closed: variant("none open"), last: None, template }
    };
    let rows = stage.rows;
    let mut parts =
        [part("sicr", requests(stage).await?), part("chains-10", sessions(stage, rows, 10).await?)];
    let what = "Mean batch time of the last quarter of a run by that of the first, while a snapshot from before the run \
                stays open";
    let mut measured = Measured::new("old-snapshot", what);
    let settings = Settings::full_speed().set("BATCH_SIZE", Stage::batch_size(rows.into()));
    let rounds = stage.rounds(rows.into());
    stage.progress.expect(rounds * if stage.quick { 2 } else { 4 });
    for _ in 0..rounds {
        for part in &mut parts {
            stage.progress.begin(&part.open.label);
            let run = drain_under_snapshot(stage, &part.template, &settings).await?;
            let slowdown = run.timeline.slowdown().context("too few batches for quarters")?;
            stage.progress.end(format_args!("old-snapshot: {}: {slowdown:.2} ×", part.open.label));
            part.open.push(slowdown);
            part.last = Some(run);
            if !stage.quick {
                stage.progress.begin(&part.closed.label);
                let run = stage.drain(&part.template, Index::Without, &settings).await?;
                let slowdown = run.timeline.slowdown().context("too few batches for quarters")?;
                stage.progress.end(format_args!("old-snapshot: {}: {slowdown:.2} ×", part.closed.label));
                part.closed.push(slowdown);
            }
        }
    }
    measured.input("due", rows);
    measured.input("batch_size", Stage::batch_size(rows.into()));
    measured.input("rounds", rounds);
    let mut chart = None;
    for part in parts {
        measured.found(&format!("old-snapshot-{}", part.name), part.open.median());
        if let Some(of_run) = part.last.as_ref().and_then(batch_chart) {
            let chart = chart.get_or_insert_with(|| Chart {
                title: "Time per batch under an old snapshot".to_owned(),
                curves: Vec::new(),
                ..of_run.clone()
            });
            let curves = of_run.curves.into_iter();
            chart.curves.extend(curves.map(|curve| Curve { label: part.name.to_owned(), ..curve }));
        }
        let variants = [part.open, part.closed];
        measured.variants.extend(variants.into_iter().filter(|variant| !variant.samples.is_empty()));
    }
    measured.charts.extend(chart);
    Ok(measured)
}

async fn drain_under_snapshot(stage: &mut Stage, template: &Template, settings: &Settings) -> Result<Run> {
    let copy = stage.copy(template, Index::Without).await?;
    let mut reader = PgConnection::connect(copy.url()).await?;
    let mut transaction = reader.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    // The snapshot is taken by the first statement, not by BEGIN.
    raw_sql("SELECT count(*) FROM identity.users").execute(&mut *transaction).await?;
    let run = stage.worker.run(copy.url(), settings).await?;
    transaction.rollback().await?;
    reader.close().await?;
    copy.drop().await?;
    stage.check(template, &run)?;
    Ok(run)
}
