//! Row addresses: a `ctid` packed into the domain's eight bytes.

use std::fmt::Write as _;

use retention_domain::RowAddress;
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Reads the wire form of a `tid`: block number in the upper 48 bits, offset in the lower 16, so that addresses
/// compare like ctids.
pub(crate) fn from_wire(bytes: &[u8]) -> Option<RowAddress> {
    let bytes = <[u8; 6]>::try_from(bytes).ok()?;
    let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some(RowAddress(number))
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
        let _ = write!(text, "{comma}\"({},{})\"", row.0 >> 16, row.0 & 0xFFFF);
    }
    text.push('}');
    text
}

/// One address as the text of a `tid`.
pub(crate) fn tid(row: RowAddress) -> String {
    format!("({},{})", row.0 >> 16, row.0 & 0xFFFF)
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
    fn addresses_compare_like_ctids() {
        assert!(RowAddress(1 << 16 | 2) < RowAddress(2 << 16 | 1));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0, 3]), Some(RowAddress(7 << 16 | 3)));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0]), None);
    }
}
