//! Row addresses: a `ctid`, and the number of the partition it is in, packed into the domain's eight bytes.
//!
//! From the lowest bit: 16 bits of the offset, 32 of the block, 14 of the partition's number in [`Partitions`]. Number 0
//! stands for the policy's table itself.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use retention_domain::RowAddress;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::Refused;

/// Reads the wire form of a `tid`: block number in the upper 48 bits, offset in the lower 16, so that addresses
/// compare like ctids.
pub(crate) fn from_wire(bytes: &[u8]) -> Option<RowAddress> {
    bytes.try_into().ok().map(of_tid)
}

/// The same, of as many bytes as there must be.
pub(crate) fn of_tid(bytes: [u8; 6]) -> RowAddress {
    RowAddress(bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
}

/// The column `address` of a row.
pub(crate) fn address(row: &PgRow) -> Result<RowAddress, sqlx::Error> {
    from_wire(row.try_get("address")?).ok_or_else(|| sqlx::Error::ColumnNotFound("address".to_owned()))
}

/// The column `parent` of a row.
pub(crate) fn parent(row: &PgRow) -> Result<Option<RowAddress>, sqlx::Error> {
    Ok(row.try_get::<Option<&[u8]>, _>("parent")?.and_then(from_wire))
}

/// The array literal of these addresses, to be bound as text and cast to `tid[]`.
pub(crate) fn tid_list(rows: &[RowAddress]) -> String {
    let mut text = String::with_capacity(rows.len() * 14 + 2);
    text.push('{');
    for (n, row) in rows.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}\"({},{})\"", block(*row), row.0 & 0xFFFF);
    }
    text.push('}');
    text
}

/// One address as the text of a `tid`.
pub(crate) fn tid(row: RowAddress) -> String {
    format!("({},{})", block(row), row.0 & 0xFFFF)
}

fn block(row: RowAddress) -> u32 {
    u32::try_from(row.0 >> 16 & u64::from(u32::MAX)).unwrap_or_default()
}

/// The partitions that addresses speak of, by number. One list for the life of a store: a number keeps its meaning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partitions(Arc<Mutex<Vec<u32>>>);

/// As many as the numbers of an address can tell apart, without 0.
const MAX_PARTITIONS: usize = (1 << 14) - 1;

impl Partitions {
    /// The row's address, given the partition it is in.
    ///
    /// # Errors
    /// When there are more partitions than an address can tell apart.
    pub(crate) fn place(&self, row: RowAddress, partition: u32) -> Result<RowAddress, sqlx::Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = known.iter().rposition(|oid| *oid == partition).unwrap_or_else(|| {
            known.push(partition);
            known.len() - 1
        });
        if index >= MAX_PARTITIONS {
            return Err(Refused::fatal(
                "there are more partitions with due rows than 16383, which are supported",
            ));
        }
        Ok(RowAddress(row.0 | (index as u64 + 1) << 48))
    }

    /// The partition's oid; `None` for a row of a table without partitions.
    pub(crate) fn of(&self, row: RowAddress) -> Option<u32> {
        let index = usize::try_from(row.0 >> 48).ok()?.checked_sub(1)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_an_array_of_tids() {
        let rows: Vec<_> = [(0_u64, 1_u64), (7, 65_535), (u64::from(u32::MAX), 3)]
            .map(|(block, offset)| RowAddress(block << 16 | offset))
            .into();
        let text = tid_list(&rows);
        assert_eq!(text, r#"{"(0,1)","(7,65535)","(4294967295,3)"}"#);
    }

    #[test]
    fn a_partition_is_part_of_the_address_and_not_of_the_tid() {
        let partitions = Partitions::default();
        let row = RowAddress(7 << 16 | 3);
        let [first, second, again] = [4001, u32::MAX, 4001].map(|oid| partitions.place(row, oid).unwrap());
        assert_eq!((first, first == second), (again, false));
        assert_eq!([first, second, row].map(|row| partitions.of(row)), [Some(4001), Some(u32::MAX), None]);
        assert_eq!([first, second, row].map(tid), ["(7,3)"; 3].map(str::to_owned));
        assert_eq!(tid_list(&[second]), r#"{"(7,3)"}"#);
        assert!(second.0 < 1 << 62);
    }

    #[test]
    fn more_partitions_than_an_address_can_hold_are_refused() {
        let partitions = Partitions::default();
        let placed = |oid| partitions.place(RowAddress(u64::from(u32::MAX) << 16), oid);
        assert!((0..16_383).all(|oid| placed(oid).is_ok_and(|row| row.0 < 1 << 62)));
        assert!(placed(16_383).is_err());
        assert!(placed(5).is_ok());
    }

    #[test]
    fn addresses_compare_like_ctids() {
        assert!(RowAddress(1 << 16 | 2) < RowAddress(2 << 16 | 1));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0, 3]), Some(RowAddress(7 << 16 | 3)));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0]), None);
    }
}
