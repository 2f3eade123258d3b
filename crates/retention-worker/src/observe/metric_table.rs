//! The table of all metrics: names, kinds, units, labels, buckets, help texts. Everything else about metrics reads
//! it: [`super::Metrics`] registers from it, `docs/metrics.md` is generated from it. Holds no values.

/// One metric family.
#[derive(Debug)]
pub struct Metric {
    /// The whole name.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: &'static str,
    /// Label names, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// What it says, in one line: the `# HELP` text.
    pub help: &'static str,
    /// What a reader must know beside it; may be empty.
    pub note: &'static str,
}

/// What a metric is to Prometheus.
#[derive(Debug)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound; the bounds are finite and ascend.
    Histogram(&'static [f64]),
}

/// The `state` label.
pub const STATES: [&str; 2] = ["pending", "blocked"];
/// The `kind` label of the error counter: [`retention_domain::FailureKind::label`], and the clock guard.
pub const ERROR_KINDS: [&str; 4] = ["transient", "row", "fatal", "clock"];
/// The `phase` of what belongs to no policy.
pub const RUN_PHASE: &str = "run";

/// Up to one hour; the default fuse of 30 minutes and its neighbourhood are told apart.
const RUN_DURATION_MS: [f64; 16] = [
    100.0,
    500.0,
    1_000.0,
    5_000.0,
    15_000.0,
    30_000.0,
    60_000.0,
    120_000.0,
    300_000.0,
    600_000.0,
    900_000.0,
    1_200_000.0,
    1_500_000.0,
    1_800_000.0,
    2_700_000.0,
    3_600_000.0,
];

/// From a batch of one row to the default statement bound of 30 seconds and beyond.
const BATCH_DURATION_SECONDS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Rows deleted in phase A.
pub const SICR_DELETED: Metric = Metric {
    name: "identity_session_retention_sicr_deleted_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[],
    help: "Sign-in confirmation requests deleted.",
    note: "Grows with each committed batch.",
};

/// Rows deleted in phase B.
pub const REFRESH_DELETED: Metric = Metric {
    name: "identity_session_retention_refresh_deleted_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &[],
    help: "Refresh sessions deleted.",
    note: "Grows with each committed batch.",
};

/// Rows deleted, by policy.
pub const DELETED: Metric = Metric {
    name: "identity_session_retention_deleted_total",
    kind: Kind::Counter,
    unit: "rows",
    labels: &["policy", "table"],
    help: "Rows deleted, by policy.",
    note: "Includes the two policies that have a counter of their own.",
};

/// Runs, by outcome.
pub const RUNS: Metric = Metric {
    name: "identity_session_retention_runs_total",
    kind: Kind::Counter,
    unit: "runs",
    labels: &["outcome"],
    help: "Runs that ended, by outcome.",
    note: "A run that could not start, for want of a database or because of the clock guard, counts as `failed`.",
};

/// Failures, by phase and kind.
pub const ERRORS: Metric = Metric {
    name: "identity_session_retention_errors_total",
    kind: Kind::Counter,
    unit: "errors",
    labels: &["phase", "kind"],
    help: "Failed attempts, by phase and kind.",
    note: "Retried attempts count too, and each row that was set aside counts once more as `row`. \
           A statement ended by the budget, the window or a shutdown is no error.",
};

/// Rows still due.
pub const BACKLOG: Metric = Metric {
    name: "identity_session_retention_backlog",
    kind: Kind::Gauge,
    unit: "rows",
    labels: &["policy", "table", "state"],
    help: "Rows still due when the last run that could count them ended.",
    note: "Keeps its value when a run could not count.",
};

/// Age of the oldest row still due.
pub const OLDEST_DUE_AGE: Metric = Metric {
    name: "identity_session_retention_oldest_due_age_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &["policy", "table", "state"],
    help: "Age of the oldest row still due, at the start of the last run that could count.",
    note: "`0` means counted and none left, `NaN` not counted yet. Keeps its value when a run could not count.",
};

/// When a run last succeeded.
pub const LAST_SUCCESS: Metric = Metric {
    name: "identity_session_retention_last_success_timestamp_seconds",
    kind: Kind::Gauge,
    unit: "seconds since 1970-01-01",
    labels: &[],
    help: "End of the last successful run of this process, by the database's clock.",
    note: "Successful is `completed`, or `stopped` by the time budget, the window or held rows; not by a shutdown. \
           `0` until the first success; `--metrics-file` keeps the file's earlier value instead.",
};

/// When the next run starts.
pub const NEXT_RUN: Metric = Metric {
    name: "identity_session_retention_next_run_timestamp_seconds",
    kind: Kind::Gauge,
    unit: "seconds since 1970-01-01",
    labels: &[],
    help: "When the next run is due to start.",
    note: "Only `serve` sets it.",
};

/// Slots met while a run was going on.
pub const SLOTS_SKIPPED: Metric = Metric {
    name: "identity_session_retention_slots_skipped_total",
    kind: Kind::Counter,
    unit: "slots",
    labels: &[],
    help: "Slots that passed while a run was still going on.",
    note: "",
};

/// Database's clock against ours.
pub const CLOCK_SKEW: Metric = Metric {
    name: "identity_session_retention_clock_skew_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    help: "Database's clock minus the worker's clock when the last run started.",
    note: "More than 60 either way is warned about, more than 3600 refuses the run.",
};

/// The setting, for alerts.
pub const INTERVAL: Metric = Metric {
    name: "identity_session_retention_interval_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &[],
    help: "Configured period between runs.",
    note: "Lets an alert say `2 * interval` without repeating the setting.",
};

/// The settings, for alerts.
pub const RETENTION: Metric = Metric {
    name: "identity_session_retention_retention_seconds",
    kind: Kind::Gauge,
    unit: "seconds",
    labels: &["policy"],
    help: "Configured retention period, by policy.",
    note: "",
};

/// How long runs take.
pub const RUN_DURATION: Metric = Metric {
    name: "identity_session_retention_run_duration_ms",
    kind: Kind::Histogram(&RUN_DURATION_MS),
    unit: "milliseconds",
    labels: &[],
    help: "How long runs took.",
    note: "Every run counted in `runs_total` is in it.",
};

/// How long batches take.
pub const BATCH_DURATION: Metric = Metric {
    name: "identity_session_retention_batch_duration_seconds",
    kind: Kind::Histogram(&BATCH_DURATION_SECONDS),
    unit: "seconds",
    labels: &["policy"],
    help: "How long committed batches took, by policy.",
    note: "Includes batches that deleted nothing.",
};

/// All of them, in the order of the documentation.
pub const ALL: [&Metric; 15] = [
    &SICR_DELETED,
    &REFRESH_DELETED,
    &RUN_DURATION,
    &BACKLOG,
    &ERRORS,
    &DELETED,
    &RUNS,
    &LAST_SUCCESS,
    &OLDEST_DUE_AGE,
    &NEXT_RUN,
    &SLOTS_SKIPPED,
    &CLOCK_SKEW,
    &INTERVAL,
    &RETENTION,
    &BATCH_DURATION,
];

impl Kind {
    /// The word of the `# TYPE` line.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use retention_domain::FailureKind;

    use super::*;

    #[test]
    fn names_are_unique_and_of_one_family() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            assert!(metric.name.starts_with("identity_session_retention_"), "{}", metric.name);
            let counter = matches!(metric.kind, Kind::Counter);
            assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
        }
    }

    #[test]
    fn buckets_ascend_and_are_finite() {
        for metric in ALL {
            let Kind::Histogram(buckets) = metric.kind else {
                continue;
            };
            assert!(
                buckets.is_sorted_by(|a, b| a < b) && buckets.iter().all(|b| b.is_finite()),
                "{}",
                metric.name
            );
        }
        assert_eq!(RUN_DURATION_MS.last(), Some(&3_600_000.0));
    }

    #[test]
    fn every_kind_of_failure_has_its_label_value() {
        for kind in [
            FailureKind::Transient,
            FailureKind::Timeout,
            FailureKind::Locked,
            FailureKind::TableLocked,
            FailureKind::Row,
            FailureKind::Fatal,
        ] {
            assert!(ERROR_KINDS.contains(&kind.label()), "{}", kind.label());
        }
    }
}
