//! `blocked`: free rows among ten times as many old ones that must stay, beside the free rows alone.

use std::time::Duration;

use anyhow::Result;

use super::super::figures::{Measured, Variant};
use super::super::results::grouped;
use super::super::stage::{Index, Stage};
use super::super::worker::Settings;
use crate::seed::{Depths, Shape};

/// Rows per chain.
const DEPTH: u32 = 10;
/// Chains with a living leaf are this much older than their cutoff at most: long enough that nearly all of their rows
/// are due, and so blocked.
const AGE_SPAN: Duration = Duration::from_hours(3650 * 24);

/// Many batches also with `--quick`, so that blocked rows that every batch visits show.
const QUICK_BATCH: u32 = 50;

/// A twentieth of the normal size free, about half of it blocked.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let free = stage.rows / 20;
    // Ten blocked rows for each free one; of the ten rows of a chain, nine are blocked by its leaf.
    let active_chains = 10.0 * f64::from(free) / f64::from(DEPTH - 1);
    let all_chains = active_chains + f64::from(free / DEPTH);
    let shape = Shape {
        refresh_due: free,
        depths: Depths::uniform(DEPTH)?,
        active_share: active_chains / all_chains,
        age_span: AGE_SPAN,
        ..Shape::default()
    };
    let blocked = stage.template(format!("blocked {}", stage.rows), std::slice::from_ref(&shape)).await?;
    let others = u32::try_from(blocked.seeded.refresh.kept())?;
    let shape = Shape { refresh_fresh: others, active_share: 0.0, ..shape };
    let alone = stage.template(format!("alone {}", stage.rows), &[shape]).await?;

    let what = format!(
        "{} free sessions among {} blocked ones, beside the same number alone in a table of equal size",
        grouped(free.into()),
        grouped(blocked.seeded.refresh.blocked)
    );
    let mut measured = Measured::new("blocked", what);
    let mut variants = [
        (&blocked, Variant::timed("among blocked rows", free.into())),
        (&alone, Variant::timed("alone", free.into()).compared()),
    ];
    let rounds = stage.rounds(u64::from(free));
    stage.progress.expect(rounds * variants.len());
    let mut settings = Settings::full_speed();
    if stage.quick {
        settings = settings.set("BATCH_SIZE", QUICK_BATCH);
    }
    for _ in 0..rounds {
        for (template, variant) in &mut variants {
            let took = stage.timed(format!("blocked: {}", variant.label), async |stage| {
                Ok(stage.drain(template, Index::Without, &settings).await?.duration)
            });
            variant.push_time(took.await?);
        }
    }
    let [(_, among), (_, alone)] = variants;
    measured.found("blocked", among.median() / alone.median());
    measured.input("free", free);
    measured.input("blocked", blocked.seeded.refresh.blocked);
    measured.input("rows", blocked.seeded.refresh.rows);
    measured.input("rounds", rounds);
    measured.variants = vec![among, alone];
    Ok(measured)
}
