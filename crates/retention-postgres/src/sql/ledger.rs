//! The ledger: one row for each batch, in the transaction of its delete.

use retention_domain::TableName;
use retention_domain::plan::Target;
use sea_orm::Statement;

use super::{Sql, table_literal};

/// Records one batch. Holds no value of a row, only how many there were.
#[must_use]
pub fn ledger_entry(ledger: &TableName, target: &Target, job_run_id: &str, rows: u64) -> Statement {
    let mut sql = Sql::default();
    let run = sql.bind(job_run_id);
    let policy = sql.bind(target.policy.name.as_str());
    let table = sql.bind(target.policy.table.to_string());
    let cutoff = sql.bind(target.cutoff.instant());
    let rows = sql.bind(i64::try_from(rows).unwrap_or(i64::MAX));
    let ledger = table_literal(ledger);
    sql.finish(format!(
        "INSERT INTO {ledger} (job_run_id, policy, table_name, cutoff, rows, deleted_at)
VALUES ({run}::text::uuid, {policy}, {table}, {cutoff}, {rows}, pg_catalog.clock_timestamp())"
    ))
}
