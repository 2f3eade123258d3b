//! One batch: which of its rows go, within one transaction.

use std::collections::BTreeMap;

use retention_domain::plan::Target;
use retention_domain::policy::Disposition;
use retention_domain::{BatchDone, BatchRequest, FailureKind, RowAddress, TableName, WindowRow, forest};
use sea_orm::Statement;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::address::{Partitions, address, parent};
use crate::destination;
use crate::error::{Refused, classify_sqlstate};
use crate::session::{Session, query};
use crate::sql::{self, Approach, Deletion, Place};

/// What the deleting statement did.
struct Taken {
    locked: u64,
    deleted: u64,
    tried: bool,
}

/// Deletes what is due and free of the rows asked for, within the open transaction, and records it in the policy's
/// ledger.
///
/// At first all rows at once: almost always they are all there, and nobody else holds one. When that is not so it fails, and
/// the batch comes back as contended: then what nobody holds is locked first, and where there is a leaf rule, what no row
/// that stays refers to is planned with the domain's own rule before it is deleted.
///
/// # Safety argument
/// Nothing is deleted but by [`sql::delete_batch`], which argues its own safety and believes nothing that is found out
/// here. What is looked up stays true until it is used, because the rows stay locked by this transaction; a row that
/// comes to refer to them meanwhile is found by that statement or by the foreign key.
pub(crate) async fn delete(
    session: &mut Session,
    target: &Target,
    request: &BatchRequest,
    partitions: &Partitions,
) -> Result<BatchDone, sqlx::Error> {
    let archived = destination::archived(session, target).await?;
    let mut done = BatchDone::default();
    for (place, rows) in places(session, &request.rows, partitions).await? {
        let Some(place) = place else {
            done.missing += rows.len() as u64;
            continue;
        };
        let here = Here { target, place: &place, archived: &archived };
        let part = if request.contended {
            here.contended(session, &rows).await?
        } else {
            here.at_once(session, &rows).await?
        };
        let oid = if let Place::Partition { oid, .. } = place { Some(oid) } else { None };
        let stayed = part.stayed.into_iter().map(|row| oid.map_or(Ok(row), |oid| partitions.place(row, oid)));
        done.stayed.append(&mut stayed.collect::<Result<Vec<_>, _>>()?);
        done.deleted += part.deleted;
        done.held += part.held;
        done.moved += part.moved;
        done.missing += part.missing;
    }
    if let Some(ledger) = target.policy.audit_table.as_ref().filter(|_| done.deleted > 0) {
        let entry = sql::ledger_entry(ledger, target, &request.job_run_id, done.deleted);
        let written = query(entry).execute(&mut ***session).await;
        if written.map_err(|error| of_the_ledger(ledger, error))?.rows_affected() != 1 {
            return Err(Refused::fatal(format!(
                "the ledger {ledger} does not keep its entries: a trigger or a rule drops them"
            )));
        }
    }
    Ok(done)
}

/// No row of the batch is to blame when the ledger refuses its entry.
fn of_the_ledger(ledger: &TableName, error: sqlx::Error) -> sqlx::Error {
    let code =
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap_or_default().into_owned();
    if error.as_database_error().is_some() && classify_sqlstate(&code) == FailureKind::Row {
        return Refused::fatal(format!("the ledger {ledger} refuses its entry (SQLSTATE {code})"));
    }
    error
}

/// The rows by the place they are in; `None` for a partition that is gone.
async fn places(
    session: &mut Session,
    rows: &[RowAddress],
    partitions: &Partitions,
) -> Result<Vec<(Option<Place>, Vec<RowAddress>)>, sqlx::Error> {
    let mut by_partition: BTreeMap<Option<u32>, Vec<RowAddress>> = BTreeMap::new();
    for row in rows {
        by_partition.entry(partitions.of(*row)).or_default().push(*row);
    }
    let oids: Vec<_> = by_partition.keys().copied().flatten().collect();
    let mut names = BTreeMap::new();
    if !oids.is_empty() {
        for row in query(sql::partition_names(&oids)).fetch_all(&mut ***session).await? {
            let table = TableName { schema: row.try_get("schema")?, name: row.try_get("name")? };
            names.insert(row.try_get::<i64, _>("oid")?, table);
        }
    }
    let place = |oid: Option<u32>| match oid {
        None => Some(Place::Table),
        Some(oid) => names.remove(&i64::from(oid)).map(|table| Place::Partition { table, oid }),
    };
    Ok(by_partition.into_iter().scan(place, |place, (oid, rows)| Some((place(oid), rows))).collect())
}

/// The rows of one place.
struct Here<'a> {
    target: &'a Target,
    place: &'a Place,
    archived: &'a [String],
}

impl Here<'_> {
    /// All of them, or an error: whoever is in the way, finding out costs more than every batch should pay.
    async fn at_once(&self, session: &mut Session, rows: &[RowAddress]) -> Result<BatchDone, sqlx::Error> {
        let taken = self.take(session, rows, Approach::AtOnce).await?;
        if !taken.tried {
            return self.look_first(session, rows).await;
        }
        if taken.deleted < rows.len() as u64 {
            return Err(Refused::row(
                "not every row of the batch is there and due, or lets itself be deleted",
            ));
        }
        Ok(BatchDone { deleted: taken.deleted, ..BatchDone::default() })
    }

    async fn contended(&self, session: &mut Session, rows: &[RowAddress]) -> Result<BatchDone, sqlx::Error> {
        if self.target.policy.parent_column.is_some() {
            return self.look_first(session, rows).await;
        }
        let taken = self.take(session, rows, Approach::LockFirst).await?;
        self.settle(session, rows, taken).await
    }

    async fn look_first(&self, session: &mut Session, rows: &[RowAddress]) -> Result<BatchDone, sqlx::Error> {
        let due = addresses(session, sql::still_due(self.target, self.place, rows, false)).await?.len();
        let kin = query(sql::lock_kin(self.target, rows)).fetch_all(&mut ***session).await?;
        let kin = kin.iter().map(kin_row).collect::<Result<Vec<_>, _>>()?;
        let held = due.saturating_sub(kin.len()) as u64;
        let missing = (rows.len() as u64).saturating_sub(held + kin.len() as u64);
        let free = forest::plan(&kin).rows;
        let mut done = BatchDone { held, missing, ..BatchDone::default() };
        if !free.is_empty() {
            let taken = self.take(session, &free, Approach::LockFirst).await?;
            if taken.tried {
                let settled = self.settle(session, &free, taken).await?;
                done.deleted = settled.deleted;
                done.stayed = settled.stayed;
                done.moved = settled.moved;
            } else {
                // Somebody refers to one of them since they were looked at. Which are free now, the next pass sees.
                done.missing += free.len() as u64;
            }
        }
        Ok(done)
    }

    async fn take(
        &self,
        session: &mut Session,
        rows: &[RowAddress],
        approach: Approach,
    ) -> Result<Taken, sqlx::Error> {
        let deletion =
            Deletion { target: self.target, place: self.place, rows, approach, archived: self.archived };
        let row = query(sql::delete_batch(deletion)).fetch_one(&mut ***session).await?;
        let count = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        let deleted = count("deleted")?;
        if let Disposition::Archive(archive) = &self.target.policy.disposition
            && count("kept")? != deleted
        {
            return Err(Refused::row(format!(
                "the archive {archive} does not keep every row: a trigger drops it"
            )));
        }
        let locked = if approach == Approach::LockFirst { count("locked")? } else { deleted };
        Ok(Taken { locked, deleted, tried: row.try_get("tried")? })
    }

    /// Accounts for the rows asked for that did not go.
    async fn settle(
        &self,
        session: &mut Session,
        rows: &[RowAddress],
        taken: Taken,
    ) -> Result<BatchDone, sqlx::Error> {
        let mut done = BatchDone { deleted: taken.deleted, ..BatchDone::default() };
        if taken.deleted == rows.len() as u64 {
            return Ok(done);
        }
        let left = |lock| sql::still_due(self.target, self.place, rows, lock);
        let remaining = addresses(session, left(false)).await?.len() as u64;
        if taken.deleted < taken.locked {
            // Ours, and yet still there.
            done.stayed = addresses(session, left(true)).await?;
        }
        let stayed = done.stayed.len() as u64;
        done.held = remaining.saturating_sub(stayed);
        // Locked by us, not deleted, and not there any more: changed in between, by somebody else or by a trigger.
        done.moved = taken.locked.saturating_sub(taken.deleted + stayed);
        done.missing = (rows.len() as u64).saturating_sub(taken.deleted + remaining + done.moved);
        Ok(done)
    }
}

async fn addresses(session: &mut Session, statement: Statement) -> Result<Vec<RowAddress>, sqlx::Error> {
    query(statement).fetch_all(&mut ***session).await?.iter().map(address).collect()
}

fn kin_row(row: &PgRow) -> Result<WindowRow, sqlx::Error> {
    Ok(WindowRow::new(address(row)?, parent(row)?, row.try_get("held_back")?))
}
