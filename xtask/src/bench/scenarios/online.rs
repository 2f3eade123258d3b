//! `online`: what people who sign in notice of the worker, and of one unbounded DELETE in its stead.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};

use super::super::figures::{Chart, Curve, Finding, Form, Measured, Unit, Variant};
use super::super::results::grouped;
use super::super::signin::{CLIENTS, Pace, Seen, sign_in};
use super::super::sql::{REQUESTS, SESSIONS, Table};
use super::super::stage::{Index, Stage, Template};
use super::super::stats::{float, percentile, sorted};
use super::super::worker::Settings;
use crate::seed::{Depths, Shape};

/// From so many rows on rounds are long enough to say something.
const FULL: u32 = 500_000;
const ROUNDS: usize = 5;
/// Of the capacity.
const LOAD: f64 = 0.4;
const WARM_UP: Duration = Duration::from_secs(2);
/// Far more than a worker needs to end after a signal.
const DEADLINE: Duration = Duration::from_mins(2);
const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// What happens beside the sign-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Worker,
    Delete,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::Worker, Self::Delete];

    fn text(self) -> &'static str {
        match self {
            Self::Nothing => "without worker",
            Self::Worker => "with worker, defaults",
            Self::Delete => "with one unbounded DELETE",
        }
    }
}

/// The normal size due in both tables, a fifth as many rows beside them.
pub async fn measure(stage: &mut Stage) -> Result<Measured> {
    let rows = stage.rows;
    let shape = Shape {
        sicr_due: rows,
        sicr_fresh: rows / 5,
        refresh_due: rows,
        refresh_fresh: rows / 5,
        depths: Depths::uniform(10)?,
        ..Shape::default()
    };
    let name = format!("online {rows}");
    let template = stage.template(&name, &[shape]).await?;
    let round = Duration::from_secs(if rows >= FULL { 30 } else { 3 });

    stage.progress.begin("online: calibrating");
    let copy = stage.copy(&template, Index::Without).await?;
    let seen = sign_in(copy.url(), Pace::Closed, WARM_UP, round / 3).await?;
    copy.drop().await?;
    ensure!(seen.errors == 0, "{} operations failed while calibrating: {:?}", seen.errors, seen.an_error);
    let capacity = float(seen.latencies_ms.len() as u64) / (round / 3).as_secs_f64();
    let per_second = capacity * LOAD;
    stage
        .progress
        .say(format_args!("online: {capacity:.0} operations a second at most, {per_second:.0} from now on"));

    let what = format!(
        "{per_second:.0} operations of sign-in a second, which is {:.0} % of the capacity, while {} rows in each \
         table are due",
        LOAD * 100.0,
        grouped(rows.into())
    );
    let mut measured = Measured::new("online", what);
    let mut variants = Beside::ALL.map(|beside| {
        PERCENTILES
            .map(|percent| Variant::new(format!("{}, p{percent}", beside.text()), 0, Unit::Milliseconds))
    });
    stage.progress.expect(ROUNDS * Beside::ALL.len());
    let (mut errors, mut at_work) = (0, Vec::new());
    for _ in 0..ROUNDS {
        for (beside, variants) in Beside::ALL.into_iter().zip(&mut variants) {
            stage.progress.begin(format_args!("online: {}", beside.text()));
            let (seen, busy) = one_round(stage, &template, beside, per_second, round).await?;
            errors += seen.errors;
            if let Some(error) = seen.an_error {
                measured.notes.push(format!("An operation failed {}: {error}", beside.text()));
            }
            at_work.extend(busy.map(|busy| (beside, busy)));
            let latencies = sorted(&seen.latencies_ms);
            let mut said = Vec::new();
            for (percent, variant) in PERCENTILES.into_iter().zip(variants) {
                let latency = percentile(&latencies, percent).context("no operation was measured")?;
                variant.push(latency);
                said.push(format!("p{percent} {latency:.2} ms"));
            }
            stage.progress.end(format_args!("online: {}: {}", beside.text(), said.join(", ")));
        }
    }
    drop(template);
    stage.forget(&name);

    let [[_, without_95, without_99], [_, with_95, with_99], _] = &variants;
    measured.found("online-p95", with_95.median() / without_95.median());
    let finding = Finding {
        value: with_99.median() / without_99.median(),
        extra_ms: Some(with_99.median() - without_99.median()),
    };
    measured.findings.insert("online-p99".to_owned(), finding);
    for (beside, sentence) in
        [(Beside::Worker, "The worker was at work"), (Beside::Delete, "The DELETEs took")]
    {
        let mut times = at_work.iter().filter(|(of, _)| *of == beside).map(|(_, busy)| busy.as_secs_f64());
        let shortest = times.by_ref().fold(f64::INFINITY, f64::min);
        measured
            .notes
            .push(format!("{sentence} for at least {shortest:.1} of the {} s of a round.", round.as_secs()));
    }
    measured.charts.push(Chart {
        title: "Latency of sign-in operations".to_owned(),
        form: Form::Bars(PERCENTILES.iter().map(|percent| format!("p{percent}")).collect()),
        x: String::new(),
        y: "ms".to_owned(),
        curves: Beside::ALL
            .into_iter()
            .zip(&variants)
            .map(|(beside, variants)| Curve {
                label: beside.text().to_owned(),
                points: PERCENTILES.into_iter().zip(variants.iter().map(Variant::median)).collect(),
            })
            .collect(),
    });
    measured.input("clients", CLIENTS);
    measured.input("capacity_per_second", capacity.round());
    measured.input("rate_per_second", per_second.round());
    measured.input("round_seconds", round.as_secs());
    measured.input("rounds", ROUNDS);
    measured.input("failed_operations", errors);
    measured.variants = variants.into_iter().flatten().collect();
    Ok(measured)
}

/// What the clients saw, and for how much of the time something was going on beside them.
async fn one_round(
    stage: &Stage,
    template: &Arc<Template>,
    beside: Beside,
    per_second: f64,
    round: Duration,
) -> Result<(Seen, Option<Duration>)> {
    let copy = stage.copy(template, Index::Without).await?;
    let pace = Pace::Open { per_second };
    let clients = sign_in(copy.url(), pace, WARM_UP, round);
    let outcome = match beside {
        Beside::Nothing => (clients.await?, None),
        Beside::Worker => {
            let mut worker = stage.worker.start(copy.url(), &Settings::defaults())?;
            let began = std::time::Instant::now();
            let (seen, busy) = {
                let ended = async {
                    let _ = worker.wait(DEADLINE).await;
                    began.elapsed()
                };
                tokio::pin!(clients, ended);
                tokio::select! {
                    seen = &mut clients => (seen?, None),
                    busy = &mut ended => (clients.await?, Some(busy)),
                }
            };
            if busy.is_none() {
                worker.signal(Signal::SIGTERM)?;
                worker.wait(DEADLINE).await?;
            }
            (seen, Some(busy.unwrap_or(round).min(round)))
        }
        Beside::Delete => {
            let deletes = tokio::spawn(delete_all(copy.url().to_owned()));
            let began = std::time::Instant::now();
            let seen = clients.await?;
            let busy = if deletes.is_finished() { deletes.await?? } else { began.elapsed() };
            (seen, Some(busy.min(round)))
        }
    };
    // Ends a DELETE that is still running.
    copy.drop().await?;
    Ok(outcome)
}

async fn delete_all(url: String) -> Result<Duration> {
    let began = std::time::Instant::now();
    let mut connection = PgConnection::connect(&url).await?;
    for Table { name, due } in [REQUESTS, SESSIONS] {
        raw_sql(AssertSqlSafe(format!("DELETE FROM {name} WHERE {due}"))).execute(&mut connection).await?;
    }
    Ok(began.elapsed())
}
