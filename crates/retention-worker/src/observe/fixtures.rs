//! Values and a log reader for the tests of what is told. Nothing here is built outside tests.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use retention_domain::calendar::Schedule;
use retention_domain::guard::Condition;
use retention_domain::{
    Backlog, Cutoff, PolicyName, PolicyReport, RetentionPeriod, RetentionPolicy, RunReport, StopReason,
    TableName,
};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::Status;

/// 2026-11-30T02:00:00Z.
pub(crate) const NIGHT: DateTime<Utc> = DateTime::from_timestamp(1_796_004_000, 0).unwrap();
pub(crate) const INTERVAL: Duration = Duration::from_secs(86_400);
pub(crate) const RUN_ID: &str = "0195d1c2-0000-7000-8000-000000000001";

/// A value that a declared policy compares with: it must not show up anywhere.
pub(crate) const CONDITION_VALUE: &str = "a-value-of-a-condition";

/// The two built-in policies and a declared one.
pub(crate) fn policies() -> Vec<RetentionPolicy> {
    let days = |days| RetentionPeriod::from_days(days).unwrap();
    let outbox = RetentionPolicy {
        name: PolicyName::new("outbox"),
        table: TableName::new("review", "outbox"),
        conditions: vec![Condition::is_in("state", [CONDITION_VALUE])],
        ..RetentionPolicy::sicr(days(7))
    };
    vec![RetentionPolicy::sicr(days(30)), RetentionPolicy::refresh(days(90)), outbox]
}

/// A status of a process that started at [`NIGHT`], every night's 02:00 to 05:00, with the clock standing there.
pub(crate) fn status() -> Status {
    Status::new(&policies(), schedule(), || NIGHT)
}

pub(crate) fn schedule() -> Schedule {
    Schedule::new("02:00-05:00".parse().unwrap(), INTERVAL).unwrap()
}

/// A report on one policy: drained, nothing deleted, nothing left.
pub(crate) fn part(policy: &RetentionPolicy) -> PolicyReport {
    PolicyReport {
        policy: policy.name.clone(),
        table: policy.table.clone(),
        cutoff: Cutoff::before(NIGHT, policy.retention).unwrap(),
        deleted: 0,
        batches: 0,
        skipped: 0,
        failed_rows: 0,
        stop_reason: StopReason::Drained,
        error: None,
        backlog: Some(Backlog::default()),
    }
}

/// A run of 1.5 seconds in which every policy drained.
pub(crate) fn report() -> RunReport {
    RunReport {
        job_run_id: RUN_ID.to_owned(),
        started_at: NIGHT,
        duration: Duration::from_millis(1_500),
        policies: policies().iter().map(part).collect(),
    }
}

/// Keeps what is logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// The clock of test lines.
#[derive(Debug)]
pub(crate) struct Still;

impl FormatTime for Still {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        fmt::Write::write_str(writer, "2026-11-30T02:00:00.000000Z")
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
