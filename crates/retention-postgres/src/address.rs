//! Row addresses: a `ctid` packed into the domain's eight bytes.

use std::fmt::Write as _;

use retention_domain::RowAddress;

/// Reads the wire form of a `tid`: block number in the upper 48 bits, offset in the lower 16, so that addresses
/// compare like ctids.
pub(crate) fn from_wire(bytes: &[u8]) -> Option<RowAddress> {
    let bytes = <[u8; 6]>::try_from(bytes).ok()?;
    let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some(RowAddress(number))
}

/// Reads the text form of a ctid list as [`tid_list`] writes it: `{"(0,1)","(0,2)"}`.
pub(crate) fn parse_tid_list(text: &str) -> Option<Vec<RowAddress>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = inner.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut rows = Vec::new();
    while let Some(block) = numbers.next() {
        let block: u32 = block.parse().ok()?;
        let offset: u16 = numbers.next()?.parse().ok()?;
        rows.push(RowAddress(u64::from(block) << 16 | u64::from(offset)));
    }
    Some(rows)
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
    fn addresses_are_written_and_read_back() {
        let rows: Vec<_> = [(0_u64, 1_u64), (7, 65_535), (u64::from(u32::MAX), 3)]
            .map(|(block, offset)| RowAddress(block << 16 | offset))
            .into();
        let text = tid_list(&rows);
        assert_eq!(text, r#"{"(0,1)","(7,65535)","(4294967295,3)"}"#);
        assert_eq!(parse_tid_list(&text), Some(rows));
        assert_eq!(parse_tid_list("{}"), Some(Vec::new()));
        assert_eq!(parse_tid_list("(0,1)"), None);
    }

    #[test]
    fn addresses_compare_like_ctids() {
        assert!(RowAddress(1 << 16 | 2) < RowAddress(2 << 16 | 1));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0, 3]), Some(RowAddress(7 << 16 | 3)));
        assert_eq!(from_wire(&[0, 0, 0, 7, 0]), None);
    }
}
