//! `growth` and `memory`: what a row costs, and how much memory a run takes, as the backlog grows.

use anyhow::Result;

use super::super::figures::{Chart, Curve, Form, Measured, Unit, Variant};
use super::super::results::grouped;
use super::super::sql::SESSIONS;
use super::super::stage::{Index, Stage};
use super::super::stats::float;
use super::super::worker::Settings;
use super::throughput::sessions;

/// Rows per chain.
const DEPTHS: [u32; 2] = [1, 10];
/// Many batches also in the small sizes of `--quick`, so that what every batch pays shows.
const QUICK_BATCH: u32 = 100;

/// One way of deleting, at each size.
struct Line {
    /// What a reader calls it.
    label: &'static str,
    /// The end of the goal's name; `None` for the comparison.
    goal: Option<&'static str>,
    index: Index,
    sizes: Vec<Variant>,
}

/// A tenth of the normal size, the normal size and, unless it has to be quick, ten times as much.
fn sizes(rows: u32, quick: bool) -> Vec<u32> {
    let sizes = [rows / 10, rows, rows.saturating_mul(10)];
    sizes[..if quick { 2 } else { 3 }].to_vec()
}

/// Single sessions and chains of ten, without and with the index, beside one unbounded DELETE.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let sizes = sizes(stage.rows, stage.quick);
    let mut measured =
        Measured::new("growth", "Time per row as the backlog grows, beside one unbounded DELETE");
    measured.input("due", sizes.clone());
    for depth in DEPTHS {
        let lines = of_depth(stage, depth, &sizes).await?;
        let mut chart = Chart {
            title: format!("Time per row as the backlog grows, chains of {depth}"),
            form: Form::Steps(sizes.iter().map(|&rows| grouped(rows.into())).collect()),
            x: "due rows".to_owned(),
            y: "µs per row".to_owned(),
            curves: Vec::new(),
        };
        for line in lines {
            let (Some(smallest), Some(largest)) = (line.sizes.first(), line.sizes.last()) else { continue };
            let growth = largest.per_row() / smallest.per_row();
            match line.goal {
                Some(end) => measured.found(&format!("growth-{depth}{end}"), growth),
                None => measured.notes.push(format!(
                    "Chains of {depth}: the unbounded DELETE's own time per row grows by {growth:.2} ×."
                )),
            }
            let points = line.sizes.iter().map(|size| (float(size.rows), size.per_row() * 1e6)).collect();
            chart.curves.push(Curve { label: line.label.to_owned(), points });
            measured.variants.extend(line.sizes);
        }
        measured.charts.push(chart);
        // The large ones take gigabytes; `memory` still wants those in chains of ten.
        if depth == 1 {
            for rows in &sizes {
                stage.forget(&format!("chains-1 {rows}"));
            }
        }
    }
    Ok(measured)
}

async fn of_depth(stage: &mut Stage, depth: u32, sizes: &[u32]) -> Result<Vec<Line>> {
    let line = |label, goal, index| Line { label, goal, index, sizes: Vec::new() };
    let mut lines = vec![line("worker", Some(""), Index::Without)];
    if !stage.quick {
        lines.push(line("worker, with the index", Some("-index"), Index::With));
    }
    lines.push(line("one unbounded DELETE", None, Index::Without));
    let mut templates = Vec::new();
    for &rows in sizes {
        let template = sessions(stage, rows, depth).await?;
        for line in &mut lines {
            let label = format!("{}, {} rows in chains of {depth}", line.label, grouped(rows.into()));
            let variant = Variant::timed(label, template.deletable());
            line.sizes.push(if line.goal.is_none() { variant.compared() } else { variant });
        }
        templates.push(template);
    }
    let mut settings = Settings::full_speed();
    if stage.quick {
        settings = settings.set("BATCH_SIZE", QUICK_BATCH);
    }
    let rounds: Vec<usize> = sizes.iter().map(|&rows| stage.rounds(rows.into())).collect();
    stage.progress.expect(rounds.iter().sum::<usize>() * lines.len());
    for round in 0..rounds.iter().max().copied().unwrap_or(0) {
        for (number, template) in templates.iter().enumerate().filter(|(number, _)| round < rounds[*number]) {
            for line in &mut lines {
                let variant = &mut line.sizes[number];
                let took = stage.timed(format!("growth: {}", variant.label), async |stage| match line.goal {
                    Some(_) => Ok(stage.drain(template, line.index, &settings).await?.duration),
                    None => stage.delete_at_once(template, SESSIONS, line.index).await,
                });
                variant.push_time(took.await?);
            }
        }
    }
    Ok(lines)
}

/// Peak memory at the normal size and at ten times as much; taken from the runs of other scenarios where there were any.
pub async fn memory(stage: &mut Stage) -> Result<Measured> {
    let mut measured = Measured::new("memory", "Peak resident memory of the worker's process, chains of 10");
    let mut peaks = Vec::new();
    for rows in [stage.rows, stage.rows.saturating_mul(10)] {
        let template = sessions(stage, rows, 10).await?;
        if stage.peak_mib(&template).is_none() {
            stage.progress.expect(1);
            stage
                .timed(format!("memory: {rows} rows"), async |stage| {
                    Ok(stage.drain(&template, Index::Without, &Settings::full_speed()).await?.duration)
                })
                .await?;
        }
        let mut peak =
            Variant::new(format!("{} rows due", grouped(rows.into())), template.deletable(), Unit::Mebibytes);
        peak.push(stage.peak_mib(&template).unwrap_or(f64::NAN));
        peaks.push(peak);
    }
    stage.forget(&format!("chains-10 {}", stage.rows.saturating_mul(10)));
    measured.input("due", peaks.iter().map(|peak| peak.rows).collect::<Vec<u64>>());
    measured.found("memory", peaks[1].median());
    measured.found("memory-growth", peaks[1].median() / peaks[0].median());
    measured.notes.push("The highest of all runs over these rows, read from the kernel (VmHWM).".to_owned());
    measured.variants = peaks;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_span_two_orders_of_magnitude_and_one_when_it_has_to_be_quick() {
        assert_eq!(sizes(1_000_000, false), [100_000, 1_000_000, 10_000_000]);
        assert_eq!(sizes(100_000, true), [10_000, 100_000]);
    }
}
