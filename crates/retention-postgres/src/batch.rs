//! One batch: which of its rows go, within one transaction.

use retention_domain::plan::Target;
use retention_domain::{BatchDone, BatchRequest, RowAddress, WindowRow, forest};
use sea_orm::Statement;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::address::{address, parent};
use crate::session::{Session, query};
use crate::sql::{self, LeafRule};

/// What the deleting statement did.
struct Taken {
    locked: u64,
    deleted: u64,
    tried: bool,
}

/// Deletes what is due and free of the rows asked for, within the open transaction.
///
/// At first all rows at once: almost always they are all there, and nobody else holds one. Only when that is not so, or
/// somebody else was met before, they are looked at one by one: what is locked by us and not referred to by a row that
/// stays is planned with the domain's own leaf rule, and deleted with the same statement.
///
/// # Safety argument
/// Nothing is deleted but by [`sql::delete_batch`], which argues its own safety and believes nothing that is found out
/// here. What is looked up stays true until it is used, because the rows stay locked by this transaction; a row that
/// comes to refer to them meanwhile is found by that statement or by the foreign key.
pub(crate) async fn delete(
    session: &mut Session,
    target: &Target,
    request: &BatchRequest,
) -> Result<BatchDone, sqlx::Error> {
    let rows = &request.rows;
    let flat = target.policy.parent_column.is_none();
    if flat || !request.contended {
        let taken = take(session, target, rows, LeafRule::ForeignKey).await?;
        if taken.tried {
            return settle(session, target, rows, taken).await;
        }
    }
    let due = addresses(session, sql::still_due(target, rows, false)).await?.len();
    let kin = query(sql::lock_kin(target, rows)).fetch_all(&mut ***session).await?;
    let kin = kin.iter().map(kin_row).collect::<Result<Vec<_>, _>>()?;
    let held = due.saturating_sub(kin.len()) as u64;
    let missing = (rows.len() as u64).saturating_sub(held + kin.len() as u64);
    let free = forest::plan(&kin).rows;
    let mut done = BatchDone { held, missing, ..BatchDone::default() };
    if !free.is_empty() {
        let taken = take(session, target, &free, LeafRule::Lookup).await?;
        if taken.tried {
            let settled = settle(session, target, &free, taken).await?;
            done.deleted = settled.deleted;
            done.stayed = settled.stayed;
        } else {
            // Somebody refers to one of them since they were looked at. Which are free now, the next pass sees.
            done.missing += free.len() as u64;
        }
    }
    Ok(done)
}

async fn take(
    session: &mut Session,
    target: &Target,
    rows: &[RowAddress],
    rule: LeafRule,
) -> Result<Taken, sqlx::Error> {
    let row = query(sql::delete_batch(target, rows, rule)).fetch_one(&mut ***session).await?;
    let count = |column| row.try_get::<i64, _>(column).map(|count| u64::try_from(count).unwrap_or_default());
    Ok(Taken { locked: count("locked")?, deleted: count("deleted")?, tried: row.try_get("tried")? })
}

/// Accounts for the rows asked for that did not go.
async fn settle(
    session: &mut Session,
    target: &Target,
    rows: &[RowAddress],
    taken: Taken,
) -> Result<BatchDone, sqlx::Error> {
    let mut done = BatchDone { deleted: taken.deleted, ..BatchDone::default() };
    if taken.deleted == rows.len() as u64 {
        return Ok(done);
    }
    let left = addresses(session, sql::still_due(target, rows, false)).await?.len() as u64;
    if taken.deleted < taken.locked {
        // Ours, and yet still there.
        done.stayed = addresses(session, sql::still_due(target, rows, true)).await?;
    }
    done.held = left.saturating_sub(done.stayed.len() as u64);
    done.missing = (rows.len() as u64).saturating_sub(taken.deleted + left);
    Ok(done)
}

async fn addresses(session: &mut Session, statement: Statement) -> Result<Vec<RowAddress>, sqlx::Error> {
    query(statement).fetch_all(&mut ***session).await?.iter().map(address).collect()
}

fn kin_row(row: &PgRow) -> Result<WindowRow, sqlx::Error> {
    Ok(WindowRow::new(address(row)?, parent(row)?, row.try_get("held_back")?))
}
