//! `literal`: the worker beside the literal reading of the specification.

use anyhow::Result;

use super::super::figures::{Measured, Variant};
use super::super::results::grouped;
use super::super::sql;
use super::super::stage::{Index, Stage};
use super::super::worker::Settings;
use super::throughput::sessions;

/// The loop looks at the whole table for every batch, so its time grows with the square of the rows: it takes minutes at
/// the normal size, once is enough.
const ROUNDS: usize = 1;
/// Rows of a batch, on both sides.
const BATCH_ROWS: u32 = 5000;

/// Chains of ten.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let template = sessions(stage, stage.rows, 10).await?;
    let rows = template.deletable();
    let what = format!("{} sessions due, in chains of 10: the worker beside the literal loop", grouped(rows));
    let mut measured = Measured::new("literal", what);
    let mut worker = Variant::timed("worker, no pause", rows);
    let mut literal = Variant::timed("literal loop", rows).compared();
    stage.progress.expect(ROUNDS * 2);
    for _ in 0..ROUNDS {
        let took = stage.timed("literal: worker, no pause", async |stage| {
            Ok(stage.drain(&template, Index::Without, &Settings::full_speed()).await?.duration)
        });
        worker.push_time(took.await?);
        let took = stage.timed("literal: literal loop", async |stage| {
            let copy = stage.copy(&template, Index::Without).await?;
            let took = sql::literal_loop(copy.url(), BATCH_ROWS).await?;
            copy.drop().await?;
            Ok(took)
        });
        literal.push_time(took.await?);
    }
    measured.found("literal", literal.median() / worker.median());
    measured.input("due", rows);
    measured.input("batch_rows", BATCH_ROWS);
    measured.input("rounds", ROUNDS);
    measured.notes.push("The loop's time grows with the square of the rows.".to_owned());
    measured.variants = vec![worker, literal];
    Ok(measured)
}
