//! `instances`: several processes at once, and several connections of one.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::super::figures::{Measured, Variant};
use super::super::results::grouped;
use super::super::stage::{Index, Stage, Template};
use super::super::stats::float;
use super::super::timeline::seconds;
use super::super::worker::{Run, Settings, finish};
use super::throughput::sessions;

/// Processes, and connections of each.
const TEAMS: [(usize, usize); 5] = [(1, 1), (2, 1), (4, 1), (1, 2), (1, 4)];

/// Chains of ten.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let template = sessions(stage, stage.rows, 10).await?;
    let rows = template.deletable();
    let what = format!(
        "{} sessions due, in chains of 10: one, two and four processes, and connections of one process",
        grouped(rows)
    );
    let mut measured = Measured::new("instances", what);
    let mut variants = TEAMS.map(|(processes, connections)| {
        Variant::timed(format!("processes: {processes}, connections each: {connections}"), rows)
    });
    let rounds = stage.rounds(rows);
    stage.progress.expect(rounds * TEAMS.len());
    let mut wrong = None;
    for _ in 0..rounds {
        for ((processes, connections), variant) in TEAMS.into_iter().zip(&mut variants) {
            let label = format!("instances: {}", variant.label);
            let took = stage.timed(label, async |stage| {
                let (took, deleted) = together(stage, &template, processes, connections).await?;
                if deleted != rows {
                    wrong = Some(deleted);
                }
                Ok(took)
            });
            variant.push_time(took.await?);
        }
    }
    let [one, two, _, connected, _] = &variants;
    measured.found("instances", one.median() / two.median());
    measured.found("concurrency", one.median() / connected.median());
    measured.found("instances-exact", float(wrong.unwrap_or(rows)) / float(rows));
    measured.input("due", rows);
    measured.input("rounds", rounds);
    measured.notes.push("From the first `job started` to the last `job completed`.".to_owned());
    measured.variants = variants.to_vec();
    Ok(measured)
}

/// How long they took from the first start to the last end, and how much they deleted in all.
async fn together(
    stage: &Stage,
    template: &Template,
    processes: usize,
    connections: usize,
) -> Result<(Duration, u64)> {
    let copy = stage.copy(template, Index::Without).await?;
    let settings = Settings::full_speed().set("CONCURRENCY", connections);
    let mut running = JoinSet::new();
    for _ in 0..processes {
        running.spawn(finish(stage.worker.start(copy.url(), &settings)?));
    }
    let mut runs: Vec<Run> = Vec::new();
    while let Some(run) = running.join_next().await {
        runs.push(run??);
    }
    copy.drop().await?;
    let started = runs.iter().map(|run| run.timeline.started_at).min().context("no process")?;
    let completed = runs.iter().map(|run| run.timeline.completed_at).max().context("no process")?;
    let deleted = runs.iter().map(|run| run.deleted).sum();
    Ok((Duration::from_secs_f64(seconds(started, completed).max(0.0)), deleted))
}
