//! Rows in the binary format of COPY, and the stream that carries them. Knows columns, not what they mean.

use std::net::IpAddr;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use sqlx::PgConnection;
use uuid::Uuid;

use super::shape::Micros;

/// Bytes collected before they are sent. Smaller means more messages; larger, that server and generator wait
/// for each other.
const CHUNK: usize = 1 << 20;

/// A table and the columns that are filled, in the order in which a row writes its fields.
pub struct Table {
    /// Qualified name.
    pub name: &'static str,
    /// Names of the columns.
    pub columns: &'static [&'static str],
}

/// A chunk of the stream under construction.
pub struct CopyBuffer(Vec<u8>);

/// Copies all rows into the table. `write` must write one field per column.
///
/// # Errors
///
/// When the server refuses the rows, or has taken another number of them.
pub async fn rows<T>(
    conn: &mut PgConnection,
    table: &Table,
    rows: impl Iterator<Item = T>,
    mut write: impl FnMut(T, &mut CopyBuffer),
    progress: &ProgressBar,
) -> anyhow::Result<()> {
    let Table { name, columns } = table;
    progress.set_message(*name);
    let statement = format!("COPY {name} ({}) FROM STDIN (FORMAT binary)", columns.join(", "));
    let mut stream =
        conn.copy_in_raw(&statement).await.with_context(|| format!("starting to fill {name}"))?;
    let mut buffer = CopyBuffer::new();
    let (mut sent, mut pending) = (0, 0);
    for row in rows {
        buffer.begin_row(columns.len());
        write(row, &mut buffer);
        pending += 1;
        if buffer.0.len() >= CHUNK {
            stream.send(buffer.0.as_slice()).await.with_context(|| format!("filling {name}"))?;
            buffer.0.clear();
            progress.inc(pending);
            sent += std::mem::take(&mut pending);
        }
    }
    buffer.end();
    stream.send(buffer.0.as_slice()).await.with_context(|| format!("filling {name}"))?;
    progress.inc(pending);
    sent += pending;
    let taken = stream.finish().await.map_err(|error| {
        let used = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
        let advice = if used { ": it holds rows of this seed already, choose another one" } else { "" };
        anyhow::Error::new(error).context(format!("filling {name}{advice}"))
    })?;
    ensure!(taken == sent, "filling {name}: {sent} rows were sent and {taken} were taken");
    Ok(())
}

impl CopyBuffer {
    /// An empty stream: signature, no flags, no header extension.
    pub fn new() -> Self {
        let mut bytes = Vec::with_capacity(CHUNK + CHUNK / 8);
        bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        bytes.extend_from_slice(&[0; 8]);
        Self(bytes)
    }

    /// Starts a row of this many fields.
    #[expect(clippy::cast_possible_truncation, reason = "a table has at most 1600 columns")]
    pub fn begin_row(&mut self, columns: usize) {
        self.0.extend_from_slice(&(columns as u16).to_be_bytes());
    }

    /// A `uuid`.
    pub fn uuid(&mut self, value: Uuid) {
        self.bytes(value.as_bytes());
    }

    /// A `uuid` or NULL.
    pub fn optional_uuid(&mut self, value: Option<Uuid>) {
        match value {
            Some(value) => self.uuid(value),
            None => self.null(),
        }
    }

    /// A `text`.
    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// A `text` or NULL.
    pub fn optional_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.null(),
        }
    }

    /// An `integer`.
    pub fn integer(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    /// A `timestamptz`.
    pub fn timestamp(&mut self, value: Micros) {
        self.bytes(&value.to_be_bytes());
    }

    /// An `inet` of one host, or NULL.
    pub fn optional_inet(&mut self, value: Option<IpAddr>) {
        // Family (2 or 3, whatever the platform's own numbers are), prefix length, "is no cidr", address length.
        match value {
            Some(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                self.bytes(&[2, 32, 0, 4, a, b, c, d]);
            }
            Some(IpAddr::V6(address)) => {
                let mut field = [3, 128, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                field[4..].copy_from_slice(&address.octets());
                self.bytes(&field);
            }
            None => self.null(),
        }
    }

    /// A `bytea`, and what all other fields are made of.
    #[expect(clippy::cast_possible_truncation, reason = "fields are a few dozen bytes long")]
    pub fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.0.extend_from_slice(value);
    }

    fn null(&mut self) {
        self.0.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    fn end(&mut self) {
        self.0.extend_from_slice(&(-1_i16).to_be_bytes());
    }

    /// What was written so far.
    #[cfg(test)]
    pub fn written(&self) -> &[u8] {
        &self.0
    }
}
