//! Snapshots of every generated statement: text and bound values apart. A reviewer reads these.

use std::fmt::Write as _;

use chrono::DateTime;
use retention_domain::guard::{Condition, Test, Value};
use retention_domain::plan::Target;
use retention_domain::policy::Disposition;
use retention_domain::{
    Cutoff, PolicyName, RetentionPeriod, RetentionPolicy, RowAddress, TableName, WindowMark,
};
use sea_orm::Statement;

use super::{Approach, Deletion, Place};

fn days(days: u32) -> RetentionPeriod {
    RetentionPeriod::from_days(days).unwrap()
}

fn target(policy: RetentionPolicy) -> Target {
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    Target { cutoff: Cutoff::before(now, policy.retention).unwrap(), policy }
}

fn sicr() -> Target {
    target(RetentionPolicy::sicr(days(30)))
}

fn refresh() -> Target {
    target(RetentionPolicy::refresh(days(90)))
}

/// Names that would break out of anything but a quoted identifier.
fn odd() -> Target {
    let mut policy = RetentionPolicy::refresh(days(90));
    policy.name = PolicyName::new("odd");
    policy.table = TableName::new("my \"schema", "Robert'); DROP TABLE x;--");
    policy.key = vec!["the key".to_owned()];
    policy.age_column = "AGE".to_owned();
    policy.parent_column = Some("\"parent\"".to_owned());
    policy.conditions[0].column = "sta tus".to_owned();
    target(policy)
}

/// A policy with every kind of condition, and an archive.
fn declared() -> Target {
    let mut policy = RetentionPolicy::sicr(days(7));
    policy.name = PolicyName::new("declared");
    policy.table = TableName::new("review", "outbox");
    let condition = |column: &str, test| Condition { column: column.to_owned(), test };
    policy.conditions = vec![
        condition("acked", Test::IsNotNull),
        condition("deleted_at", Test::IsNull),
        condition("action", Test::NotIn(vec![Value::Text("keep".to_owned())])),
        condition("tries", Test::In(vec![Value::Integer(3), Value::Integer(-1)])),
        condition("done", Test::In(vec![Value::Boolean(true)])),
    ];
    target(policy)
}

fn partition() -> Place {
    Place::Partition { table: TableName::new("parts", "outbox_p2026"), oid: 4711 }
}

fn archiving(place: &Place) -> Statement {
    let mut target = declared();
    target.policy.disposition = Disposition::Archive(TableName::new("review", "outbox_archive"));
    let (rows, archived) = (rows(), ["id", "Weird \"column\""].map(str::to_owned));
    let approach = Approach::AtOnce;
    super::delete_batch(Deletion { target: &target, place, rows: &rows, approach, archived: &archived })
}

fn rows() -> Vec<RowAddress> {
    vec![RowAddress(1), RowAddress(7 << 16 | 3)]
}

fn deleting(target: &Target, approach: Approach) -> Statement {
    let rows = rows();
    super::delete_batch(Deletion { target, place: &Place::Table, rows: &rows, approach, archived: &[] })
}

fn later() -> WindowMark {
    WindowMark { age: DateTime::from_timestamp(1_700_000_001, 0).unwrap(), address: RowAddress(7 << 16 | 1) }
}

fn mark() -> WindowMark {
    WindowMark {
        age: DateTime::from_timestamp(1_700_000_000, 123_456_000).unwrap(),
        address: RowAddress(9 << 16 | 4),
    }
}

fn shown(statement: &Statement) -> String {
    let mut text = format!("{}\n", statement.sql);
    for (n, value) in statement.values.as_ref().map(|values| &values.0).into_iter().flatten().enumerate() {
        write!(text, "\n-- ${} = {value:?}", n + 1).unwrap();
    }
    text
}

macro_rules! snapshot {
    ($name:ident, $statement:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), shown(&$statement));
        }
    };
}

snapshot!(sicr_window, super::window(&sicr(), None, 1_000_000));
snapshot!(sicr_window_continued, super::window(&sicr(), Some(mark()), 1_000_000));
snapshot!(sicr_delete_batch, deleting(&sicr(), Approach::AtOnce));
snapshot!(sicr_delete_batch_contended, deleting(&sicr(), Approach::LockFirst));
snapshot!(declared_delete_batch, deleting(&declared(), Approach::AtOnce));
snapshot!(declared_archive_batch, archiving(&Place::Table));
snapshot!(declared_archive_batch_of_a_partition, archiving(&partition()));
snapshot!(
    declared_partitioned_window,
    super::partitioned_window(&declared(), Some((mark(), 4711)), 1_000_000)
);
snapshot!(declared_still_due_of_a_partition, super::still_due(&declared(), &partition(), &rows(), true));
snapshot!(
    declared_ledger,
    super::ledger_entry(&TableName::new("retention", "ledger"), &declared(), "a run", 7)
);
snapshot!(declared_partitions, super::partitions(&declared().policy.table));
snapshot!(declared_partitions_before, super::partitions_before(&declared()));
snapshot!(declared_partition_names, super::partition_names(&[4711, 4712]));
snapshot!(declared_are_one, super::are_one(&declared().policy.table, &TableName::new("review", "archive")));
snapshot!(declared_columns_of, super::columns_of(&declared().policy.table));
snapshot!(sicr_count_due, super::count_due(&sicr(), &Place::Table));
snapshot!(sicr_backlog, super::backlog(&sicr(), &Place::Table));
snapshot!(sicr_preview_extras, super::preview_extras(&sicr(), &Place::Table));
snapshot!(declared_preview_extras, super::preview_extras(&declared(), &Place::Table));
snapshot!(refresh_window, super::chains(&refresh(), None, 1_000_000));
snapshot!(refresh_window_continued, super::chains(&refresh(), Some(mark()), 1_000_000));
snapshot!(refresh_held_back, super::held_back(&refresh(), None, None));
snapshot!(refresh_held_back_between, super::held_back(&refresh(), Some(mark()), Some(later())));
snapshot!(refresh_parents_elsewhere, super::parents_elsewhere(&refresh(), None, Some(mark())));
snapshot!(
    refresh_parents_elsewhere_between,
    super::parents_elsewhere(&refresh(), Some(mark()), Some(later()))
);
snapshot!(refresh_leaves, super::leaves(&refresh(), None, 1_000_000));
snapshot!(refresh_leaves_continued, super::leaves(&refresh(), Some(mark()), 1_000_000));
snapshot!(refresh_delete_batch, deleting(&refresh(), Approach::AtOnce));
snapshot!(refresh_delete_batch_contended, deleting(&refresh(), Approach::LockFirst));
snapshot!(refresh_lock_kin, super::lock_kin(&refresh(), &rows()));
snapshot!(refresh_still_due, super::still_due(&refresh(), &Place::Table, &rows(), false));
snapshot!(refresh_sample, super::sample(&refresh(), 110));
snapshot!(refresh_count_due, super::count_due(&refresh(), &Place::Table));
snapshot!(refresh_backlog, super::backlog(&refresh(), &Place::Table));
snapshot!(refresh_preview_extras, super::preview_extras(&refresh(), &Place::Table));
snapshot!(refresh_columns, super::columns(&refresh().policy.table));
snapshot!(preflight_server, super::preflight_server());
snapshot!(sicr_preflight_table, super::preflight_table(&sicr().policy));
snapshot!(refresh_preflight_table, super::preflight_table(&refresh().policy));
snapshot!(refresh_preflight_foreign_keys, super::preflight_foreign_keys(&refresh().policy));
snapshot!(refresh_preflight_triggers, super::preflight_triggers(&refresh().policy));
snapshot!(refresh_preflight_age_index, super::preflight_age_index(&refresh(), &Place::Table));
snapshot!(odd_names_preflight_age_index, super::preflight_age_index(&odd(), &Place::Table));
snapshot!(refresh_preflight_churn, super::preflight_churn(&refresh().policy));
snapshot!(refresh_climb, super::climb(&refresh(), &rows(), 100_000));
snapshot!(odd_names_window, super::chains(&odd(), None, 10));
snapshot!(odd_names_held_back, super::held_back(&odd(), None, Some(mark())));
snapshot!(odd_names_parents_elsewhere, super::parents_elsewhere(&odd(), None, Some(mark())));
snapshot!(odd_names_sample, super::sample(&odd(), 1));
snapshot!(odd_names_leaves, super::leaves(&odd(), None, 10));
snapshot!(odd_names_delete_batch, deleting(&odd(), Approach::AtOnce));
snapshot!(odd_names_lock_kin, super::lock_kin(&odd(), &rows()));
snapshot!(odd_names_backlog, super::backlog(&odd(), &Place::Table));

/// Every value of a policy is bound: the text holds none of them, whatever they are.
#[test]
fn no_value_reaches_the_text() {
    let mut target = refresh();
    target.policy.conditions[0] = Condition::is_in("status", ["it's", "\"; DROP TABLE x; --", "$1"]);
    target.policy.known_values = vec!["Known'Value".to_owned()];
    for statement in [
        super::window(&target, Some(mark()), 10),
        super::chains(&target, Some(mark()), 10),
        super::held_back(&target, Some(mark()), Some(later())),
        super::parents_elsewhere(&target, Some(mark()), Some(later())),
        super::sample(&target, 7),
        super::leaves(&target, Some(mark()), 10),
        deleting(&target, Approach::AtOnce),
        deleting(&target, Approach::LockFirst),
        super::lock_kin(&target, &rows()),
        super::still_due(&target, &Place::Table, &rows(), true),
        super::climb(&target, &rows(), 10),
        super::count_due(&target, &Place::Table),
        super::backlog(&target, &Place::Table),
        super::preview_extras(&target, &Place::Table),
        super::preflight_table(&target.policy),
        super::preflight_age_index(&target, &Place::Table),
    ] {
        for value in ["it's", "DROP TABLE", "Known'Value", "2023-11-14", "(9,4)"] {
            assert!(!statement.sql.contains(value), "{value} in {}", statement.sql);
        }
    }
}
