//! Windows as they come, and what becomes of them.

use futures_util::TryStreamExt;
use retention_domain::plan::Target;
use retention_domain::positions::Positions;
use retention_domain::{RowAddress, Window, WindowMark, WindowRow};
use sea_orm::Statement;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::address::{Partitions, from_wire, of_tid};
use crate::session::{Session, query};
use crate::sql;

/// The number of no row, and the address of none. Should a key have it, its children count as having no parent.
const NOBODY: u64 = 0;

/// The due rows of a table without a self-reference.
pub(crate) async fn of_table(
    session: &mut Session,
    target: &Target,
    after: Option<WindowMark>,
    max_rows: usize,
) -> Result<Window, sqlx::Error> {
    let row = query(sql::window(target, after, max_rows)).fetch_one(&mut ***session).await?;
    let addresses = unpack(&row)?.collect();
    lone(addresses, row, max_rows)
}

/// The due rows of a partitioned table.
pub(crate) async fn of_partitions(
    session: &mut Session,
    target: &Target,
    after: Option<WindowMark>,
    max_rows: usize,
    partitions: &Partitions,
) -> Result<Window, sqlx::Error> {
    let after = after.map(|mark| (mark, partitions.of(mark.address).unwrap_or_default()));
    let row = query(sql::partitioned_window(target, after, max_rows)).fetch_one(&mut ***session).await?;
    let oids = row.try_get::<Option<&[u8]>, _>(2)?.unwrap_or_default().as_chunks::<4>().0;
    let addresses = unpack(&row)?;
    if oids.len() != addresses.len() {
        return Err(sqlx::Error::ColumnNotFound("partitions".to_owned()));
    }
    let placed = addresses.zip(oids).map(|(row, oid)| partitions.place(row, u32::from_be_bytes(*oid)));
    let addresses = placed.collect::<Result<_, _>>()?;
    lone(addresses, row, max_rows)
}

/// The addresses in the first column of the only row.
fn unpack(row: &PgRow) -> Result<impl ExactSizeIterator<Item = RowAddress>, sqlx::Error> {
    let packed = row.try_get::<Option<&[u8]>, _>(0)?.unwrap_or_default();
    let (addresses, rest) = packed.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(sqlx::Error::ColumnNotFound("addresses".to_owned()));
    }
    Ok(addresses.iter().map(|tid| of_tid(*tid)))
}

/// A window of rows without relatives.
fn lone(addresses: Vec<RowAddress>, row: PgRow, max_rows: usize) -> Result<Window, sqlx::Error> {
    let next = mark(addresses.len() >= max_rows, Some(row), addresses.last().copied())?;
    let rows = addresses.into_iter().map(|address| WindowRow::new(address, None, false));
    Ok(Window { rows: rows.collect(), next })
}

/// The due rows of a table with a self-reference, each with its due parent, and whether it is held back.
pub(crate) async fn of_chains(
    session: &mut Session,
    target: &Target,
    after: Option<WindowMark>,
    max_rows: usize,
) -> Result<Window, sqlx::Error> {
    let (mut addresses, mut ids, mut parents) = (Vec::new(), Vec::new(), Vec::new());
    let last = each(session, sql::chains(target, after, max_rows), |row| {
        addresses.push(tid(row, 0)?);
        ids.push(id(row.try_get(2)?));
        parents.push(row.try_get::<Option<i64>, _>(3)?.map_or(NOBODY, id));
        Ok(())
    })
    .await?;
    let next = mark(addresses.len() >= max_rows, last, addresses.last().copied())?;
    let by_id = Positions::new(ids.len(), |row| ids[row]);

    let mut held_back = vec![false; addresses.len()];
    if !addresses.is_empty() {
        each(session, sql::held_back(target, after, next), |row| {
            if let Some(row) = by_id.find(id(row.try_get(0)?)) {
                held_back[row] = true;
            }
            Ok(())
        })
        .await?;
    }
    let mut elsewhere = Vec::new();
    let is_elsewhere = |parent: &u64| *parent != NOBODY && by_id.find(*parent).is_none();
    // A first page that is not full has all that is due.
    if (after.is_some() || next.is_some()) && parents.iter().any(is_elsewhere) {
        each(session, sql::parents_elsewhere(target, after, next), |row| {
            elsewhere.push((id(row.try_get(0)?), tid(row, 1)?));
            Ok(())
        })
        .await?;
    }
    elsewhere.sort_unstable();
    let find = |parent: u64| match by_id.find(parent) {
        Some(row) => Some(addresses[row]),
        None => elsewhere.binary_search_by_key(&parent, |(id, _)| *id).ok().map(|at| elsewhere[at].1),
    };
    // In place: what the rows were found by is as large as they are, and is let go of before they are put together.
    for parent in parents.iter_mut().filter(|parent| **parent != NOBODY) {
        *parent = find(*parent).map_or(NOBODY, |address| address.0);
    }
    drop((by_id, elsewhere));
    drop(ids);
    let rows = addresses.iter().zip(&parents).zip(&held_back).map(|((address, parent), held_back)| {
        WindowRow::new(*address, (*parent != NOBODY).then_some(RowAddress(*parent)), *held_back)
    });
    Ok(Window { rows: rows.collect(), next })
}

/// The due leaves of a table with a self-reference, each with its due parent.
pub(crate) async fn of_leaves(
    session: &mut Session,
    target: &Target,
    after: Option<WindowMark>,
    max_rows: usize,
) -> Result<Window, sqlx::Error> {
    let mut rows = Vec::new();
    let last = each(session, sql::leaves(target, after, max_rows), |row| {
        let parent = row.try_get::<Option<&[u8]>, _>(2)?.and_then(from_wire);
        rows.push(WindowRow::new(tid(row, 0)?, parent, false));
        Ok(())
    })
    .await?;
    let next = mark(rows.len() >= max_rows, last, rows.last().map(|row| row.address))?;
    Ok(Window { rows, next })
}

/// Hands over each row as it comes, so that no more than one of them is in memory; the last one is returned. Bounded by what
/// is left of the transaction's time.
async fn each(
    session: &mut Session,
    statement: Statement,
    mut read: impl FnMut(&PgRow) -> Result<(), sqlx::Error> + Send,
) -> Result<Option<PgRow>, sqlx::Error> {
    session.bound_by_what_is_left().await?;
    let mut last = None;
    let mut rows = query(statement).fetch(&mut ***session);
    while let Some(row) = rows.try_next().await? {
        read(&row)?;
        last = Some(row);
    }
    Ok(last)
}

/// Where the next window goes on: after the last row of this one, if it is full.
fn mark(
    is_full: bool,
    last: Option<PgRow>,
    address: Option<RowAddress>,
) -> Result<Option<WindowMark>, sqlx::Error> {
    let last = last.zip(address).filter(|_| is_full);
    last.map(|(row, address)| Ok(WindowMark { age: row.try_get(1)?, address })).transpose()
}

fn tid(row: &PgRow, column: usize) -> Result<RowAddress, sqlx::Error> {
    from_wire(row.try_get(column)?).ok_or_else(|| sqlx::Error::ColumnNotFound("address".to_owned()))
}

fn id(number: i64) -> u64 {
    number.cast_unsigned()
}
