//! The rows of a window as they come: packed into a few byte strings.

use retention_domain::{RowAddress, WindowRow};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::address::{Partitions, from_wire};

/// Bytes of an address on the wire.
const TID: usize = 6;
/// What stands for no parent: `sql::window`'s `NO_PARENT`.
const NO_PARENT: [u8; TID] = [0xFF; TID];

/// The rows of a window, in its order. `partitions`: the window is one over partitions.
///
/// # Errors
/// When a column is missing, or not as long as the number of rows demands.
pub(crate) fn rows(window: &PgRow, partitions: Option<&Partitions>) -> Result<Vec<WindowRow>, sqlx::Error> {
    let column = |name| window.try_get::<Option<&[u8]>, _>(name).map(Option::unwrap_or_default);
    let oids = if partitions.is_some() { column("partitions")? } else { &[] };
    let rows = unpack(column("addresses")?, column("parents")?, column("held_back")?)
        .ok_or_else(|| sqlx::Error::ColumnNotFound("addresses".to_owned()))?;
    let Some(partitions) = partitions else { return Ok(rows) };
    let (oids, rest) = oids.as_chunks::<4>();
    if oids.len() != rows.len() || !rest.is_empty() {
        return Err(sqlx::Error::ColumnNotFound("partitions".to_owned()));
    }
    let place = |(row, oid): (&WindowRow, &[u8; 4])| {
        Ok(WindowRow::new(partitions.place(row.address, u32::from_be_bytes(*oid))?, None, false))
    };
    rows.iter().zip(oids).map(place).collect()
}

fn unpack(addresses: &[u8], parents: &[u8], held_back: &[u8]) -> Option<Vec<WindowRow>> {
    let (addresses, rest) = addresses.as_chunks::<TID>();
    let (parents, odd) = parents.as_chunks::<TID>();
    if !rest.is_empty() || !odd.is_empty() {
        return None;
    }
    let address = |bytes: &[u8; TID]| from_wire(bytes).unwrap_or(RowAddress(0));
    if parents.is_empty() && held_back.is_empty() {
        return Some(addresses.iter().map(|row| WindowRow::new(address(row), None, false)).collect());
    }
    if parents.len() != addresses.len() || held_back.len() != addresses.len() {
        return None;
    }
    let parent = |bytes: &[u8; TID]| (*bytes != NO_PARENT).then(|| address(bytes));
    let row = |((row, up), held): ((&[u8; TID], &[u8; TID]), &u8)| {
        WindowRow::new(address(row), parent(up), *held != 0)
    };
    Some(addresses.iter().zip(parents).zip(held_back).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: [u8; TID] = [0, 0, 0, 7, 0, 3];
    const SECOND: [u8; TID] = [0xFF, 0xFF, 0xFF, 0xFE, 0, 1];

    #[test]
    fn rows_come_out_as_they_went_in() {
        let (first, second) = (RowAddress(7 << 16 | 3), RowAddress(0xFFFF_FFFE << 16 | 1));
        let addresses = [FIRST, SECOND].concat();
        assert_eq!(
            unpack(&addresses, &[SECOND, NO_PARENT].concat(), &[0, 1]),
            Some(vec![WindowRow::new(first, Some(second), false), WindowRow::new(second, None, true)])
        );
        assert_eq!(
            unpack(&addresses, &[], &[]),
            Some(vec![WindowRow::new(first, None, false), WindowRow::new(second, None, false)])
        );
        assert_eq!(unpack(&[], &[], &[]), Some(Vec::new()));
    }

    #[test]
    fn lengths_that_do_not_fit_are_no_window() {
        assert_eq!(unpack(&FIRST[..5], &[], &[]), None);
        assert_eq!(unpack(&FIRST, &[FIRST, FIRST].concat(), &[0]), None);
        assert_eq!(unpack(&FIRST, &FIRST, &[]), None);
    }

    #[test]
    fn no_parent_is_what_the_statement_says() {
        assert_eq!(crate::sql::NO_PARENT, "ff".repeat(NO_PARENT.len()));
    }
}
