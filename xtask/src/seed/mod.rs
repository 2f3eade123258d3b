//! `cargo xtask seed`: synthetic rows for capacity checks, and how many of them one run has to delete.
//!
//! Owns the way from a [`Shape`] to committed rows. The expectation in [`Seeded`] is counted by the generator
//! while it makes the rows, with its own reading of the rules, so a run can be compared with it. It does not
//! make rows that lie exactly on a boundary, are undated or broken: those belong to the tests.
//!
//! All rows go in by `COPY` in one transaction: a fill that fails leaves nothing behind. Where the server
//! permits it, foreign keys are not checked row by row: the rows are consistent by construction, and one
//! query looks for dangling references before the commit.

mod args;
mod chains;
mod copy;
mod plan;
mod requests;
mod seeded;
pub mod shape;
mod synthetic;
mod target;
mod timeline;
mod users;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use sqlx::{Connection, PgConnection};

pub use args::Args;
pub use seeded::Seeded;
pub use shape::{Depths, Shape};
pub use target::create_retention_index;

use chains::Forest;
use requests::Requests;
use shape::Moments;
use users::Users;

/// Runs the command: connects, fills, prints what was made to stdout.
///
/// # Errors
///
/// When an option is out of range, the database cannot be reached, or [`fill`] fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let (database_url, shape) = args.into_parts()?;
    shape.validate()?;
    let mut conn = PgConnection::connect(&database_url).await.context("connecting to the database")?;
    // Draws nothing unless stderr is a terminal.
    let progress = ProgressBar::new(0)
        .with_style(ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} rows {elapsed}")?);
    let started = Instant::now();
    let seeded = fill(&mut conn, &shape, &progress).await;
    progress.finish_and_clear();
    write!(
        std::io::stdout(),
        "{}\nseed {}, {:.1} s\n",
        seeded?,
        shape.seed,
        started.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// Fills the database behind `conn` with rows of this shape and says what a run should do with them.
///
/// The clock is read once, from the database. Rows that stay are at least [`shape::MARGIN`] younger than their
/// cutoff, so the expectation holds for a run that starts within that time and uses the default periods.
/// `progress` is told the number of rows and counts them; pass [`ProgressBar::hidden`] for none.
///
/// # Errors
///
/// When the shape is out of range, the schema is missing, a table is not empty (unless `shape.append`), or a
/// statement fails. Nothing was added then, unless it is the index or the analysis that failed.
pub async fn fill(conn: &mut PgConnection, shape: &Shape, progress: &ProgressBar) -> anyhow::Result<Seeded> {
    shape.validate()?;
    target::require_schema(conn).await?;
    let mut tx = conn.begin().await.context("opening the transaction")?;
    if !shape.append {
        target::require_empty(&mut tx).await?;
    }
    let moments = Moments::at(target::now(&mut tx).await?, shape.age_span);
    let foreign_keys_checked = !target::skip_foreign_key_checks(&mut tx).await?;

    progress.set_message("making chains");
    let users = Users::make(shape, &moments);
    let mut requests = Requests::new(shape, &moments, &users);
    let forest = Forest::grow(shape, &moments)?;
    progress.set_length(users.len() + u64::from(requests.total()) + forest.counts.rows);

    copy::rows(&mut tx, &users::TABLE, users.iter(), Users::write, progress).await?;
    copy::rows(&mut tx, &requests::TABLE, &mut requests, |row, out| row.write(out), progress).await?;
    let order = forest.insertion_order(shape);
    let write = |number: u32, out: &mut copy::CopyBuffer| forest.write(number, &users, &moments, out);
    copy::rows(&mut tx, &chains::TABLE, order.into_iter(), write, progress).await?;

    progress.set_message("finishing");
    if !foreign_keys_checked {
        target::require_no_dangling_reference(&mut tx).await?;
    }
    tx.commit().await.context("committing the rows")?;
    if shape.with_index {
        create_retention_index(conn).await?;
    }
    if shape.analyze {
        target::analyze(conn).await?;
    }
    Ok(Seeded {
        users: users.len(),
        chains: forest.chains,
        sicr: requests.counts,
        refresh: forest.counts,
        foreign_keys_checked,
    })
}
