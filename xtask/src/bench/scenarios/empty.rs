//! `empty`: what a run costs that has nothing to delete, beside one count.

use anyhow::Result;

use super::super::figures::{Measured, Variant};
use super::super::results::grouped;
use super::super::sql::{SESSIONS, count};
use super::super::stage::{Index, Stage};
use super::super::worker::Settings;
use crate::seed::{Depths, Shape};

/// Reads nothing but what it finds, so the copies serve every round.
const ROUNDS: usize = 5;

/// Five times the normal size in both tables, all too young.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let rows = stage.rows.saturating_mul(5);
    let shape =
        Shape { sicr_fresh: rows, refresh_fresh: rows, depths: Depths::uniform(10)?, ..Shape::default() };
    let name = format!("fresh {rows}");
    let template = stage.template(&name, &[shape]).await?;
    let what = format!(
        "Nothing due among {rows} requests and {rows} sessions: a run beside one count(*) with the predicate of the \
         policy, without the index",
        rows = grouped(rows.into())
    );
    let mut measured = Measured::new("empty", what);
    let plain = stage.copy(&template, Index::Without).await?;
    let indexed = stage.copy(&template, Index::With).await?;
    let mut run_plain = Variant::timed("run without the index", 0);
    let mut run_indexed = Variant::timed("run with the index", 0);
    let mut counted = Variant::timed("count(*) without the index", 0).compared();
    stage.progress.expect(ROUNDS * 3);
    // Once each unmeasured: the first to read a copy reads it from the disk.
    for url in [plain.url(), indexed.url()] {
        stage.worker.run(url, &Settings::full_speed()).await?;
    }
    for _ in 0..ROUNDS {
        for (variant, url) in [(&mut run_plain, plain.url()), (&mut run_indexed, indexed.url())] {
            let took = stage.timed(format!("empty: {}", variant.label), async |stage| {
                let run = stage.worker.run(url, &Settings::full_speed()).await?;
                stage.check(&template, &run)?;
                Ok(run.duration)
            });
            variant.push_time(took.await?);
        }
        let took = stage.timed("empty: count(*)", async |_| count(plain.url(), SESSIONS).await);
        counted.push_time(took.await?);
    }
    plain.drop().await?;
    indexed.drop().await?;
    drop(template);
    stage.forget(&name);
    measured.found("empty", run_plain.median() / counted.median());
    measured.found("empty-index", run_indexed.median() / counted.median());
    measured.input("rows_per_table", rows);
    measured.input("rounds", ROUNDS);
    measured.variants = vec![run_plain, run_indexed, counted];
    Ok(measured)
}
